"""`knowhub mcp`: MCP over stdin and stdout. A running server is asked; without one the hub opens in this process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from knowhub.cli import output
from knowhub.cli.commands import command
from knowhub.cli.hub_access import load_settings, parse_model
from knowhub.cli.options import CallerOptions
from knowhub.cli.running_server import find_server
from knowhub.core.errors import KnowHubError, Unavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from knowhub.bootstrap import Hub
    from knowhub.core.request_context import RequestContext
    from knowhub.settings import Settings
    from knowhub.web.mcp.endpoint import McpEndpoint

app = typer.Typer()


@command(app, "mcp")
def mcp(
    options: CallerOptions,
    tools: Annotated[str | None, typer.Option(help="core, all, or names of tools. Default: KNOWHUB_MCP_TOOLS.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Ask the server at this address, with the key in KNOWHUB_API_KEY if it is set.")
    ] = None,
) -> None:
    """Serve MCP on stdin and stdout, for agents that start it themselves.

    It asks the server that has the data directory open, or the one at --url, and opens the directory itself where no
    server has it. The options fix who is asking: a model cannot change it.
    """
    import asyncio

    if url is not None:
        from knowhub.cli.hosts.connection import check_url

        if options.data_dir or tools:
            raise typer.BadParameter("--url names a server, which has its own data directory and tools; give it alone")
        check_url(url)
    settings = load_settings(options, mcp_tools=tools)
    asyncio.run(_serve(settings, options.ids(), url, None if url is None else _get_key()))


def _get_key() -> str | None:
    from knowhub.settings import get_api_key

    try:
        return get_api_key()
    except ValueError as error:
        raise typer.BadParameter(f"KNOWHUB_API_KEY {error}") from error


async def _serve(settings: Settings, ids: dict[str, str | None], url: str | None, key: str | None) -> None:
    import asyncio
    from functools import partial

    from knowhub.settings import default_owner
    from knowhub.web.json_limits import make_json_limits
    from knowhub.web.mcp.stdio import StdioWire

    wire = StdioWire(settings.max_batch_body_bytes, make_json_limits(settings))
    # Clients wait a few seconds for the first answer, which needs no data. The rest is loaded afterwards.
    version = await wire.greet()
    if wire.is_over:
        return
    import httpx

    from knowhub.web.mcp.bridge import Bridge

    is_named = url is not None or ids["user_id"] is not None or ids["agent_id"] is not None
    owner = None if is_named else await asyncio.to_thread(default_owner, settings)
    find = partial(find_server, settings.data_dir, settings.mcp_tools, owner)
    opening, transport = None, None
    if url is not None:
        find_url = partial(str, url)
    elif await asyncio.to_thread(find) is not None:
        find_url = partial(_find_url, find, settings)
    else:
        find_url = partial(str, "http://localhost")
        opened: asyncio.Future[McpEndpoint] = asyncio.get_running_loop().create_future()
        opening = asyncio.create_task(_keep_open(settings, ids, opened), name="opening the hub")
        transport = httpx.ASGITransport(partial(_answer_here, opened))
    caller = {name: value for name, value in ids.items() if value is not None}
    bridge = Bridge(find_url, caller, key, version, settings.mcp_tools if url is None else "core", transport)
    try:
        await wire.forward(bridge.ask)
    finally:
        await bridge.close()
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)


def _find_url(find: Callable[[], str | None], settings: Settings) -> str:
    """Return the address of the server that has the data directory open. Raises Unavailable."""
    url = find()
    if url is None:
        raise Unavailable(
            f"no server has {settings.data_dir} open any more. Start it with `knowhub serve --data-dir "
            f"{settings.data_dir}`, and call again"
        )
    return url


async def _answer_here(opened: asyncio.Future[McpEndpoint], scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request in this process, once the hub is open. Raises KnowHubError if it could not be opened."""
    import asyncio

    from starlette.requests import Request

    from knowhub.web.request_guard import BODY

    endpoint = await asyncio.shield(opened)
    body = await Request(scope, receive).body()
    await endpoint({**scope, BODY: body}, receive, send)


async def _keep_open(settings: Settings, ids: dict[str, str | None], opened: asyncio.Future[McpEndpoint]) -> None:
    """Open the hub and keep it until this task is cancelled. `opened` gets its endpoint, or the error."""
    import asyncio

    try:
        # In threads: the imports take a second.
        await asyncio.to_thread(import_module, "knowhub.bootstrap")
        await asyncio.to_thread(import_module, "knowhub.web.mcp.endpoint")
        from knowhub.bootstrap import open_hub
        from knowhub.web.mcp.endpoint import McpEndpoint
        from knowhub.web.mcp.tools import choose_tools
        from knowhub.web.schemas.parts import CallerIds

        caller_ids = parse_model(CallerIds, ids)
        tools = choose_tools(settings.mcp_tools)
        async with open_hub(settings) as hub:

            async def find_caller(_request: Request) -> tuple[Hub, RequestContext]:
                return hub, caller_ids.to_context(hub.default_owner)

            opened.set_result(McpEndpoint(tools, find_caller))
            await asyncio.Event().wait()
    except (KnowHubError, OSError, ValueError, typer.BadParameter) as error:
        if opened.done():
            raise
        # The client sees the error with its first call; a person at the terminal sees this line.
        output.warn(str(error))
        opened.set_exception(error if isinstance(error, KnowHubError) else Unavailable(str(error)))
