"""A circuit breaker: a server that fails again and again is left alone for a while."""

from collections.abc import Callable
from enum import Enum, auto

# Who waits for just as long as the call may take has begun a moment before it, and ends it a moment before its end.
_SLACK_S = 0.1
_SLACK_SHARE = 0.1


class Verdict(Enum):
    """What a call said about the server; NOTHING when it was cancelled early, or failed by what was asked."""

    WELL = auto()
    ILL = auto()
    NOTHING = auto()


class Breaker:
    """Opens after `threshold` failed calls in a row, 0 never; after `cool_down_s` one call probes, the others wait.

    Each opening, probe and closing begins an epoch. A call that was admitted in an earlier one is a straggler: what
    it tells is old, and it neither frees the probe's place nor opens or closes anything.
    """

    def __init__(self, threshold: int, cool_down_s: float, monotonic: Callable[[], float]) -> None:
        self._threshold = threshold
        self._cool_down_s = cool_down_s
        self._monotonic = monotonic
        self._failures = 0
        self._epoch = 0
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

    def admit(self) -> int | None:
        """Return the epoch in which a call may be made, None when none may; `note` is told of it in any case."""
        if self.is_open:
            return None
        if self._opened_at is not None:
            self._is_probing = True
            self._epoch += 1
        return self._epoch

    def note(self, epoch: int, verdict: Verdict) -> None:
        """Take in how a call went that was admitted in `epoch`."""
        if epoch != self._epoch:
            return
        was_probing, self._is_probing = self._is_probing, False
        match verdict:
            case Verdict.WELL:
                self._failures = 0
                if was_probing:
                    self._opened_at = None
                    self._epoch += 1
            case Verdict.ILL:
                self._failures += 1
                if self._threshold and self._failures >= self._threshold:
                    self._opened_at = self._monotonic()
                    self._epoch += 1
            case Verdict.NOTHING:
                return


def verdict_of_cancelled(timeout_s: float, took_s: float) -> Verdict:
    """Say what a call tells that had `timeout_s` and was cancelled after `took_s`: with its time over, it was late."""
    is_over = timeout_s - took_s <= min(_SLACK_S, timeout_s * _SLACK_SHARE)
    return Verdict.ILL if is_over else Verdict.NOTHING
