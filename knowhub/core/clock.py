"""Time as an input: services receive a Clock, pure functions receive `now`. Long work pauses for others."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the time in seconds since the epoch."""


class SystemClock:
    def now(self) -> float:
        """Return the system's time."""
        return time.time()


def iso(seconds: float) -> str:
    """Format seconds since the epoch as ISO 8601 UTC with milliseconds and `Z`."""
    return f"{_whole_second(int(seconds // 1))}.{int(seconds % 1 * 1000):03d}Z"


def parse_iso(text: str) -> float:
    """Parse an ISO 8601 date or time; a bare date is its first second, a missing zone is UTC.

    Raises ValueError when `text` is neither.
    """
    return _parse(text).timestamp()


def normalize_iso(text: str) -> str:
    """Convert any accepted ISO 8601 form to the form used in answers. Raises ValueError."""
    moment = _parse(text)
    form = "milliseconds" if moment.microsecond else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=form) + "Z"


def _parse(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"the time {text!r} is outside the years 1 to 9999 in UTC") from None


# Many rows are written in one second.
@lru_cache(maxsize=16)
def _whole_second(seconds: int) -> str:
    moment = time.gmtime(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment)


TURN_S = 0.003


class CooperativePause:
    """Call `pause` between small pieces of work; it hands over as soon as a turn has lasted TURN_S seconds."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def pause(self) -> None:
        """Let others have their turn, when this one was long enough."""
        if time.monotonic() - self._since >= TURN_S:
            await asyncio.sleep(0)
            self._since = time.monotonic()


async def free_in_turns(*collections: list[Any] | dict[Any, Any]) -> None:
    """Empty collections item by item, and let others have their turn; `free_items` says why."""
    pace = CooperativePause()
    for _ in _iter_freed(collections):
        await pace.pause()


def free_items(*collections: list[Any] | dict[Any, Any]) -> None:
    """Empty collections item by item, in a thread.

    To free a hundred thousand rows at once keeps the interpreter for a quarter of a second. Make nothing meanwhile: the
    garbage collector counts what is freed against what is made, and then visits all of it at once.
    """
    for _ in _iter_freed(collections):
        pass


def _iter_freed(collections: Iterable[list[Any] | dict[Any, Any]]) -> Iterator[None]:
    for items in collections:
        take = items.pop if isinstance(items, list) else items.popitem
        while items:
            take()
            yield


class TimeLimit:
    """A time that work may take, from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether so much time has passed."""
        return time.monotonic() >= self._end
