"""The ASGI middleware before every route: ids and failures of requests, hosts and origins, CORS, how many at once."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowhub.core.ids import Ids
from knowhub.web.error_responses import ProblemKind, Refusal, answer_refusal

# Replaces a header that came twice with two values; no host has this name.
_TWO_VALUES = b"two different ones"
_MAX_REQUEST_ID_CHARS = 200
_CLIENT_LEFT = 499
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
# A browser also sends `same-origin`, and `none` for a typed address.
_FOREIGN = frozenset({b"cross-site", b"same-site"})
_FOREIGN_PAGE = (
    "pages of other sites may not call this hub; name an allowed site in KNOWHUB_CORS_ORIGINS, and use fetch"
)
_PAGES = frozenset({"/", "/docs"})
_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_REQUEST_HEADERS = b"Authorization, Content-Type, Idempotency-Key, If-Match, X-API-Key, X-Request-ID"
_ANSWER_HEADERS = b"Allow, ETag, Location, Retry-After, X-Operation-Id, X-Request-ID"
_AN_HOUR_S = b"3600"
_VARY = (b"vary", b"Origin")
_ANYWHERE = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
# An answer is for its caller: no cache may store it.
_API = (*_ANYWHERE, (b"cache-control", b"no-store"))
_UNEXPECTED = Refusal(ProblemKind.INTERNAL_ERROR, "something failed that should not; it was logged")
# An operator must see the state of a server that is at its limit.
_ALWAYS = frozenset({"/health", "/ready", "/metrics"})
_FULL = Refusal(ProblemKind.UNAVAILABLE, "this hub answers as many requests at once as it may; try again")

_log = structlog.get_logger("knowhub.web")


class RequestIdMiddleware:
    """Gives each request its id, and has it counted by `observe`, with its status and seconds.

    It logs what nobody expected, and answers it where there is no answer yet.
    """

    def __init__(self, app: ASGIApp, ids: Ids, observe: Callable[[Scope, int, float], None]) -> None:
        self._app = app
        self._ids = ids
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _sent_request_id(scope) or self._ids.hex(32).encode()
        started = time.perf_counter()
        status = _CLIENT_LEFT

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id),
                    *(_API if scope["path"].startswith("/api/") else _ANYWHERE),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            request = {"path": scope["path"], "request_id": request_id.decode()}
            _log.error("unexpected_error", **request, error=repr(error), exc_info=error)
            if status == _CLIENT_LEFT:
                await answer_refusal(send_with_headers, scope, _UNEXPECTED)
            status = 500
            raise
        finally:
            self._observe(scope, status, time.perf_counter() - started)


class HostGuard:
    """Refuses requests for other hosts and from pages of other origins: a web page must not reach a local server."""

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str], origins: Sequence[str] = ()) -> None:
        self._app = app
        self._allowed = frozenset(allowed_hosts)
        self._origins = frozenset(origins)
        # Enough for every honest caller.
        self._find_refusal = lru_cache(maxsize=1000)(self._check_host_and_origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with 403."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = origin = None
        is_foreign = False
        for name, value in scope["headers"]:
            if name == b"host":
                host = value if host in (None, value) else _TWO_VALUES
            elif name == b"origin":
                origin = value if origin in (None, value) else _TWO_VALUES
            elif name == b"sec-fetch-site":
                is_foreign |= value in _FOREIGN
        refusal = self._find_refusal(host, origin)
        if refusal is None and is_foreign and origin is None and not _is_page(scope["path"]):
            # An image or a link names no origin. Its page reads no answer, but a reveal would be logged and counted.
            refusal = _FOREIGN_PAGE
        if refusal is not None:
            await answer_refusal(send, scope, Refusal(ProblemKind.FORBIDDEN, refusal))
            return
        await self._app(scope, receive, send)

    def _check_host_and_origin(self, sent_host: bytes | None, sent_origin: bytes | None) -> str | None:
        host, origin = _decode_header(sent_host), _decode_header(sent_origin)
        name, port = _split_host(f"//{host}") if host else (None, None)
        if name is None or not (is_loopback(name) or name in self._allowed or host in self._allowed):
            return f"this hub does not answer for host {host!r}; name it in KNOWHUB_ALLOWED_HOSTS if it should"
        if origin is None or origin in self._origins:
            return None
        origin_name, origin_port = _split_host(origin)
        same = origin_name is not None and (
            (origin_name == name and origin_port == port)
            or (is_loopback(origin_name) and is_loopback(name) and origin_port == port)
            or origin_name in self._allowed
        )
        return None if same else f"pages of {origin!r} may not call this hub; name its host in KNOWHUB_ALLOWED_HOSTS"


class Cors:
    """Lets pages of the named origins read answers. No cookies: a page has to bring a key, or none is asked for.

    It runs before authentication, because a browser asks first, and without a key. A request from any other origin is
    answered too, but its page cannot read the answer.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, with the headers of its origin."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        cors_headers = [_VARY]
        if origin in self._origins and origin is not None:
            cors_headers = [
                _VARY,
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _ANSWER_HEADERS),
            ]
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await _answer_preflight(send, cors_headers)
                return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *cors_headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class ConcurrencyLimit:
    """Answers a limited number of requests at a time. It refuses others at once: waiting, they would hold memory."""

    def __init__(self, app: ASGIApp, max_running: int) -> None:
        self._app = app
        self._max_running = max_running
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with 503."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        if self._running >= self._max_running:
            await answer_refusal(send, scope, _FULL)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


async def _answer_preflight(send: Send, cors_headers: list[tuple[bytes, bytes]]) -> None:
    headers = [
        *cors_headers,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _REQUEST_HEADERS),
        (b"access-control-max-age", _AN_HOUR_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _sent_request_id(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 0 < len(value) <= _MAX_REQUEST_ID_CHARS and value.isascii():
            return bytes(value) if value.decode("ascii").isprintable() else None
    return None


def _split_host(url: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(url)
        return (parts.hostname, parts.port) if parts.hostname else (None, None)
    except ValueError:
        return None, None


def _is_page(path: str) -> bool:
    """Return whether a path is a page for people, who may follow a link to it from any site."""
    return path in _PAGES or path.startswith("/docs/")


def is_loopback(name: str) -> bool:
    """Return whether a host, by name or address, is this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _decode_header(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1").lower()
