"""The guard before the routes: it refuses paths that no route has, and reads bodies whole within their limits."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.web.auth import name_caller
from knowhub.web.error_responses import ProblemKind, Refusal, answer_refusal
from knowhub.web.json_limits import JsonLimits, find_excess_in_turns
from knowhub.web.json_rpc import EDGE_BYTES, is_mcp, read_id
from knowhub.web.middleware import SAFE_METHODS

BODY: Final = "knowhub.body"
BODY_HASH: Final = "knowhub.body_hash"
HAS_ARRIVED: Final = "knowhub.has_arrived"
"""Whether the protocol has the end of the request already, so that no piece of its body needs to be waited for."""

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
_RESOURCES: Final = "/api/resource/"
_DRAINED_BYTES: Final = 64 * 1024 * 1024
# More is copied and hashed in a thread.
_HANDLED_AT_ONCE: Final = 256 * 1024
_PART_BYTES: Final = 1024 * 1024
_JSON: Final = ("application/json",)
NDJSON: Final = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")


_ALL_HOLD: Final = "requests that are not answered yet hold at most {} bytes together; try again"
_CALLER_HOLDS: Final = (
    "the requests of one caller that are not answered yet hold at most {} bytes together; "
    "wait for answers, and send it again"
)


@dataclass(frozen=True, slots=True)
class BodyRules:
    """The limits of bodies: bytes, depth and values of their JSON, and the seconds in which they must arrive.

    The paths `large`, and those that begin with one of `large_below`, take `batch_bytes`. `lines` maps the paths that
    take no JSON object to the types of their bodies. `held_bytes` is the limit of all requests together that are not
    answered yet, `caller_bytes` that of one caller; 0 is no limit.
    """

    max_bytes: int
    batch_bytes: int
    held_bytes: int
    caller_bytes: int
    json: JsonLimits
    large: frozenset[str]
    large_below: tuple[str, ...]
    lines: Mapping[str, Sequence[str]]
    arrival_timeout_s: float


class RequestGuard:
    """Reads a body whole before a route runs, and refuses what no route could read.

    The bytes of a body count until its request is answered, for the process and for the caller: from the beginning as
    many as its headers announce, else as many as have come.
    """

    def __init__(self, app: ASGIApp, rules: BodyRules) -> None:
        self._app = app
        self._rules = rules
        self._reserved: Counter[str | None] = Counter()
        self._measuring = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Most paths are printable, which is the fastest check.
        if not scope["path"].isprintable() and _CONTROLS.search(scope["path"]):
            await _refuse_path(scope, send)
            return
        if scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        reservation = _Reservation(self._rules, self._reserved, name_caller(scope))
        buffer = _BodyBuffer()
        try:
            body = await self._read(scope, headers.get(b"content-length", b""), receive, reservation, buffer)
            if body:
                await self._check(scope["path"], headers, body)
            # Routes read it here.
            scope[BODY] = body
            if len(body) > _HANDLED_AT_ONCE and b"idempotency-key" in headers:
                scope[BODY_HASH] = await asyncio.to_thread(sha256, body)
        except _Refused as refused:
            rpc_id = read_id(buffer.beginning, buffer.end) if is_mcp(scope["path"]) else None
            await answer_refusal(send, scope, refused.refusal, rpc_id)
        except ClientDisconnect:
            return
        else:
            await self._app(scope, receive, send)
        finally:
            reservation.resize(0)

    async def _read(
        self, scope: Scope, announced: bytes, receive: Receive, reservation: "_Reservation", body: "_BodyBuffer"
    ) -> bytes:
        """Read a body. Raises _Refused, and ClientDisconnect if it was broken off.

        Nothing is held of a body that is too large, or that there is no room for. It is read to its end where the
        connection ends with the answer: a client that is still writing would not see the answer. Where the connection
        stays open, the protocol reads the rest after the answer.
        """
        path: str = scope["path"]
        is_large = path in self._rules.large or path.startswith(self._rules.large_below)
        limit = self._rules.batch_bytes if is_large else self._rules.max_bytes
        # A body that is too large is dropped as it comes.
        held = int(announced) if announced.isdigit() and int(announced) <= limit else 0
        refusal, size = reservation.resize(held), 0
        # A time limit costs as much as the rest of this function.
        has_arrived = scope.get(HAS_ARRIVED, False)
        try:
            async with nullcontext() if has_arrived else asyncio.timeout(self._rules.arrival_timeout_s):
                while refusal is None or _is_last_request(scope):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    piece = message.get("body", b"")
                    size += len(piece)
                    if size <= limit and refusal is None:
                        refusal = reservation.resize(max(size, held))
                    body.add(piece)
                    if size > limit or refusal is not None:
                        body.drop()
                        reservation.resize(0)
                    if not message.get("more_body", False) or size > _DRAINED_BYTES:
                        break
        except TimeoutError:
            detail = f"a request must arrive within {self._rules.arrival_timeout_s:g} seconds"
            raise _Refused(ProblemKind.REQUEST_TIMEOUT, detail, {"Connection": "close"}) from None
        if refusal is not None:
            raise _Refused(ProblemKind.UNAVAILABLE, refusal)
        if size > limit:
            more = " or more" if size > _DRAINED_BYTES else ""
            raise _Refused(ProblemKind.TOO_LARGE, f"a body here is at most {limit} bytes; this has {size}{more}")
        return body.join() if size <= _HANDLED_AT_ONCE else await asyncio.to_thread(body.join)

    async def _check(self, path: str, headers: Mapping[bytes, bytes], body: bytes) -> None:
        """Raise _Refused if the route could not read the body."""
        lines = self._rules.lines.get(path)
        wanted = lines or _JSON
        sent = headers.get(b"content-type", b"").split(b";")[0].strip().lower().decode("latin-1")
        if sent not in wanted:
            detail = f"send {' or '.join(wanted)}, not {sent or 'a body without a content type'}"
            raise _Refused(ProblemKind.UNSUPPORTED_MEDIA_TYPE, detail)
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding != b"identity":
            detail = f"send the body as it is, not encoded as {encoding.decode('latin-1')}"
            raise _Refused(ProblemKind.UNSUPPORTED_MEDIA_TYPE, detail)
        excess = None if lines else await find_excess_in_turns(body, self._rules.json, self._measuring)
        if excess is not None:
            raise _Refused(ProblemKind.INVALID_INPUT, f"body: {excess}")


@dataclass(slots=True)
class _BodyBuffer:
    """The bytes of a body as they come, in parts of a mebibyte, and the first and last of them for `read_id`.

    Joining them leaves the interpreter to other threads, which copying a `bytearray` does not. A list of all pieces
    would take many times the memory where they are a few bytes each.
    """

    beginning: bytes = b""
    end: bytes = b""
    _parts: list[bytes] = field(default_factory=list)
    _last: bytearray = field(default_factory=bytearray)

    def add(self, piece: bytes) -> None:
        """Take in what came."""
        self.beginning = self.beginning if len(self.beginning) >= EDGE_BYTES else (self.beginning + piece)[:EDGE_BYTES]
        self.end = (self.end + piece[-EDGE_BYTES:])[-EDGE_BYTES:]
        self._last += piece
        if len(self._last) >= _PART_BYTES:
            self._parts.append(bytes(self._last))
            self._last = bytearray()

    def drop(self) -> None:
        """Forget all but the first and the last bytes."""
        self._parts.clear()
        self._last = bytearray()

    def join(self) -> bytes:
        """Return the whole body."""
        return b"".join([*self._parts, bytes(self._last)])


class _Refused(Exception):
    """A request is not handed to its route."""

    def __init__(self, kind: ProblemKind, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.refusal = Refusal(kind, detail, headers or {})


@dataclass(slots=True)
class _Reservation:
    """The bytes that one request holds of those of all requests, and of those of its caller.

    The caller is None where only the process has a limit.
    """

    _rules: BodyRules
    _reserved: Counter[str | None]
    _caller: str | None
    _count: int = 0

    def resize(self, size: int) -> str | None:
        """Count `size` bytes for this request from now on, or return which limit forbids it and count as before."""
        more, held, caller = size - self._count, self._reserved, self._caller
        if not more:
            return None
        if more > 0:
            if caller is not None and 0 < self._rules.caller_bytes < held[caller] + more:
                return _CALLER_HOLDS.format(self._rules.caller_bytes)
            if 0 < self._rules.held_bytes < held[None] + more:
                return _ALL_HOLD.format(self._rules.held_bytes)
        self._count = size
        for holder in (None,) if caller is None else (None, caller):
            held[holder] += more
            if not held[holder]:
                # Callers come and go.
                del held[holder]
        return None


def _is_last_request(scope: Scope) -> bool:
    """Return whether the connection ends with the answer."""
    return scope.get("http_version") == "1.0" or any(
        name == b"connection" and b"close" in value.lower() for name, value in scope["headers"]
    )


async def _refuse_path(scope: Scope, send: Send) -> None:
    """Answer a path with a control character as one with such an id is answered: 422 for a resource, else 404.

    Routes are matched by patterns that end in `$`, which fits before a line break too: two paths would name one row.
    """
    if scope["path"].startswith(_RESOURCES):
        detail = "resource_id: must not hold control characters"
        await answer_refusal(send, scope, Refusal(ProblemKind.INVALID_INPUT, detail, field="resource_id"))
        return
    detail = "there is nothing at a path that holds control characters; see /docs"
    await answer_refusal(send, scope, Refusal(ProblemKind.NOT_FOUND, detail))
