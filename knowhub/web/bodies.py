"""Bodies of requests: read whole within their limits before a route sees them, and counted while they are held."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowhub.web.json_depth import JsonLimits, find_excess_in_turns
from knowhub.web.limits import name_caller
from knowhub.web.middleware import READING, answer_problem

BODY: Final = "knowhub.body"
BODY_HASH: Final = "knowhub.body_hash"

_DRAINED_BYTES: Final = 64 * 1024 * 1024
# More is copied and hashed in a thread.
_HANDLED_AT_ONCE: Final = 256 * 1024
_JSON, _NDJSON = ("application/json",), ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_RETRY: Final = ((b"retry-after", b"1"),)


@dataclass(frozen=True, slots=True)
class BodyRules:
    """How large a body may be, in bytes, how deep and how manifold its JSON, and how long it may take to arrive.

    `large` routes take `batch_bytes`. `held_bytes` are those of all requests together that are not answered yet,
    `caller_bytes` those of one caller; 0 is no limit.
    """

    max_bytes: int
    batch_bytes: int
    held_bytes: int
    caller_bytes: int
    json: JsonLimits
    large: frozenset[str]
    lines: frozenset[str]
    arrival_s: float


class BodyGuard:
    """Reads a body whole within its limits, and refuses by name what the route could not read.

    The bytes of a body count until its request is answered, for the process and for the caller: from the beginning as
    many as its headers announce, else as many as have come.
    """

    def __init__(self, app: ASGIApp, rules: BodyRules) -> None:
        self._app = app
        self._rules = rules
        self._budget = _Budget(rules.held_bytes, rules.caller_bytes)
        self._measuring = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, its body read."""
        if scope["type"] != "http" or scope["method"] in READING:
            await self._app(scope, receive, send)
            return
        share = _Share(self._budget, name_caller(scope))
        try:
            await self._answer(scope, receive, send, share)
        finally:
            share.give_back()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, share: "_Share") -> None:
        path = scope["path"]
        limit = self._rules.batch_bytes if path in self._rules.large else self._rules.max_bytes
        try:
            async with asyncio.timeout(self._rules.arrival_s):
                read = await _read(scope, receive, limit, share)
        except TimeoutError:
            detail = f"a request must arrive within {self._rules.arrival_s:g} seconds"
            await answer_problem(send, scope, (408, "request-timeout", detail), ((b"connection", b"close"),))
            return
        if read.has_client_left:
            return
        if read.refusal is not None:
            await answer_problem(send, scope, (503, "unavailable", read.refusal), _RETRY)
            return
        if read.size > limit:
            more = " or more" if read.size > _DRAINED_BYTES else ""
            detail = f"a body here is at most {limit} bytes; this has {read.size}{more}"
            await answer_problem(send, scope, (413, "too-large", detail))
            return
        if read.body:
            refusal = await self._find_fault(scope, read.body)
            if refusal is not None:
                await answer_problem(send, scope, refusal)
                return
        # Routes read it here; for anybody else it can be received as usual.
        scope[BODY] = read.body
        if len(read.body) > _HANDLED_AT_ONCE and any(name == b"idempotency-key" for name, _ in scope["headers"]):
            scope[BODY_HASH] = await asyncio.to_thread(sha256, read.body)
        await self._app(scope, _replay(read.body, receive), send)

    async def _find_fault(self, scope: Scope, body: bytes) -> tuple[int, str, str] | None:
        """Return why the route could not read the body: its status, the kind of problem and what to do about it."""
        headers = dict(scope["headers"])
        lines = scope["path"] in self._rules.lines
        wanted = _NDJSON if lines else _JSON
        sent = headers.get(b"content-type", b"").split(b";")[0].strip().lower().decode("latin-1")
        if sent not in wanted:
            return 415, "unsupported-media-type", f"send {wanted[0]}, not {sent or 'a body without a content type'}"
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding != b"identity":
            detail = f"send the body as it is, not encoded as {encoding.decode('latin-1')}"
            return 415, "unsupported-media-type", detail
        excess = None if lines else await find_excess_in_turns(body, self._rules.json, self._measuring)
        if excess is not None:
            return 422, "invalid-input", f"body: {excess}"
        return None


