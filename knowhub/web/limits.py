"""How many requests are answered at once, and how much one caller may ask: plain ASGI, before a body is read."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.core.clock import Clock
from knowhub.core.request_context import Role
from knowhub.identity.model import AuthenticatedCaller
from knowhub.web.auth import CALLER
from knowhub.web.middleware import READING, answer_problem

MAX_CALLERS = 10_000
# An operator has to see how a server is that has no room left.
_ALWAYS = frozenset({"/health", "/ready", "/metrics"})
_LIMITED = "/api/"
_MINUTE_S, _DAY_S = 60.0, 86_400.0
_FULL = (503, "unavailable", "this hub answers as many requests at once as it may; try again")


class ConcurrencyLimit:
    """Answers so many requests at once, and sends the others away at once: they would only wait, and hold memory."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with 503."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
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
    """What one caller may ask; 0 is no limit."""

    requests_per_minute: int
    writes_per_day: int


class RateLimiter:
    """Gives each caller so many requests a minute and writes a day under /api/, and refuses more with 429.

    A caller is who holds a key, so that a second key gives no second allowance, and two users who call as one agent are
    two; where no keys are asked for, an address. The root key has no limit. `seconds` counts up, whatever the clock is
    set to.
    """

    def __init__(
        self, app: ASGIApp, allowed: RateLimits, clock: Clock, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._buckets = Buckets(allowed.requests_per_minute) if allowed.requests_per_minute else None
        self._days = Days(allowed.writes_per_day) if allowed.writes_per_day else None
        self._clock = clock
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it with 429."""
        if scope["type"] != "http" or not scope["path"].startswith(_LIMITED):
            await self._app(scope, receive, send)
            return
        who = name_caller(scope)
        if who is not None:
            refused = self._refused(who, is_write=scope["method"] not in READING)
            if refused is not None:
                detail, wait_s = refused
                headers = ((b"retry-after", b"%d" % math.ceil(wait_s)),)
                await answer_problem(send, scope, (429, "too-many-requests", detail), headers)
                return
        await self._app(scope, receive, send)

    def _refused(self, who: str, *, is_write: bool) -> tuple[str, float] | None:
        """Take one request out of the caller's allowance; return why it is refused and for how long, where it is."""
        if self._buckets is not None:
            wait_s = self._buckets.take(who, self._seconds())
            if wait_s > 0:
                return f"a caller may ask {self._buckets.per_minute} times a minute here", wait_s
        if self._days is not None and is_write:
            wait_s = self._days.take(who, self._clock.now())
            if wait_s > 0:
                return f"a caller may write {self._days.most} times a day (UTC) here", wait_s
        return None


class Buckets:
    """One token bucket a caller: it holds a minute's requests, and fills up evenly.

    Who was heard longest ago is forgotten first, beyond `most_callers`: memory is bounded, whoever asks.
    """

    def __init__(self, per_minute: int, most_callers: int = MAX_CALLERS) -> None:
        self.per_minute = per_minute
        self._most_callers = most_callers
        self._held: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(self, who: str, now: float) -> float:
        """Take one token; return 0, or how many seconds it takes until there is one. `now` only grows."""
        tokens, since = self._held.pop(who, (float(self.per_minute), now))
        tokens = min(float(self.per_minute), tokens + (now - since) * self.per_minute / _MINUTE_S)
        is_there = tokens >= 1
        self._held[who] = (tokens - is_there, now)
        if len(self._held) > self._most_callers:
            del self._held[next(iter(self._held))]
        return 0.0 if is_there else (1 - tokens) * _MINUTE_S / self.per_minute


class Days:
    """How often each caller has written on this day, of UTC; forgotten as `Buckets` are, and with the day."""

    def __init__(self, most: int, most_callers: int = MAX_CALLERS) -> None:
        self.most = most
        self._most_callers = most_callers
        self._day = 0
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def take(self, who: str, now: float) -> float:
        """Count one write; return 0, or how many seconds the day still has. `now` is seconds since the epoch."""
        day = int(now // _DAY_S)
        if day != self._day:
            self._day = day
            self._counts.clear()
        count = self._counts.pop(who, 0)
        is_free = count < self.most
        self._counts[who] = count + is_free
        if len(self._counts) > self._most_callers:
            del self._counts[next(iter(self._counts))]
        return 0.0 if is_free else (day + 1) * _DAY_S - now


def name_caller(scope: Scope) -> str | None:
    """Return the principal whose limit a request counts against; None if it has no limit."""
    caller: AuthenticatedCaller | None = scope.get(CALLER)
    if caller is None:
        client = scope.get("client")
        return client[0] if client else ""
    if caller.role is Role.ROOT:
        return None
    # Names of accounts and of who calls hold no control characters, so no two callers have one name.
    return f"{caller.account}\n{caller.context.holder}"
