"""Words and dates: how extraction cuts, compares and dates texts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from knowhub.context.time_forms import WEEK, TimeDirection, TimeMention, TimeRange, iter_times

_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_SPACES: Final = re.compile(r"\s+")


def is_chinese(text: str) -> bool:
    """Tell in which language a text is written: Chinese where a fifth of it is."""
    return len(_HAN.findall(text)) * 5 >= max(len(_SPACES.sub("", text)), 1)


def one_line(text: str) -> str:
    """Return a text on one line."""
    return _SPACES.sub(" ", text).strip()


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut at a word."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    word = cut.rfind(" ")
    return f"{cut[:word] if word > limit // 2 else cut}…"


def join_texts(texts: Iterable[str], limit: int, between: str = " ") -> str:
    """Join as many of the texts as fit, the first in any case."""
    said = ""
    for text in texts:
        longer = f"{said}{between}{text}" if said else text
        if len(longer) > limit:
            return said or shorten(text, limit)
        said = longer
    return said


_GRAINS: Final = ((2, "day"), (WEEK, "week"), (31, "month"))
# A day to read from where nobody knows on which one it was said.
_ANY_DAY: Final = date(2000, 1, 1)
# Between two of the 29th of February lie eight years at the most.
_YEARS_BACK: Final = 8


@dataclass(frozen=True, slots=True)
class SpokenTime:
    """A time as a sentence names it. `day` is the day that it names or begins with, None where nobody can tell.

    `grain` says what is known of it: `day`, `week`, `month` or `year`.
    """

    words: str
    day: date | None
    grain: str = "day"

    @property
    def iso(self) -> str | None:
        """The day, in ISO 8601."""
        return None if self.day is None else self.day.isoformat()


def find_time(bare: str, said: date | None) -> SpokenTime | None:
    """Return the time gone by that a sentence names first; relative ones need the day on which it was said."""
    told = [
        named
        for named in iter_times(bare, said or _ANY_DAY, TimeDirection.TOLD)
        if not _is_future(named, said or _ANY_DAY)
    ]
    first = min(told, key=lambda named: named.start, default=None)
    if first is None:
        return None
    if first.reading is None:
        return SpokenTime(first.words, None)
    return SpokenTime(first.words, _day(first.reading, said), _precision(first.reading))


def day_of(timestamp: str | None) -> date | None:
    """Return the day of a timestamp in ISO 8601; None for anything else."""
    if not timestamp:
        return None
    try:
        return datetime.fromisoformat(timestamp).date()
    except ValueError:
        return None


def moment_of(timestamp: str | None) -> str | None:
    """Return a timestamp in the one form of ISO 8601 that KnowHub keeps; None for what is no time."""
    if not timestamp or day_of(timestamp) is None:
        return None
    moment = datetime.fromisoformat(timestamp)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    except OverflowError:
        return None


def _is_future(named: TimeMention, said: date) -> bool:
    """Return whether it is tomorrow, next week or the like; of a date with its year nobody asks."""
    read = named.reading
    return read is not None and not read.is_fixed and not read.every_year and read.first > said


def _precision(read: TimeRange) -> str:
    days = (read.last - read.first).days + 1
    return next((grain for most, grain in _GRAINS if days <= most), "year")


def _day(read: TimeRange, said: date | None) -> date | None:
    if read.is_fixed:
        return read.first
    if said is None:
        return None
    return _find_last_date(read.first, said) if read.every_year else read.about or read.first


def _find_last_date(day: date, said: date) -> date | None:
    """Return the last such day of a year, up to when that was said."""
    for year in range(said.year, max(0, said.year - _YEARS_BACK - 1), -1):
        try:
            found = day.replace(year=year)
        except ValueError:
            # The 29th of February of another year.
            continue
        if found <= said:
            return found
    return None
