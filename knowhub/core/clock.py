"""Time as an input: services receive a Clock, pure functions receive `now`."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the time in seconds since the epoch."""


class SystemClock:
    def now(self) -> float:
        """Return the system's time."""
        return time.time()


def iso(seconds: float) -> str:
    """Format seconds since the epoch as ISO 8601 UTC with milliseconds and `Z`."""
    moment = time.gmtime(seconds)
    milliseconds = int(seconds % 1 * 1000)
    return (
        f"{moment.tm_year:04d}-{moment.tm_mon:02d}-{moment.tm_mday:02d}"
        f"T{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}.{milliseconds:03d}Z"
    )


def parse_iso(text: str) -> float:
    """Parse an ISO 8601 date or time; a bare date is its first second, a missing zone is UTC.

    Raises ValueError when `text` is neither.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def normalised_iso(text: str) -> str:
    """Bring any accepted ISO 8601 form to the one that answers use. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    moment = moment.astimezone(UTC)
    form = "milliseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=form) + "Z"
