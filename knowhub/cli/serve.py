"""The server: one process on one socket, which says where it is and why it would not start."""

import gc
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Annotated, Any

import structlog
import typer

from knowhub.cli import output
from knowhub.cli.hub_access import settings_of
from knowhub.cli.options import Place, spread
from knowhub.core.errors import Forbidden, Unavailable
from knowhub.settings import Settings

_DRAIN_S = 20
_BACKLOG = 2048
_GC_THRESHOLDS = (50_000, 20, 100)
# Longer than clients and proxies keep a connection: they close it, and no request meets a closing one.
_KEEP_ALIVE_S = 65


@spread
def serve(
    place: Place,
    host: Annotated[str | None, typer.Option(help="The address to listen on. Else KNOWHUB_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one. Else KNOWHUB_PORT.")] = None,
) -> None:
    """Run the server until it is told to end (Ctrl-C, SIGTERM)."""
    settings = settings_of(place, host=host, port=port)
    run_server(settings, listen(settings), as_json=place.as_json)


def listen(settings: Settings) -> socket.socket:
    """Bind the socket that `settings` name. Raises Forbidden for an open one, Unavailable when it cannot be had."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as problem:
        raise Unavailable(f"{settings.host!r} is no address of this machine: {problem}") from problem
    # A name such as localhost may have several: the one that our URLs show comes first.
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    is_guarded = settings.auth != "none" or settings.allow_open_bind
    if not ipaddress.ip_address(address[0]).is_loopback and not is_guarded:
        raise Forbidden(
            f"without authentication KnowHub listens on loopback only, which {settings.host} is not: whoever reached "
            "it could read and change everything. Use --host 127.0.0.1, set KNOWHUB_AUTH=api-key, or "
            "KNOWHUB_ALLOW_OPEN_BIND=yes where something else keeps strangers out"
        )
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as problem:
        listening.close()
        detail = f"cannot listen on {settings.host} port {settings.port}: {problem.strerror}"
        raise Unavailable(f"{detail}. Name another port with --port") from problem
    return listening


def run_server(settings: Settings, listening: socket.socket, *, as_json: bool) -> None:
    """Serve on a bound socket until a signal ends it. Raises what opening the data directory raises."""
    import uvicorn

    from knowhub.web.app import create_app
    from knowhub.web.typed_addresses import AddressReadingProtocol

    _log_to_stderr(settings)
    # Rows and heads hold no cycles: looking for some in them again and again would only cost.
    gc.set_threshold(*_GC_THRESHOLDS)

    def announce() -> None:
        # Who reads the line may connect at once: whoever comes before the server accepts waits in the queue.
        listening.listen(_BACKLOG)
        host, port = listening.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if as_json:
            output.print_json({"url": url, "docs": f"{url}/docs", "data_dir": str(settings.data_dir)})
        else:
            output.say(f"KnowHub on {url} - docs at /docs - data in {settings.data_dir}")

    app = _Application(create_app(settings), announce)
    logging.getLogger("uvicorn.error").addFilter(lambda _: app.failure is None)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=AddressReadingProtocol,
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
        timeout_graceful_shutdown=_DRAIN_S,
    )
    # uvicorn ends what is under way, and then sends itself the signal again: ending well is 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except SystemExit:
        if app.failure is None:
            raise
    except KeyboardInterrupt:
        output.warn("stopped")
    if app.failure is not None:
        raise app.failure


class _Application:
    """The app, which says when it has started, and keeps the reason why it could not start or end."""

    def __init__(self, app: Any, announce: Callable[[], None]) -> None:  # noqa: ANN401 -- any ASGI app
        self._app = app
        self._announce = announce
        self.failure: BaseException | None = None

    def __call__(self, scope: Any, receive: Any, send: Any) -> Any:  # noqa: ANN401 -- as ASGI has it
        # Not async: a request goes straight to the app, with no frame of ours in between.
        run = self._lifespan if scope["type"] == "lifespan" else self._app
        return run(scope, receive, send)

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 -- as ASGI has it
        async def passed_on(message: Any) -> None:  # noqa: ANN401 -- as ASGI has it
            # Less its text, which is a traceback that uvicorn would print.
            await send({"type": message["type"]})
            if message["type"] == "lifespan.startup.complete":
                self._announce()

        try:
            await self._app(scope, receive, passed_on)
        except BaseException as problem:
            self.failure = problem
            raise


class _ToStructlog(logging.Handler):
    """Hands what libraries log to structlog, so that there is one form of log line."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def screen_renderer() -> structlog.dev.ConsoleRenderer:
    """Return what writes log lines for a person; the default one would write the values of variables too."""
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def _log_to_stderr(settings: Settings) -> None:
    on_screen = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if on_screen else [structlog.processors.format_exc_info]),
            screen_renderer() if on_screen else structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=logging.WARNING, force=True)
