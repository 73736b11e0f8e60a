"""`/mcp`: MCP over streamable HTTP, in the same process and behind the same guards as the API.

The library is imported with the first request: it costs as much as a third of a start.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from knowhub.bootstrap import Hub
from knowhub.core.request_context import RequestContext
from knowhub.web.auth import make_request_context
from knowhub.web.json_rpc import PATH, find_fault, make_refusal
from knowhub.web.mcp.tools import McpTool, choose_tools
from knowhub.web.request_guard import BODY
from knowhub.web.request_parsing import parse_query
from knowhub.web.schemas.parts import AddressedCallerIds

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from knowhub.web.mcp.server import FindCaller

_ACCEPTED: Final = ("*/*", "application/*", "application/json")


class McpEndpoint:
    """An ASGI app for one path. Each request is answered on its own; no session is kept."""

    def __init__(self, tools: Sequence[McpTool], find_caller: "FindCaller") -> None:
        self._tools = tools
        self._find_caller = find_caller
        self._server: asyncio.Task[Server[Any]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST, whose body a guard has read already."""
        body = scope.get(BODY, b"")
        # The library would answer with the text of its own checks.
        fault = find_fault(body)
        if fault is not None:
            await Response(orjson.dumps(fault), 400, media_type="application/json")(scope, receive, send)
            return
        accepted = Request(scope).headers.get("accept", "").lower()
        if not any(kind in accepted for kind in _ACCEPTED):
            refusal = make_refusal(406, "the header Accept must allow application/json")
            await Response(orjson.dumps(refusal), 406, media_type="application/json")(scope, receive, send)
            return
        if self._server is None:
            self._server = asyncio.create_task(asyncio.to_thread(self._make_server), name="loading MCP")
        server = await asyncio.shield(self._server)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415 -- see above

        # The library refuses white space that HTTP allows around the value of a header.
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        # The size was checked before; a limit of the library would contradict the setting.
        size = max(1, len(body))
        manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=size)
        async with manager.run():
            await manager.handle_request({**scope, "headers": headers}, _replay(body, receive), send)

    def _make_server(self) -> "Server[Any]":
        from knowhub.web.mcp.server import HubServer  # noqa: PLC0415 -- see above

        return HubServer(self._tools, self._find_caller).server


def make_route(tools: str) -> Route:
    """Return the route for the tools of KNOWHUB_MCP_TOOLS. Raises InvalidInput for an unknown tool.

    Other methods than POST are answered 405: streams from the server are not offered.
    """
    return _McpRoute(PATH, McpEndpoint(choose_tools(tools), _find_caller), methods=["POST"], include_in_schema=False)


class _McpRoute(Route):
    """A route whose requests are counted by its path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not Match.NONE else child


async def _find_caller(request: Request) -> tuple[Hub, RequestContext]:
    """Return the hub and the caller: the holder of the key, and the ids in the address.

    Raises InvalidInput for an unknown or invalid id, and Forbidden for an id that is not the key's.
    """
    ids = parse_query(request.scope["query_string"], AddressedCallerIds)
    return request.app.state.hub, make_request_context(request, ids)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body which was read already."""
    unread = [body]

    async def replay() -> Message:
        return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

    return replay
