"""The MCP server: tools, resources and prompts on the hub of the app, answered for the caller of each request."""

from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import mcp_types as types
import structlog
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from knowhub.bootstrap import Hub
from knowhub.core.errors import KnowHubError, Unavailable
from knowhub.core.request_context import RequestContext
from knowhub.web.json_parsing import list_field_errors
from knowhub.web.json_rpc import COUNT_WRITE, INITIALIZE
from knowhub.web.mcp.greeting import INSTRUCTIONS
from knowhub.web.mcp.tools import McpTool, read_resource

_SCHEME: Final = "knowhub://"
_NAMED_PROBLEMS: Final = 5
_SHOWN_NAME_CHARS: Final = 80
_PROFILE: Final = f"{_SCHEME}profile"
_PROMPTS: Final = {
    "recall_before_task": (
        "Recall what is known before a task.",
        "Call the tool `recall` with this task, read what fits with `read`, and then plan: {task}",
    ),
    "save_lessons": (
        "Save what was learnt.",
        """Look back at this task: {task}
Save with `save` each lesson that a later run needs and could not guess: one record per lesson, complete enough to act
on. Give `feedback` on each recalled record that helped or was wrong.""",
    ),
}

_log = structlog.get_logger("knowhub.mcp")

FindCaller = Callable[[Any], Awaitable[tuple[Hub, RequestContext]]]
"""Returns the hub and the caller of an HTTP request. Raises KnowHubError."""


class HubServer:
    """Answers MCP requests. `find_caller` finds out who calls: a model never chooses that."""

    def __init__(self, tools: Sequence[McpTool], find_caller: FindCaller) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._find_caller = find_caller
        self.server: Server[Any] = Server(
            "knowhub",
            version=version("knowhub"),
            instructions=INSTRUCTIONS,
            get_tool_input_schema=_find_headers,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_resource_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        self.server.middleware.append(self._name_failure)

    async def _name_failure(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request. Raises MCPError that says what KnowHub refuses."""
        is_known = ctx.request_id is None or ctx.method == INITIALIZE or self.server.get_request_handler(ctx.method)
        if not is_known:
            # The library would look at the parameters first.
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        try:
            return await call_next(ctx)
        except KnowHubError as error:
            code = types.INTERNAL_ERROR if isinstance(error, Unavailable) else types.INVALID_PARAMS
            raise MCPError(code, " ".join(error.detail.splitlines())) from error

    async def _list_tools(
        self, _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[describe_tool(tool) for tool in self._tools.values()])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        result = await self._run_tool(ctx, params)
        # Over stdio there is no app, and nobody scrapes.
        app = ctx.request and ctx.request.scope.get("app")
        if app is not None:
            # A client may send any name, and each would stay there for ever.
            tool = params.name if params.name in self._tools else "unknown"
            app.state.metrics.count_tool_call(tool, is_error=bool(result.is_error))
        return result

    async def _run_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            tool = self._tools.get(params.name)
            if tool is None:
                known = ", ".join(self._tools)
                return _refuse(f"no tool {params.name[:_SHOWN_NAME_CHARS]!r}; known are {known}")
            arguments = tool.arguments.model_validate(params.arguments or {})
            hub, caller = await self._find_caller(ctx.request)
            count_write = ctx.request and ctx.request.scope.get(COUNT_WRITE)
            if count_write is not None and not tool.is_read_only:
                await count_write()
            answer = await tool.run(hub, caller, arguments)
        except ValidationError as error:
            return _refuse(_name_wrong_arguments(error))
        except KnowHubError as error:
            return _refuse(error.detail)
        except Exception as error:  # noqa: BLE001 -- the client gets an answer, and the log the cause
            _log.exception("mcp_tool_failed", tool=params.name, error=repr(error))
            return _refuse("the server failed; its log says why")
        text = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[text], structured_content=dict(answer.data))

    async def _list_resources(
        self, _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        profile = types.Resource(uri=_PROFILE, name="profile", description="What is known about the user.")
        return types.ListResourcesResult(resources=[profile])

    async def _list_resource_templates(
        self, _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        row = types.ResourceTemplate(
            uri_template=f"{_SCHEME}{{+id}}", name="row", description="A record, memory, keyword or info by its id."
        )
        return types.ListResourceTemplatesResult(resource_templates=[row])

    async def _read_resource(
        self, ctx: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        address = str(params.uri)
        if not address.startswith(_SCHEME) or address == _SCHEME:
            raise MCPError(types.INVALID_PARAMS, f"no resource {address!r}; addresses begin with {_SCHEME}")
        hub, caller = await self._find_caller(ctx.request)
        text = await read_resource(hub, caller, address.removeprefix(_SCHEME))
        contents = types.TextResourceContents(uri=address, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _list_prompts(
        self, _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        task = types.PromptArgument(name="task", description="What is to be done, or was done.", required=True)
        prompts = [
            types.Prompt(name=name, description=description, arguments=[task])
            for name, (description, _) in _PROMPTS.items()
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def _get_prompt(
        self, _ctx: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name not in _PROMPTS:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name!r}; known are {', '.join(_PROMPTS)}")
        task = (params.arguments or {}).get("task", "")
        if not task:
            raise MCPError(types.INVALID_PARAMS, "the argument task is missing")
        description, text = _PROMPTS[params.name]
        content = types.TextContent(type="text", text=text.replace("{task}", task))
        return types.GetPromptResult(
            description=description, messages=[types.PromptMessage(role="user", content=content)]
        )


def _find_headers(_tool: str) -> None:
    """Say that no argument of a tool is sent as a header too: else the library would list all tools for each call."""


def describe_tool(tool: McpTool) -> types.Tool:
    """Return a tool as it is listed."""
    annotations = types.ToolAnnotations(
        read_only_hint=tool.is_read_only,
        destructive_hint=False,
        open_world_hint=False,
    )
    return types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=annotations)


def _name_wrong_arguments(error: ValidationError) -> str:
    problems = [f"{problem.field}: {problem.message}" for problem in list_field_errors(error)]
    more = f"; and {len(problems) - _NAMED_PROBLEMS} more" if len(problems) > _NAMED_PROBLEMS else ""
    return f"wrong arguments: {'; '.join(problems[:_NAMED_PROBLEMS])}{more}"


def _refuse(detail: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=detail)], is_error=True)
