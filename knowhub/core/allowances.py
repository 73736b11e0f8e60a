"""How often each caller may do something.

Replicas of a server have to count together, so this is a port. The adapters here count in the memory of one process;
what they know ends with it.
"""

from collections.abc import Callable
from typing import Final, Protocol

MAX_CALLERS: Final = 10_000
_DAY_S: Final = 86_400.0


class Allowance(Protocol):
    """So many uses for each caller in a period."""

    @property
    def limit(self) -> int:
        """How many uses a period has."""

    async def take(self, who: str) -> float:
        """Count a use by a caller. Return 0, or after how many seconds there is another use; then none is counted."""


class TokenBuckets:
    """One bucket for each caller. It holds the uses of a period, and fills up evenly.

    The callers who were heard longest ago are forgotten first, beyond `most_callers`: their buckets are the fullest.
    `monotonic` returns seconds that only grow.
    """

    def __init__(
        self, limit: int, period_s: float, monotonic: Callable[[], float], most_callers: int = MAX_CALLERS
    ) -> None:
        self.limit = limit
        self._period_s = period_s
        self._monotonic = monotonic
        self._most_callers = most_callers
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
        if len(self._left) > self._most_callers:
            del self._left[next(iter(self._left))]
        return 0.0 if has_one else (1 - left) * self._period_s / self.limit


class DailyCounts:
    """Counts the uses of each caller on this day, in UTC. Callers are forgotten as in `TokenBuckets`, and by the day.

    `now` returns seconds since the epoch.
    """

    def __init__(self, limit: int, now: Callable[[], float], most_callers: int = MAX_CALLERS) -> None:
        self.limit = limit
        self._now = now
        self._most_callers = most_callers
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
        if len(self._counts) > self._most_callers:
            del self._counts[next(iter(self._counts))]
        return 0.0 if is_free else (day + 1) * _DAY_S - now
