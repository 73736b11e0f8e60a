"""Pages of other origins, where KNOWHUB_CORS_ORIGINS names them: without that there is no CORS at all."""

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_SENT = b"Authorization, Content-Type, Idempotency-Key, If-Match, X-API-Key, X-Request-ID"
_READ = b"Allow, ETag, Location, Retry-After, X-Operation-Id, X-Request-ID"
_AN_HOUR_S = b"3600"
_VARY = (b"vary", b"Origin")


class Cors:
    """Lets pages of the named origins read answers. No cookies: a page has to bring a key, or none is asked for.

    It stands before the gate, because a browser asks first, and without a key. What comes from any other origin goes
    on as it is, and its answer cannot be read by the page.
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
            marks = [_VARY, (b"access-control-allow-origin", origin), (b"access-control-expose-headers", _READ)]
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await _agree(send, marks)
                return

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *marks]
            await send(message)

        await self._app(scope, receive, send_marked)


async def _agree(send: Send, marks: list[tuple[bytes, bytes]]) -> None:
    agreed = [
        *marks,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _SENT),
        (b"access-control-max-age", _AN_HOUR_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": agreed})
    await send({"type": "http.response.body", "body": b""})
