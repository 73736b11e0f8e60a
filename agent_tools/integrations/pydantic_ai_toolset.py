"""KnowHub's tools for Pydantic AI.

Needs the extra `pydantic-ai`. See docs/how-to/use-pydantic-ai.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai import FunctionToolset, Tool, ToolReturn

from agent_tools.integrations.framework_tools import DEFAULT_NAMES, FrameworkTool, select_tools


def make_toolset(
    names: Sequence[str] = DEFAULT_NAMES, *, caller: Mapping[str, str] | None = None
) -> FunctionToolset[object]:
    """Return tools that act for `caller`, such as `{"user_id": "li"}`; without one, for the run that calls them.

    A model reads the fenced text only. The `metadata` of the returned part are those of the `ToolResult`. Raises
    ValueError for an unknown name.
    """
    return FunctionToolset([_make_tool(tool) for tool in select_tools(names, caller)])


def _make_tool(tool: FrameworkTool) -> Tool[object]:
    async def call(**arguments: Any) -> ToolReturn[str]:  # noqa: ANN401 -- as the schema says
        result = await tool.call(arguments)
        return ToolReturn(str(result), metadata=result.metadata)

    return Tool.from_schema(call, tool.name, tool.description, tool.schema)
