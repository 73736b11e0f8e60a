"""`knowhub serve`: run the server in one process on one socket."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import command
from knowhub.cli.hub_access import load_settings
from knowhub.cli.options import CommonOptions
from knowhub.cli.running_server import Announcement
from knowhub.core.errors import Forbidden, Unavailable

if TYPE_CHECKING:
    from knowhub.settings import Settings

# The share of the shutdown time for running requests. The rest is for closing the hub.
_DRAIN_SHARE = 0.8
_BACKLOG = 2048
# Longer than clients and proxies keep a connection. They close it first, so no request meets a closing connection.
_KEEP_ALIVE_S = 65

app = typer.Typer()


@command(app, "serve")
def serve(
    options: CommonOptions,
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: KNOWHUB_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 takes a free port. Default: KNOWHUB_PORT.")
    ] = None,
) -> None:
    """Run the server until Ctrl-C or SIGTERM."""
    from knowhub.settings import find_unknown_variables

    settings = load_settings(options, host=host, port=port)
    for name, similar in find_unknown_variables().items():
        output.warn(f"{name} is no setting and is ignored" + (f"; did you mean {similar}?" if similar else ""))
    run_server(settings, bind_socket(settings), as_json=options.as_json)


def bind_socket(settings: Settings) -> socket.socket:
    """Bind the socket of the settings.

    Raises Forbidden when anyone could reach it without a key, and Unavailable when the address cannot be used.
    """
    import ipaddress

    try:
        addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise Unavailable(f"{settings.host!r} is not an address of this machine: {error}") from error
    # A name such as localhost may have several addresses. Prefer IPv4, which our URLs show.
    family, kind, protocol, _, address = min(addresses, key=lambda item: item[0] != socket.AF_INET)
    is_guarded = settings.auth != "none" or settings.allow_open_bind
    if not ipaddress.ip_address(address[0]).is_loopback and not is_guarded:
        raise Forbidden(
            f"without authentication KnowHub listens on loopback only, and {settings.host} is not loopback: anyone who "
            "reaches it could read and change everything. Use --host 127.0.0.1, set KNOWHUB_AUTH=api-key, or set "
            "KNOWHUB_ALLOW_OPEN_BIND=yes if something else protects the server"
        )
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        detail = f"cannot listen on {settings.host} port {settings.port}: {error.strerror}"
        raise Unavailable(f"{detail}. Name another port with --port") from error
    return listening


def run_server(settings: Settings, listening: socket.socket, *, as_json: bool) -> None:
    """Serve on a bound socket until a signal arrives. Raises what opening the data directory raises."""
    import logging
    import signal
    from functools import partial

    import uvicorn

    from knowhub.web.app import create_app
    from knowhub.web.http_protocol import DiscardQueue, HeadLimits, HttpProtocol
    from knowhub.web.server import Server, tune_interpreter

    _configure_logging(settings)
    tune_interpreter()

    def announce() -> None:
        # The reader of the line may connect at once. A connection before the server accepts waits in the queue.
        listening.listen(_BACKLOG)
        announcement.publish(settings, listening, web_app.state.hub.default_owner)
        _print_start(settings, listening, web_app.state.hub.indexes.embedding.describe(), as_json=as_json)

    announcement = Announcement(settings.data_dir)
    web_app = create_app(settings)
    web_app.state.answer_challenge = announcement.answer_challenge
    app = _AnnouncingApp(web_app, announce)
    logging.getLogger("uvicorn.error").addFilter(lambda _: app.failure is None)
    limits = HeadLimits(settings.max_header_bytes, settings.max_header_fields, settings.request_timeout_s)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=partial(HttpProtocol, limits=limits, discard_queue=DiscardQueue()),  # type: ignore[arg-type] # called as the class is
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        backlog=_BACKLOG,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(settings.shutdown_timeout_s * _DRAIN_SHARE),
    )
    # uvicorn finishes the running requests and then sends itself the signal again. A clean end is status 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        Server(config, settings.shutdown_timeout_s, announcement.withdraw).run(sockets=[listening])
    except SystemExit:
        if app.failure is None:
            raise
    except KeyboardInterrupt:
        output.warn("stopped")
    if app.failure is not None:
        raise app.failure


def _print_start(settings: Settings, listening: socket.socket, embedding: Mapping[str, Any], *, as_json: bool) -> None:
    host, port = listening.getsockname()[:2]
    model, problems = embedding["model"], embedding["problems"]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if as_json:
        start = {"url": url, "docs": f"{url}/docs", "data_dir": str(settings.data_dir), "embedder": model}
        output.print_json(start | {"problems": problems})
        return
    search = "words only" if model is None else f"words and {model}"
    if embedding["source"] == "server":
        search += " (/ready says whether its server answers)"
    search += f" ({'; '.join(problems)})" if problems else ""
    output.say(f"KnowHub on {url} - docs at /docs - data in {settings.data_dir} - search by {search}")


class _AnnouncingApp:
    """The ASGI app. It announces that it has started, and keeps the error if it could not start or stop."""

    def __init__(self, app: Any, announce: Callable[[], None]) -> None:  # noqa: ANN401 -- any ASGI app
        self._app = app
        self._announce = announce
        self.failure: BaseException | None = None

    def __call__(self, scope: Any, receive: Any, send: Any) -> Any:  # noqa: ANN401 -- the ASGI signature
        # Not async: a request goes straight to the app, without a frame of this class.
        run = self._lifespan if scope["type"] == "lifespan" else self._app
        return run(scope, receive, send)

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 -- the ASGI signature
        async def forward(message: Any) -> None:  # noqa: ANN401 -- the ASGI signature
            # Without its text: uvicorn would print that traceback.
            await send({"type": message["type"]})
            if message["type"] == "lifespan.startup.complete":
                self._announce()

        try:
            await self._app(scope, receive, forward)
        except BaseException as error:
            self.failure = error
            raise


def make_screen_renderer() -> Any:  # noqa: ANN401 -- structlog is imported here only
    """Return the renderer of log lines for a person. The default one would also print the values of variables."""
    import structlog

    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def _configure_logging(settings: Settings) -> None:
    """Write all log lines to stderr with structlog, those of libraries too."""
    import logging

    import structlog

    class StructlogHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)

    on_screen = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if on_screen else [structlog.processors.format_exc_info]),
            make_screen_renderer() if on_screen else structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[StructlogHandler()], level=logging.WARNING, force=True)
