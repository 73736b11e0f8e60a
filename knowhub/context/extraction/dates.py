"""When something took place that a sentence tells of: dates, and words held against the day of the telling."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from knowhub.context.time_forms import WEEK, Named, Reading, Side, named_in

_GRAINS: Final = ((2, "day"), (WEEK, "week"), (31, "month"))
# A day to read from where nobody knows on which one it was said.
_ANY_DAY: Final = date(2000, 1, 1)
# Between two of the 29th of February lie eight years at the most.
_YEARS_BACK: Final = 8


@dataclass(frozen=True, slots=True)
class When:
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


def when(bare: str, said: date | None) -> When | None:
    """Return the time gone by that a sentence names first; relative ones need the day on which it was said."""
    told = [one for one in named_in(bare, said or _ANY_DAY, Side.TOLD) if not _is_ahead(one, said or _ANY_DAY)]
    first = min(told, key=lambda one: one.start, default=None)
    if first is None:
        return None
    if first.reading is None:
        return When(first.words, None)
    return When(first.words, _day(first.reading, said), _grain(first.reading))


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


def _is_ahead(named: Named, said: date) -> bool:
    """Tell whether it is tomorrow, next week or the like; of a date with its year nobody asks."""
    read = named.reading
    return read is not None and not read.is_fixed and not read.every_year and read.first > said


def _grain(read: Reading) -> str:
    days = (read.last - read.first).days + 1
    return next((grain for most, grain in _GRAINS if days <= most), "year")


def _day(read: Reading, said: date | None) -> date | None:
    if read.is_fixed:
        return read.first
    if said is None:
        return None
    return _last_such(read.first, said) if read.every_year else read.about or read.first


def _last_such(day: date, said: date) -> date | None:
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
