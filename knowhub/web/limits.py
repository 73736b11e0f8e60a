"""Limits of concurrent requests, and of the requests and writes of one caller, as ASGI middleware."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.core.allowances import Allowance, DailyCounts, TokenBuckets
from knowhub.core.clock import Clock
from knowhub.core.errors import TooManyRequests
from knowhub.core.request_context import Role
from knowhub.identity.model import AuthenticatedCaller
from knowhub.web.auth import CALLER
from knowhub.web.json_rpc import COUNT_WRITE
from knowhub.web.json_rpc import PATH as MCP_PATH
from knowhub.web.middleware import READING, HttpMiddleware, answer_problem

# An operator must see the state of a server that is at its limit.
_ALWAYS = frozenset({"/health", "/ready", "/metrics"})
_LIMITED = "/api/"
_MINUTE_S = 60.0
_REQUESTS = "a caller may ask {} times a minute here"
_WRITES = "a caller may write {} times a day (UTC) here"
_FULL = (503, "unavailable", "this hub answers as many requests at once as it may; try again")


class ConcurrencyLimit(HttpMiddleware):
    """Answers a limited number of requests at a time. It refuses others at once: waiting, they would hold memory."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        super().__init__(app)
        self._most = most
        self._running = 0

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        if self._running >= self._most:
            await answer_problem(send, scope, _FULL, ((b"retry-after", b"1"),))
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of one caller; 0 is no limit."""

    requests_per_minute: int
    writes_per_day: int


class RateLimiter(HttpMiddleware):
    """Limits the requests per minute and the writes per day of each caller under /api/ and at /mcp; more are 429.

    What a request to /mcp does is only known when its tool runs: the tool counts the write.

    A caller is the holder of a key: a second key gives no second allowance, and two users of one agent are two callers.
    Without keys it is an address. The root key has no limit. `seconds` is a monotonic clock.
    """

    def __init__(
        self, app: ASGIApp, allowed: RateLimits, clock: Clock, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(app)
        per_minute, per_day = allowed.requests_per_minute, allowed.writes_per_day
        self._requests = TokenBuckets(per_minute, _MINUTE_S, seconds) if per_minute else None
        self._writes = DailyCounts(per_day, clock.now) if per_day else None

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if not (path.startswith(_LIMITED) or path == MCP_PATH):
            await self._app(scope, receive, send)
            return
        who = name_caller(scope)
        if who is not None:
            is_write = scope["method"] not in READING and path != MCP_PATH
            refused = await self._refuse(who, is_write=is_write)
            if refused is not None:
                detail, wait_s = refused
                headers = ((b"retry-after", b"%d" % math.ceil(wait_s)),)
                await answer_problem(send, scope, (429, "too-many-requests", detail), headers)
                return
            scope[COUNT_WRITE] = partial(self._count_write, who)
        await self._app(scope, receive, send)

    async def _count_write(self, who: str) -> None:
        wait_s = 0.0 if self._writes is None else await self._writes.take(who)
        if self._writes is not None and wait_s > 0:
            raise TooManyRequests(_WRITES.format(self._writes.limit), wait_s)

    async def _refuse(self, who: str, *, is_write: bool) -> tuple[str, float] | None:
        """Count one request; return why it is refused and for how long, or None."""
        limits: list[tuple[Allowance | None, str]] = [(self._requests, _REQUESTS)]
        if is_write:
            limits.append((self._writes, _WRITES))
        for allowance, text in limits:
            wait_s = 0.0 if allowance is None else await allowance.take(who)
            if allowance is not None and wait_s > 0:
                return text.format(allowance.limit), wait_s
        return None


def name_caller(scope: Scope) -> str | None:
    """Return the principal whose limit a request counts against; None if it has no limit."""
    caller: AuthenticatedCaller | None = scope.get(CALLER)
    if caller is None:
        client = scope.get("client")
        return client[0] if client else ""
    if caller.role is Role.ROOT:
        return None
    # Names of accounts and of who calls hold no control characters, so no two callers have one name.
    return f"{caller.account}\n{caller.context.quota_key}"
