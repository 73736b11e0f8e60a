"""Limits of the requests and writes of one caller, as ASGI middleware."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.core.allowances import Allowance, DailyCounts, TokenBuckets
from knowhub.core.clock import Clock
from knowhub.core.errors import TooManyRequests
from knowhub.web.auth import name_caller
from knowhub.web.error_responses import ProblemKind, Refusal, answer_refusal
from knowhub.web.json_rpc import COUNT_WRITE
from knowhub.web.json_rpc import PATH as MCP_PATH
from knowhub.web.middleware import SAFE_METHODS

_LIMITED_PREFIX = "/api/"
_MINUTE_S = 60.0
_REQUESTS = "a caller may ask {} times a minute here"
_WRITES = "a caller may write {} times a day (UTC) here"


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of one caller; 0 is no limit."""

    requests_per_minute: int
    writes_per_day: int


class RateLimiter:
    """Limits the requests per minute and the writes per day of each caller under /api/ and at /mcp; more are 429.

    What a request to /mcp does is only known when its tool runs: the tool counts the write.

    A caller is the holder of a key: a second key gives no second allowance, and two users of one agent are two callers.
    Without keys it is an address. The root key has no limit. `seconds` is a monotonic clock.
    """

    def __init__(
        self, app: ASGIApp, limits: RateLimits, clock: Clock, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        per_minute, per_day = limits.requests_per_minute, limits.writes_per_day
        self._requests = TokenBuckets(per_minute, _MINUTE_S, seconds) if per_minute else None
        self._writes = DailyCounts(per_day, clock.now) if per_day else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if not (path.startswith(_LIMITED_PREFIX) or path == MCP_PATH):
            await self._app(scope, receive, send)
            return
        caller = name_caller(scope)
        if caller is not None:
            is_write = scope["method"] not in SAFE_METHODS and path != MCP_PATH
            refused = await self._refuse(caller, is_write=is_write)
            if refused is not None:
                detail, wait_s = refused
                headers = {"Retry-After": str(math.ceil(wait_s))}
                await answer_refusal(send, scope, Refusal(ProblemKind.TOO_MANY_REQUESTS, detail, headers))
                return
            scope[COUNT_WRITE] = partial(self._count_write, caller)
        await self._app(scope, receive, send)

    async def _count_write(self, caller: str) -> None:
        wait_s = 0.0 if self._writes is None else await self._writes.take(caller)
        if self._writes is not None and wait_s > 0:
            raise TooManyRequests(_WRITES.format(self._writes.limit), wait_s)

    async def _refuse(self, caller: str, *, is_write: bool) -> tuple[str, float] | None:
        """Count one request; return why it is refused and for how long, or None."""
        limits: list[tuple[Allowance | None, str]] = [(self._requests, _REQUESTS)]
        if is_write:
            limits.append((self._writes, _WRITES))
        for allowance, text in limits:
            wait_s = 0.0 if allowance is None else await allowance.take(caller)
            if allowance is not None and wait_s > 0:
                return text.format(allowance.limit), wait_s
        return None
