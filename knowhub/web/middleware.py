"""What stands before every route, as plain ASGI: request ids, metrics, whom the hub answers, and how much it reads."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowhub.core.ids import Ids
from knowhub.web.browser_headers import headers_of
from knowhub.web.error_responses import REQUEST_ID, problem
from knowhub.web.metrics import Metrics

BODY = "knowhub.body"

# What stands for a header that came twice and says two things: it is nobody's name.
_TWO = b"two different ones"
_MAX_REQUEST_ID_CHARS = 200
_CLIENT_LEFT = 499
_DRAINED_BYTES = 64 * 1024 * 1024
READING = ("GET", "HEAD", "OPTIONS", "TRACE")
# What a browser says of whose page it asks for, beside `same-origin`, and `none` where a person typed the address.
_FOREIGN = frozenset({b"cross-site", b"same-site"})
_FOREIGN_PAGE = (
    "pages of other sites may not call this hub; one that may is named in KNOWHUB_CORS_ORIGINS, and uses fetch"
)
_PAGES = frozenset({"/", "/docs"})
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_OF_RESOURCES = "/api/resource/"
_JSON, _NDJSON = ("application/json",), ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class Frame:
    """Gives each request its id, and counts and times it."""

    def __init__(self, app: ASGIApp, ids: Ids, metrics: Metrics) -> None:
        self._app = app
        self._ids = ids
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _sent_request_id(scope) or self._ids.hex(32).encode()
        scope[REQUEST_ID] = request_id.decode()
        started = time.perf_counter()
        status = _CLIENT_LEFT

        async def send_framed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id),
                    *headers_of(scope["path"]),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_framed)
        except Exception:
            status = 500
            raise
        finally:
            self._metrics.observe(scope, status, time.perf_counter() - started)


class HostGuard:
    """Answers only requests that were meant for this hub: a web page must not reach a local one."""

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str], origins: Sequence[str] = ()) -> None:
        self._app = app
        self._allowed = frozenset(allowed_hosts)
        self._origins = frozenset(origins)
        self._known: dict[tuple[bytes | None, bytes | None], str | None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = origin = None
        is_foreign = False
        for name, value in scope["headers"]:
            if name == b"host":
                host = value if host in (None, value) else _TWO
            elif name == b"origin":
                origin = value if origin in (None, value) else _TWO
            elif name == b"sec-fetch-site":
                is_foreign |= value in _FOREIGN
        refusal = self._refusal(host, origin)
        if refusal is None and is_foreign and origin is None and not _is_page(scope["path"]):
            # An image or a link names no origin, and its page reads no answer; but to reveal leaves a line, and counts.
            refusal = _FOREIGN_PAGE
        if refusal is not None:
            await answer_problem(send, scope, (403, "forbidden", refusal))
            return
        await self._app(scope, receive, send)

    def _refusal(self, host: bytes | None, origin: bytes | None) -> str | None:
        key = (host, origin)
        if key not in self._known:
            if len(self._known) > 1000:  # noqa: PLR2004 -- enough for every honest caller; a flood starts over
                self._known.clear()
            self._known[key] = self._judge(_text(host), _text(origin))
        return self._known[key]

    def _judge(self, host: str | None, origin: str | None) -> str | None:
        name, port = _host_and_port(f"//{host}") if host else (None, None)
        if name is None or not (_is_loopback(name) or name in self._allowed or host in self._allowed):
            return f"this hub does not answer for host {host!r}; name it in KNOWHUB_ALLOWED_HOSTS if it should"
        if origin is None or origin in self._origins:
            return None
        origin_name, origin_port = _host_and_port(origin)
        same = origin_name is not None and (
            (origin_name == name and origin_port == port)
            or (_is_loopback(origin_name) and _is_loopback(name) and origin_port == port)
            or origin_name in self._allowed
        )
        return None if same else f"pages of {origin!r} may not call this hub; name its host in KNOWHUB_ALLOWED_HOSTS"


class PathGuard:
    """Refuses paths that hold a control character: no route has one, and no id.

    Routes are matched by patterns that end in `$`, which fits before a line break too: two paths would name one thing.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it as a path with such an id is: 422 for that of a resource, else 404."""
        # Most paths are printable, which is told fastest.
        if scope["type"] != "http" or scope["path"].isprintable() or not _CONTROLS.search(scope["path"]):
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith(_OF_RESOURCES):
            refusal = 422, "invalid-input", "resource_id: must not hold control characters"
            await answer_problem(send, scope, refusal, field="resource_id")
            return
        detail = "there is nothing at a path that holds control characters; see /docs"
        await answer_problem(send, scope, (404, "not-found", detail))


@dataclass(frozen=True, slots=True)
class BodyRules:
    """How large a body may be, in bytes, how deep its JSON, and how long it may take to arrive.

    `large` routes take `batch_bytes`.
    """

    max_bytes: int
    batch_bytes: int
    max_depth: int
    large: frozenset[str]
    lines: frozenset[str]
    arrival_s: float


class BodyGuard:
    """Reads a body whole within its limits, and refuses by name what the route could not read."""

    def __init__(self, app: ASGIApp, rules: BodyRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, its body read."""
        if scope["type"] != "http" or scope["method"] in READING:
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        limit = self._rules.batch_bytes if path in self._rules.large else self._rules.max_bytes
        try:
            async with asyncio.timeout(self._rules.arrival_s):
                body, size = await _read(receive, limit)
        except TimeoutError:
            detail = f"a request must arrive within {self._rules.arrival_s:g} seconds"
            await answer_problem(send, scope, (408, "request-timeout", detail), ((b"connection", b"close"),))
            return
        if size is None:
            return
        if body is None:
            more = " or more" if size > _DRAINED_BYTES else ""
            detail = f"a body here is at most {limit} bytes; this has {size}{more}"
            await answer_problem(send, scope, (413, "too-large", detail))
            return
        if body:
            refusal = self._unreadable(scope, body)
            if refusal is not None:
                await answer_problem(send, scope, refusal)
                return
        # Routes read it here; for anybody else it can be received as usual.
        scope[BODY] = body
        await self._app(scope, _replay(body, receive), send)

    def _unreadable(self, scope: Scope, body: bytes) -> tuple[int, str, str] | None:
        headers = dict(scope["headers"])
        lines = scope["path"] in self._rules.lines
        wanted = _NDJSON if lines else _JSON
        sent = headers.get(b"content-type", b"").split(b";")[0].strip().lower().decode("latin-1")
        if sent not in wanted:
            return 415, "unsupported-media-type", f"send {wanted[0]}, not {sent or 'a body without a content type'}"
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding != b"identity":
            return 415, "unsupported-media-type", f"send the body as it is, not encoded as {_text(encoding)}"
        if not lines and is_deeper(body, self._rules.max_depth):
            return 422, "invalid-input", f"body: JSON is nested more than {self._rules.max_depth} deep"
        return None


