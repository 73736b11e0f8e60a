"""`knowhub mcp`: MCP over stdin and stdout, in this process, on a data directory that a server may have open too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from knowhub.cli import output
from knowhub.cli.commands import command
from knowhub.cli.hub_access import load_settings, parse_model
from knowhub.cli.options import CallerOptions
from knowhub.core.errors import KnowHubError, Unavailable

if TYPE_CHECKING:
    import asyncio

    from mcp.server.lowlevel.server import Server
    from starlette.requests import Request

    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext
    from knowhub.settings import Settings
    from knowhub.web.mcp.server import CallerOf, LoadTools
    from knowhub.web.mcp.tools import ToolSet

app = typer.Typer()


@command(app, "mcp")
def mcp(
    options: CallerOptions,
    tools: Annotated[str | None, typer.Option(help="core, all, or names of tools. Default: KNOWHUB_MCP_TOOLS.")] = None,
) -> None:
    """Serve MCP on stdin and stdout, for agents that start it themselves.

    It works beside a server on the same directory. The options fix who is asking: a model cannot change it.
    """
    import asyncio

    asyncio.run(_serve(load_settings(options, mcp_tools=tools), options.ids()))


async def _serve(settings: Settings, ids: dict[str, str | None]) -> None:
    import asyncio

    from knowhub.web.json_text import json_limits
    from knowhub.web.mcp.stdio import StdioWire

    wire = StdioWire(settings.max_batch_body_bytes, json_limits(settings))
    # Clients wait a few seconds for the first answer, which needs no data. The rest is loaded afterwards.
    await wire.greet()
    opened: asyncio.Future[_Opened] = asyncio.get_running_loop().create_future()

    async def caller_of(_request: Request | None) -> tuple[Hub, RequestContext]:
        found = await asyncio.shield(opened)
        return found.hub, found.caller

    async def load_tools() -> ToolSet:
        return (await asyncio.shield(opened)).tools

    opening = asyncio.create_task(_keep_open(settings, ids, opened), name="opening the hub")
    try:
        await wire.serve(await asyncio.to_thread(_make_server, load_tools, caller_of))
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)


def _make_server(load_tools: LoadTools, caller_of: CallerOf) -> Server[Any]:
    from knowhub.web.mcp.server import HubServer

    return HubServer(load_tools, caller_of).server


class _Opened(NamedTuple):
    hub: Hub
    caller: RequestContext
    tools: ToolSet


async def _keep_open(settings: Settings, ids: dict[str, str | None], opened: asyncio.Future[_Opened]) -> None:
    """Open the hub and keep it until this task is cancelled. `opened` gets the result, or the error."""
    import asyncio

    try:
        await asyncio.to_thread(_import_hub)
        from knowhub.bootstrap import open_hub
        from knowhub.web.mcp.tools import choose_tools
        from knowhub.web.schemas.parts import CallerIds

        given = parse_model(CallerIds, ids)
        tools = choose_tools(settings.mcp_tools)
        async with open_hub(settings) as hub:
            opened.set_result(_Opened(hub, given.context(hub.default_owner), tools))
            await asyncio.Event().wait()
    except (KnowHubError, OSError, ValueError, typer.BadParameter) as error:
        if opened.done():
            raise
        # The client sees the error with its first call; a person at the terminal sees this line.
        output.warn(str(error))
        opened.set_exception(error if isinstance(error, KnowHubError) else Unavailable(str(error)))


def _import_hub() -> None:
    import knowhub.bootstrap
    import knowhub.web.mcp.tools  # noqa: F401 -- imported in a thread: it takes a second
