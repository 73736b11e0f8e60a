"""Limits to what is used: requests of a caller, and tokens of language models.

Replicas of a server have to count together, so these are ports. The adapters here count in the memory of one process,
and forget at its end.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

MAX_CALLERS: Final = 10_000
_DAY_S: Final = 86_400.0
_HOUR_S: Final = 3600.0
_SLOT_S: Final = 60.0


class Allowance(Protocol):
    """So many uses for each caller in a period."""

    @property
    def limit(self) -> int:
        """How many uses a period has."""

    async def take(self, who: str) -> float:
        """Count a use by a caller. Return 0, or after how many seconds there is another use; then none is counted."""


class TokenBuckets:
    """One bucket for each caller. It holds the uses of a period, and fills up evenly.

    The callers who were heard longest ago are forgotten first, beyond `max_callers`: their buckets are the fullest.
    `monotonic` returns seconds that only grow.
    """

    def __init__(
        self, limit: int, period_s: float, monotonic: Callable[[], float], max_callers: int = MAX_CALLERS
    ) -> None:
        self.limit = limit
        self._period_s = period_s
        self._monotonic = monotonic
        self._max_callers = max_callers
        self._left: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._left)

    async def take(self, who: str) -> float:
        """Count a use by a caller; see `Allowance`."""
        now = self._monotonic()
        left, since = self._left.pop(who, (float(self.limit), now))
        left = min(float(self.limit), left + (now - since) * self.limit / self._period_s)
        has_one = left >= 1
        self._left[who] = (left - has_one, now)
        if len(self._left) > self._max_callers:
            del self._left[next(iter(self._left))]
        return 0.0 if has_one else (1 - left) * self._period_s / self.limit


class DailyCounts:
    """Counts the uses of each caller on this day, in UTC. Callers are forgotten as in `TokenBuckets`, and by the day.

    `now` returns seconds since the epoch.
    """

    def __init__(self, limit: int, now: Callable[[], float], max_callers: int = MAX_CALLERS) -> None:
        self.limit = limit
        self._now = now
        self._max_callers = max_callers
        self._day = 0
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    async def take(self, who: str) -> float:
        """Count a use by a caller; see `Allowance`."""
        now = self._now()
        day = int(now // _DAY_S)
        if day != self._day:
            self._day = day
            self._counts.clear()
        count = self._counts.pop(who, 0)
        is_free = count < self.limit
        self._counts[who] = count + is_free
        if len(self._counts) > self._max_callers:
            del self._counts[next(iter(self._counts))]
        return 0.0 if is_free else (day + 1) * _DAY_S - now


class TokenBudget(Protocol):
    """The tokens that language models may cost in any hour; a limit of 0 is none."""

    @property
    def limit(self) -> int:
        """How many tokens an hour has."""

    async def reserve(self, tokens: int) -> bool:
        """Count tokens of a request before it is sent; False, and nothing counted, where they would pass the limit.

        They count at once, so that concurrent requests stay below the limit together.
        """

    async def add(self, tokens: int) -> None:
        """Count tokens that were spent beyond the reserved ones; a negative number gives back."""


class HourlyTokens:
    """Counts the tokens of the last hour, minute by minute. `monotonic` returns seconds that only grow."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self.limit = limit
        self._monotonic = monotonic
        self._minutes: deque[tuple[float, int]] = deque()
        self._spent = 0

    async def reserve(self, tokens: int) -> bool:
        """Count tokens of a request before it is sent; see `TokenBudget`."""
        while self._minutes and self._monotonic() - self._minutes[0][0] >= _HOUR_S:
            self._spent -= self._minutes.popleft()[1]
        if self.limit and self._spent + tokens > self.limit:
            return False
        await self.add(tokens)
        return True

    async def add(self, tokens: int) -> None:
        """Count tokens that were spent; see `TokenBudget`."""
        now = self._monotonic()
        if self._minutes and now - self._minutes[-1][0] < _SLOT_S:
            began, before = self._minutes.pop()
            self._minutes.append((began, before + tokens))
        else:
            self._minutes.append((now, tokens))
        self._spent += tokens
