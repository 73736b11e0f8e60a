"""The days that a text names in Chinese or English, seen from a day: what is asked about, and what is spoken of."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from knowhub.conversations.language.dates import (
    DECEMBER,
    EN_NUMBER,
    HAN_NUMBER,
    MAX_NAMED,
    WEEK,
    TimeRange,
    compile_form,
    iter_times,
    make_month,
)
from knowhub.conversations.language.numbers import read_number

_MAX_DAYS: Final = 7
_MAX_MONTHS: Final = 3


def list_range_marks(time: TimeRange) -> list[str]:
    """Return the marks of days, see `list_day_marks`; of a long time those of its months, or of its years."""
    first, last = time.first, time.last
    days = (last - first).days + 1
    if time.every_year:
        return [f"m{first:%m}"] if days > _MAX_DAYS else [f"m{first:%m%d}"]
    if days <= _MAX_DAYS:
        return [_make_marks(first + timedelta(ahead))[0] for ahead in range(days)]
    months = (last.year - first.year) * DECEMBER + last.month - first.month + 1
    if months <= _MAX_MONTHS:
        return [_make_marks(make_month(first.year, first.month + ahead).first)[2] for ahead in range(months)]
    return [f"y{year}" for year in range(first.year, last.year + 1)]


@dataclass(frozen=True, slots=True)
class TimeAfter:
    """A time that a question counts from something that happened: `days` after, or before, `event`.

    `rest` is the question without it.
    """

    event: str
    rest: str
    days: int

    def resolve(self, moment: float) -> TimeRange | None:
        """Return the days that are meant where the event was at `moment`: nobody counts weeks to the day.

        None where that is beyond the calendar.
        """
        leeway = timedelta(days=0 if abs(self.days) < WEEK else 3)
        try:
            day = _get_day(moment) + timedelta(days=self.days)
            return TimeRange(day - leeway, day + leeway)
        except (ValueError, OverflowError, OSError):
            return None


def parse_time_after(text: str) -> TimeAfter | None:
    """Return the time that a question counts from an event: "a week after we met", 我们认识两周后."""
    for sign, form in _AFTER:
        match = form.search(text) if sign.search(text) else None
        if match is None:
            continue
        try:
            length = _LENGTHS[match["unit"].lower()] * read_number(match["count"])
        except ValueError:
            # 十十 is no number.
            continue
        way = -1 if (match.groupdict().get("side") or "").lower() == "before" else 1
        event = match["event"].strip(" ,，")
        rest = f"{text[: match.start()].rstrip()} {text[match.end() :].lstrip()}".strip()
        return TimeAfter(event, rest, way * length)
    return None


def list_named_times(text: str, now: float) -> list[tuple[str, TimeRange]]:
    """List the days that a text names, each once with its words, seen from `now`, in seconds since the epoch."""
    try:
        found = [(item.words, item.reading) for item in iter_times(text, _get_day(now))]
    except (ValueError, OverflowError, OSError):
        # No day is seen from beyond the calendar.
        return []
    return list(dict.fromkeys((words, time) for words, time in found if time is not None))[:MAX_NAMED]


def list_day_marks(moment: float | None, named: Iterable[TimeRange] = ()) -> list[str]:
    """Return the words under which a day is found: day, day of every year, month, month of every year, year.

    No text has such words by itself: what is said of a date is not mixed up with a number.
    """
    try:
        days = [_get_day(moment)] if moment is not None else []
    except (ValueError, OverflowError, OSError):
        days = []
    days += [time.first for time in named if time.first == time.last and not time.every_year]
    marks = [mark for day in days for mark in _make_marks(day)]
    marks += [mark for time in named if time.every_year for mark in list_range_marks(time)]
    return list(dict.fromkeys(marks))


def _make_marks(day: date) -> tuple[str, ...]:
    year, month = day.year, f"{day.month:02}"
    return f"d{year}{month}{day.day:02}", f"m{month}{day.day:02}", f"d{year}{month}", f"m{month}", f"y{year}"


def _get_day(moment: float) -> date:
    return datetime.fromtimestamp(moment, UTC).date()


_LENGTHS: Final = {
    "天": 1, "周": 7, "星期": 7, "礼拜": 7, "月": 30, "年": 365, "day": 1, "week": 7, "month": 30, "year": 365,
}  # fmt: skip
_AFTER: Final = (
    (
        re.compile(r"after|before", re.IGNORECASE),
        compile_form(
            rf"\b(?P<count>{EN_NUMBER})\s+(?P<unit>day|week|month|year)s?\s+(?P<side>after|before)\s+"
            r"(?P<event>[^?.!,]{4,200})"
        ),
    ),
    (
        re.compile("后"),
        compile_form(
            rf"(?<![^，。？！?!,\s])(?P<event>[^，。？！?!,\s]{{2,60}}?)的?(?P<count>{HAN_NUMBER})\s*个?(?P<unit>天|周|星期|礼拜|月|年)"
            r"(?:以|之)?后"
        ),
    ),
)
