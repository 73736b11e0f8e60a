"""Headers for browsers: which pages may read an answer (CORS), and security headers."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Headers = tuple[tuple[bytes, bytes], ...]

_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_REFERRER = (b"referrer-policy", b"no-referrer")
_ANYWHERE: Headers = (_NOSNIFF, _NO_REFERRER)
# An answer is for its caller: no cache may store it.
_API: Headers = (*_ANYWHERE, (b"cache-control", b"no-store"))

_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_REQUEST_HEADERS = b"Authorization, Content-Type, Idempotency-Key, If-Match, X-API-Key, X-Request-ID"
_ANSWER_HEADERS = b"Allow, ETag, Location, Retry-After, X-Operation-Id, X-Request-ID"
_AN_HOUR_S = b"3600"
_VARY = (b"vary", b"Origin")


def headers_of(path: str) -> Headers:
    """Return the headers of every answer to a path."""
    return _API if path.startswith("/api/") else _ANYWHERE


def page_headers(page: str) -> dict[str, str]:
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


class Cors:
    """Lets pages of the named origins read answers. No cookies: a page has to bring a key, or none is asked for.

    It runs before authentication, because a browser asks first, and without a key. A request from any other origin is
    answered too, but its page cannot read the answer.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, its answer marked for the page that asked."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        marks = [_VARY]
        if origin in self._origins and origin is not None:
            marks = [
                _VARY,
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _ANSWER_HEADERS),
            ]
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await _answer_preflight(send, marks)
                return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *marks]
            await send(message)

        await self._app(scope, receive, send_marked)


async def _answer_preflight(send: Send, marks: list[tuple[bytes, bytes]]) -> None:
    agreed = [
        *marks,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _REQUEST_HEADERS),
        (b"access-control-max-age", _AN_HOUR_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": agreed})
    await send({"type": "http.response.body", "body": b""})
