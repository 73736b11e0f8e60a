"""KnowHub's tools for LangChain.

Needs the extra `langchain`. See docs/how-to/use-langchain.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from agent_tools.integrations.blocking import run_blocking
from agent_tools.integrations.framework_tools import DEFAULT_NAMES, FrameworkTool, select_tools
from agent_tools.results import ToolResult


def make_langchain_tools(
    names: Sequence[str] = DEFAULT_NAMES, *, caller: Mapping[str, str] | None = None
) -> list[BaseTool]:
    """Return tools that act for `caller`, such as `{"user_id": "li"}`; without one, for the run that calls them.

    A model reads the fenced text only. The artifact of the message is the `ToolResult` with the records. A failure is a
    message with the status "error". Raises ValueError for an unknown name.
    """
    return [_make_tool(tool) for tool in select_tools(names, caller)]


def _make_tool(tool: FrameworkTool) -> BaseTool:
    async def call(**arguments: Any) -> tuple[str, ToolResult]:  # noqa: ANN401 -- as the schema says
        result = await tool.call(arguments)
        if result.error is not None:
            raise ToolException(result.output)
        return str(result), result

    def call_and_wait(**arguments: Any) -> tuple[str, ToolResult]:  # noqa: ANN401 -- as the schema says
        return run_blocking(call(**arguments))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.schema,
        func=call_and_wait,
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
