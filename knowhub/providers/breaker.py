"""A circuit breaker: a server that fails again and again is left alone for a while."""

from collections.abc import Callable
from enum import Enum, auto


class Verdict(Enum):
    """What a call said about the server; NOTHING when it was cancelled, or failed by what was asked."""

    WELL = auto()
    ILL = auto()
    NOTHING = auto()


class Breaker:
    """Opens after `threshold` failed calls in a row; after `cool_down_s` one call probes, the others wait for it."""

    def __init__(self, threshold: int, cool_down_s: float, monotonic: Callable[[], float]) -> None:
        self._threshold = threshold
        self._cool_down_s = cool_down_s
        self._monotonic = monotonic
        self._failures = 0
        self._opened_at: float | None = None
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Say whether a call would be refused now."""
        return self._opened_at is not None and (self._is_probing or self.remaining_s > 0)

    @property
    def remaining_s(self) -> float:
        """Return how long until a call may probe; 0 when it may."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._cool_down_s - self._monotonic())

    def admits(self) -> bool:
        """Say whether a call may be made; whoever is admitted tells how it went, in any case."""
        if self.is_open:
            return False
        self._is_probing = self._opened_at is not None
        return True

    def note(self, verdict: Verdict) -> None:
        """Take in how an admitted call went."""
        self._is_probing = False
        match verdict:
            case Verdict.WELL:
                self._failures, self._opened_at = 0, None
            case Verdict.ILL:
                self._failures += 1
                # A probe that fails opens anew; calls that began before it opened do not lengthen the cool-down.
                if self._failures >= self._threshold and self.remaining_s == 0:
                    self._opened_at = self._monotonic()
            case Verdict.NOTHING:
                return
