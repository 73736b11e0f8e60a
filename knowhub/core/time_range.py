"""A range of time that limits a search or a list."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `since` on, and before `until`, in seconds since the epoch. None is no limit."""

    since: float | None = None
    until: float | None = None

    @property
    def is_limiting(self) -> bool:
        """Whether there is a limit."""
        return self.since is not None or self.until is not None

    def contains(self, moment: float) -> bool:
        """Return whether a moment, in seconds since the epoch, is in the range."""
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)


ALL_TIME = TimeRange()
