"""The HTTP face: one FastAPI app on one Hub."""

import pkgutil
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.clock import Clock, SystemClock
from knowhub.core.ids import RandomIds
from knowhub.settings import Settings
from knowhub.web import error_responses, openapi
from knowhub.web import routes as route_modules
from knowhub.web.auth import AuthMiddleware, log_first_steps
from knowhub.web.hooks.service import HookService
from knowhub.web.json_limits import make_json_limits
from knowhub.web.mcp.endpoint import make_route
from knowhub.web.metrics import Metrics
from knowhub.web.middleware import ConcurrencyLimit, Cors, HostGuard, RequestIdMiddleware
from knowhub.web.rate_limiter import RateLimiter, RateLimits
from knowhub.web.request_guard import NDJSON, BodyRules, RequestGuard
from knowhub.web.route import Routes

# Fixed paths come before paths with an id, and what is asked for most comes first. Other modules follow.
_ORDER = (
    "exchange",
    "knowledge",
    "keyword_files",
    "keywords",
    "infos",
    "resources",
    "context",
    "operations",
    "admin",
    "maintenance",
)


def _load_route_groups() -> list[Routes]:
    """Return the `routes` of every module in knowhub/web/routes/."""
    names = [module.name for module in pkgutil.iter_modules(route_modules.__path__)]
    names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    return [import_module(f"{route_modules.__name__}.{name}").routes for name in names]


_GROUPS = _load_route_groups()
_ROUTES = [route for group in _GROUPS for route in group]
_DESCRIPTION = (
    "Keeps what agents learn and hands it back at the moment it is needed. "
    "Errors are RFC 9457 problems; every write is one operation that can be undone."
)


class _App(FastAPI):
    """FastAPI without the layers that no route of this server needs: each costs time in every request."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the middleware before the routes; `RequestIdMiddleware` is the first, and answers what fails."""
        app: ASGIApp = ExceptionMiddleware(self.router, self.exception_handlers)
        for layer in reversed(self.user_middleware):
            app = layer.cls(app, *layer.args, **layer.kwargs)
        return app


def create_app(settings: Settings, hub: Hub | None = None) -> FastAPI:
    """Build the app. Without a `hub` it opens one from `settings` at start and closes it at the end."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_hub(settings) as opened:
            _attach_hub(app, opened)
            await log_first_steps(opened)
            yield
            await app.state.hooks.close()

    app = _App(
        title="KnowHub",
        version=version("knowhub"),
        summary="What agents learn, kept and found again.",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=None if hub else lifespan,
        # Whatever a slash at the end means, it does not mean another place.
        redirect_slashes=False,
        # `/metrics` counts and times requests.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.settings = settings
    app.state.answer_challenge = lambda _headers: {}
    app.state.metrics = metrics
    if hub is not None:
        _attach_hub(app, hub)
    app.router.routes.extend(_ROUTES)
    app.router.routes.append(make_route(settings.mcp_tools))
    _serve_docs(app)
    error_responses.install(app, [route for route in app.routes if isinstance(route, StarletteRoute)])
    openapi.install(app, _GROUPS)
    _add_middleware(app, settings, hub.clock if hub else SystemClock())
    app.add_middleware(RequestIdMiddleware, ids=RandomIds(), observe=metrics.observe)
    return app


def _add_middleware(app: FastAPI, settings: Settings, clock: Clock) -> None:
    """Put before the routes what the settings ask for. The last one added is the first to see a request."""
    large = [route.path for route in _ROUTES if route.options.get("is_large")]
    rules = BodyRules(
        max_bytes=settings.max_body_bytes,
        batch_bytes=settings.max_batch_body_bytes,
        held_bytes=settings.max_held_body_bytes,
        caller_bytes=settings.max_held_body_bytes_per_caller,
        json=make_json_limits(settings),
        large=frozenset(large),
        large_below=tuple(path.partition("{")[0] for path in large if "{" in path),
        lines={route.path: route.options.get("media_types", NDJSON) for route in _ROUTES if route.takes_lines},
        arrival_timeout_s=settings.request_timeout_s,
    )
    if settings.max_concurrent_requests:
        # After the body: a request whose body arrives slowly must not take a slot.
        app.add_middleware(ConcurrencyLimit, max_running=settings.max_concurrent_requests)
    app.add_middleware(RequestGuard, rules=rules)
    limits = RateLimits(settings.rate_limit_per_minute, settings.writes_per_day)
    if limits != RateLimits(0, 0):
        app.add_middleware(RateLimiter, limits=limits, clock=clock)
    if settings.auth == "none":
        app.add_middleware(HostGuard, allowed_hosts=settings.allowed_hosts, origins=settings.cors_origins)
    else:
        # A web page has no key, and keys are for those who come from elsewhere: any Host will do.
        app.add_middleware(AuthMiddleware)
    if settings.cors_origins:
        app.add_middleware(Cors, origins=settings.cors_origins)


def _attach_hub(app: FastAPI, hub: Hub) -> None:
    app.state.hub = hub
    app.state.metrics.watch(hub)
    app.state.hooks = HookService(hub, app.state.metrics)


def _serve_docs(app: FastAPI) -> None:
    """Serve Swagger UI from files that are installed here: no page of ours asks anybody else."""
    assets = Path(fastapi_offline.__file__).parent / "static"
    app.mount("/docs/assets", StaticFiles(directory=assets), name="docs-assets")

    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="KnowHub",
        swagger_js_url="/docs/assets/swagger-ui-bundle.js",
        swagger_css_url="/docs/assets/swagger-ui.css",
        swagger_favicon_url="/docs/assets/favicon.png",
        # Without this, the page of a hub that is not on loopback asks a validator on the internet.
        swagger_ui_parameters={"validatorUrl": "none"},
    )
    page.headers.update(_make_page_headers(bytes(page.body).decode()))

    async def docs(_request: Request) -> HTMLResponse:
        return page

    async def home(_request: Request) -> RedirectResponse:
        return RedirectResponse("/docs")

    app.add_route("/docs", docs, include_in_schema=False)
    app.add_route("/", home, include_in_schema=False)


def _make_page_headers(page: str) -> dict[str, str]:
    """Return the headers of the docs page: it runs only its own scripts, and no page may frame it.

    Swagger UI puts style attributes into the page and draws icons from data: addresses; its own script is named by its
    hash, so that an injected script would not run.
    """
    scripts_in_page = (part.partition("</script>")[0] for part in page.split("<script>")[1:])
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts_in_page)
    scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in hashes)])
    policy = (
        "default-src 'none'",
        f"script-src {scripts}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {"Content-Security-Policy": "; ".join(policy), "X-Frame-Options": "DENY"}