def is_deeper(body: bytes, limit: int) -> bool:
    """Tell whether JSON text is nested deeper than `limit`, without parsing it."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    depth = 0
    for match in _BRACKETS.finditer(_STRINGS.sub(b"", body)):
        depth += 1 if match[0] in b"[{" else -1
        if depth > limit:
            return True
    return False


async def answer_problem(
    send: Send,
    scope: Scope,
    refusal: tuple[int, str, str],
    headers: Iterable[tuple[bytes, bytes]] = (),
    *,
    field: str = "body",
) -> None:
    """Answer a request before any route sees it: with a status, the kind of problem and what to do about it."""
    status, kind, detail = refusal
    extra = {"errors": [{"field": field, "message": detail}]} if status == 422 else None  # noqa: PLR2004 -- a status
    body, media_type = problem(status, kind, detail, scope["path"], extra)
    told = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


async def _read(receive: Receive, limit: int) -> tuple[bytes | None, int | None]:
    """Return the body and its size; no body when it is too large, and no size when the client left halfway.

    Most of a body that is too large is read and thrown away: a client that is still writing would not see an
    answer sent meanwhile. What came of a body that was broken off must not pass for all of it.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None, None
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        else:
            pieces.clear()
        if not message.get("more_body", False) or size > _DRAINED_BYTES:
            break
    return (b"".join(pieces) if size <= limit else None), size


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _sent_request_id(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 0 < len(value) <= _MAX_REQUEST_ID_CHARS and value.isascii():
            return bytes(value) if value.decode("ascii").isprintable() else None
    return None


def _host_and_port(url: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(url)
        return (parts.hostname, parts.port) if parts.hostname else (None, None)
    except ValueError:
        return None, None


def _is_page(path: str) -> bool:
    """Tell whether a path is for people, who may follow a link to it from anywhere."""
    return path in _PAGES or path.startswith("/docs/")


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1").lower()
