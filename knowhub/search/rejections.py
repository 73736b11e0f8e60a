"""Texts that the embedder rejected, and when they are tried again."""

from dataclasses import dataclass
from typing import Final

from knowhub.core.clock import Clock

_MOST_DOUBLINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Rejection:
    """A text that the embedder rejected so many times; `number` is that of the change that wrote it.

    It is tried again at `retry_at`, in seconds since the epoch; if that is None, only when somebody asks for it.
    """

    number: int
    attempts: int
    retry_at: float | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a text is tried again that the embedder rejected: after a pause, in seconds, that doubles each time.

    After `max_attempts` it is not, unless somebody asks for it; None is no limit.
    """

    clock: Clock
    first_pause_s: float = 2.0
    longest_pause_s: float = 300.0
    max_attempts: int | None = None

    def reject(self, number: int, attempts: int) -> Rejection:
        """Return the rejection of a text that was rejected so many times."""
        if self.max_attempts is not None and attempts >= self.max_attempts:
            return Rejection(number, attempts, None)
        pause_s = min(self.first_pause_s * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS), self.longest_pause_s)
        return Rejection(number, attempts, self.clock.now() + pause_s)
