"""The days that a text names in Chinese or English, seen from a day: what is asked about, and what is spoken of."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from knowhub.conversations.dates import (
    DECEMBER,
    EN_NUMBER,
    HAN_NUMBER,
    MAX_NAMED,
    WEEK,
    compile_form,
    iter_times,
    make_month,
)
from knowhub.conversations.spoken_numbers import read_number

_MAX_DAYS: Final = 7
_MAX_MONTHS: Final = 3


@dataclass(frozen=True, slots=True)
class MentionedTime:
    """Days that a text names by `words`, the last one among them; without a year they are those of every year."""

    words: str
    first: date
    last: date
    every_year: bool = False

    def marks(self) -> list[str]:
        """Return the marks of these days, see `date_tags`; of a long time those of its months, or of its years."""
        days = (self.last - self.first).days + 1
        if self.every_year:
            return [f"m{self.first:%m}"] if days > _MAX_DAYS else [f"m{self.first:%m%d}"]
        if days <= _MAX_DAYS:
            named = (self.first + timedelta(ahead) for ahead in range(days))
            return [_marks(day.year, day.month, day.day)[0] for day in named]
        months = (self.last.year - self.first.year) * DECEMBER + self.last.month - self.first.month + 1
        if months <= _MAX_MONTHS:
            begun = (make_month(self.first.year, self.first.month + ahead).first for ahead in range(months))
            return [_marks(day.year, day.month, 1)[2] for day in begun]
        return [f"y{year}" for year in range(self.first.year, self.last.year + 1)]


@dataclass(frozen=True, slots=True)
class TimeAfter:
    """A time that a question counts from something that happened: `days` after, or before, `event`.

    `rest` is the question without it.
    """

    event: str
    rest: str
    days: int
    words: str

    def resolve(self, moment: float) -> MentionedTime | None:
        """Return the days that are meant where the event was at `moment`: nobody counts weeks to the day.

        None where that is beyond the calendar.
        """
        leeway = timedelta(days=0 if abs(self.days) < WEEK else 3)
        try:
            day = _day_of(moment) + timedelta(days=self.days)
            return MentionedTime(self.words, day - leeway, day + leeway)
        except (ValueError, OverflowError, OSError):
            return None


def time_after(text: str) -> TimeAfter | None:
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
        return TimeAfter(event, rest, way * length, match[0].strip())
    return None


def list_named_times(text: str, now: float) -> list[MentionedTime]:
    """List the days that a text names, seen from `now`, in seconds since the epoch; each is named once."""
    try:
        found = [(item.words, item.reading) for item in iter_times(text, _day_of(now))]
    except (ValueError, OverflowError, OSError):
        # No day is seen from beyond the calendar.
        return []
    named = [MentionedTime(words, read.first, read.last, read.every_year) for words, read in found if read is not None]
    return list(dict.fromkeys(named))[:MAX_NAMED]


def date_tags(moment: float | None, named: Iterable[MentionedTime] = ()) -> list[str]:
    """Return the words under which a day is found: day, day of every year, month, month of every year, year.

    No text has such words by itself: what is said of a date is not mixed up with a number.
    """
    try:
        days = [_day_of(moment)] if moment is not None else []
    except (ValueError, OverflowError, OSError):
        days = []
    days += [
        named_time.first for named_time in named if named_time.first == named_time.last and not named_time.every_year
    ]
    marks = [mark for day in days for mark in _marks(day.year, day.month, day.day)]
    marks += [mark for named_time in named if named_time.every_year for mark in named_time.marks()]
    return list(dict.fromkeys(marks))


def _marks(year: int, month: int, day: int) -> tuple[str, ...]:
    return f"d{year}{month:02}{day:02}", f"m{month:02}{day:02}", f"d{year}{month:02}", f"m{month:02}", f"y{year}"


def _day_of(moment: float) -> date:
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