class _Budget:
    """How many bytes of bodies are held, by the process and for each caller who has any."""

    def __init__(self, held_bytes: int, caller_bytes: int) -> None:
        self._held_bytes = held_bytes
        self._caller_bytes = caller_bytes
        self._held = 0
        self._held_for: dict[str, int] = {}

    def take(self, caller: str | None, count: int) -> str | None:
        """Count more bytes for a caller, who is None where only the process has a limit; or say which limit forbids."""
        held_for = self._held_for.get(caller, 0) if caller is not None else 0
        if caller is not None and 0 < self._caller_bytes < held_for + count:
            return (
                f"the requests of one caller that are not answered yet hold at most {self._caller_bytes} bytes "
                "together; wait for answers, and send it again"
            )
        if 0 < self._held_bytes < self._held + count:
            return f"requests that are not answered yet hold at most {self._held_bytes} bytes together; try again"
        self._held += count
        if caller is not None:
            self._held_for[caller] = held_for + count
        return None

    def give_back(self, caller: str | None, count: int) -> None:
        """Count bytes no longer."""
        self._held -= count
        if caller is not None:
            self._held_for[caller] -= count
            if not self._held_for[caller]:
                del self._held_for[caller]


class _Share:
    """What one request has of the budget."""

    def __init__(self, budget: _Budget, caller: str | None) -> None:
        self._budget = budget
        self._caller = caller
        self._count = 0

    def take_up_to(self, size: int) -> str | None:
        """Count as many bytes as a body has by now, or say which limit forbids; what was counted before stays so."""
        more = size - self._count
        if more <= 0:
            return None
        refusal = self._budget.take(self._caller, more)
        if refusal is None:
            self._count = size
        return refusal

    def give_back(self) -> None:
        """Count none any more."""
        if self._count:
            self._budget.give_back(self._caller, self._count)
        self._count = 0


@dataclass(frozen=True, slots=True)
class _ReadBody:
    """How a body came: its size as far as it was read, and why it was refused where there was no room for it."""

    body: bytes = b""
    size: int = 0
    refusal: str | None = None
    has_client_left: bool = False


async def _read(scope: Scope, receive: Receive, limit: int, share: _Share) -> _ReadBody:
    """Read a body; nothing is held of one that is too large, or that there is no room for.

    A refused body is read on and thrown away where the connection ends with the answer, as a client that is still
    writing would not see it. Where the connection stays, the protocol does that behind the answer. What came of a body
    that was broken off must not pass for all of it.
    """
    body = bytearray()
    size = 0
    announced = _get_announced_size(scope)
    refusal = share.take_up_to(announced) if announced <= limit else None
    while refusal is None or _is_last_request(scope):
        message = await receive()
        if message["type"] == "http.disconnect":
            return _ReadBody(has_client_left=True)
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit and refusal is None:
            refusal = share.take_up_to(size)
            body += piece
        if size > limit or refusal is not None:
            body = bytearray()
            share.give_back()
        if not message.get("more_body", False) or size > _DRAINED_BYTES:
            break
    whole = bytes(body) if len(body) <= _HANDLED_AT_ONCE else await asyncio.to_thread(bytes, body)
    return _ReadBody(whole, size, refusal)


def _get_announced_size(scope: Scope) -> int:
    """Return the size of the body where the headers tell it, else 0."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _is_last_request(scope: Scope) -> bool:
    """Return whether the connection ends with the answer."""
    return scope.get("http_version") == "1.0" or any(
        name == b"connection" and b"close" in value.lower() for name, value in scope["headers"]
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
