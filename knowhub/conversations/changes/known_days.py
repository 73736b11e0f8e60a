"""The days that a message names, exactly or roughly: «next Monday», «in two weeks», «the 15th», 月底."""

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Final, TypeAlias

from knowhub.conversations.language import dates
from knowhub.conversations.language.dates import HAN_WEEKDAYS, MONTHS, WEEKDAYS
from knowhub.conversations.language.numbers import NAMED, read_spoken

Days: TypeAlias = tuple[date, date]
"""The first and the last day of a span."""
_MIN_ABBREVIATION: Final = 3
_HAN_WEEKDAY: Final = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_WEEKEND: Final = re.compile(r"\bweekends?\b|周末")
_WORD: Final = re.compile(r"[a-z]{3,9}")
# Whether «next Monday» is the first or the second one, people do not agree.
_NEAR_WEEKS: Final = 2
_MAX: Final = 40
# «In two weeks» is seldom to the day: a quarter more or less.
_SLACK: Final = 4
_UNIT_DAYS: Final[Mapping[str, float]] = {
    "day": 1, "night": 1, "week": 7, "fortnight": 14, "month": 30.4, "year": 365.25, "天": 1, "周": 7,
    "星期": 7, "礼拜": 7, "月": 30.4, "年": 365.25,
}  # fmt: skip
_FEW: Final[Mapping[str, float]] = {"a": 1, "an": 1, "half": 0.5, "few": 3, "半": 0.5, "几": 3}
_LONGEST_DAYS: Final = 40_000
_FIRST_YEAR: Final = 1_000
_LAST_YEAR: Final = 9_000
_DURATION: Final = re.compile(
    r"\b(\d{1,3}|[a-z]{1,9}(?:-[a-z]{3,5})?) (?:of |a )?(day|night|week|fortnight|month|year)s?\b"
    r"|(?<![\d〇一二三四五六七八九])(\d{1,3}|[半几一二两三四五六七八九十]{1,3})个?[多半]?"
    r"(天|周(?![一二三四五六日天末年])|星期(?![一二三四五六日天])|礼拜|(?<=个)月|年)",
    re.IGNORECASE,
)
_PART_OF_MONTH: Final = re.compile(
    r"\b(?:end|close|beginning|start|middle|half|week|days?|rest) of (?:the|this|next|each|every) month\b"
    r"|月[底末初中]|[上中下]旬",
    re.IGNORECASE,
)
_PART_OF_YEAR: Final = re.compile(
    r"\b(?:end|beginning|start|middle|half|rest) of (?:the|this|next) year\b|年[底末初中]|[春夏秋冬][天季]"
    r"|\b(?:spring|summer|autumn|winter)\b",
    re.IGNORECASE,
)
_DAY_OF_MONTH: Final = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b|(\d{1,2}|[一二三十]{1,3}[一二三四五六七八九]?)[号日]")
_NEAR_DAYS: Final = 31
_LAST_DAY: Final = 31


def list_calendar_words(word: str) -> list[str]:
    """Return the weekdays and months that a word names or abbreviates: «Tue», «Tues», «Tuesdays»."""
    stem = word.removesuffix("s")
    if len(stem) < _MIN_ABBREVIATION:
        return []
    return [full for full in (*WEEKDAYS, *MONTHS) if full.startswith(stem)]


def list_named_days(text: str, said: date) -> list[Days]:
    """Return the day on which a text was said, and those that it names: a day without a year in each near year."""
    found: list[Days] = [(said, said), *((day, day) for day in dates.iter_coming_days(text, said))]
    for mention in dates.iter_times(text, said):
        if mention.reading is not None:
            found += place_days(mention.reading, said)
    return found


def list_possible_days(text: str, said: date) -> list[Days]:
    """Return the days that a text may mean: a weekday within two weeks, «in two weeks», «the 15th», 月底."""
    found: list[Days] = []
    if not _FIRST_YEAR < said.year < _LAST_YEAR:
        return found
    lower = text.lower()
    words = {full for word in _WORD.findall(lower) for full in list_calendar_words(word)}
    weekdays = {at for at, name in enumerate(WEEKDAYS) if name in words}
    weekdays |= {min(HAN_WEEKDAYS.index(name), 6) for name in _HAN_WEEKDAY.findall(text)}
    weekdays |= {5, 6} if _WEEKEND.search(lower) else set()
    around = (said + timedelta(days=away) for away in range(-7 * _NEAR_WEEKS, 7 * _NEAR_WEEKS + 1))
    found += [(day, day) for day in around if day.weekday() in weekdays]
    for days in _iter_durations(lower):
        slack = days / _SLACK if days > 1 else 0
        near, far = timedelta(days=int(days - slack)), timedelta(days=int(days + slack))
        found += [(said + near, said + far), (said - far, said - near)]
    if _PART_OF_MONTH.search(text):
        found.append((dates.make_month(said.year, said.month).first, dates.make_month(said.year, said.month + 1).last))
    if _PART_OF_YEAR.search(text):
        found.append((date(said.year, 1, 1), date(said.year + 1, 12, 31)))
    days_of_month = {int(day) for groups in _DAY_OF_MONTH.findall(text) for day in _read_day(*groups)}
    coming = (said + timedelta(days=away) for away in range(-_NEAR_DAYS, _NEAR_DAYS + 1))
    return [*found, *((day, day) for day in coming if day.day in days_of_month)]


def place_days(reading: dates.TimeRange, said: date) -> Iterator[Days]:
    """Yield the days that a reading is, in each year near the day on which it was said."""
    if not reading.every_year:
        yield reading.first, reading.last
        return
    for year in (said.year - 1, said.year, said.year + 1):
        try:
            yield reading.first.replace(year=year), reading.last.replace(year=year)
        except ValueError:
            # The 29th of February.
            continue


def _iter_durations(lower: str) -> Iterator[float]:
    """Yield the lengths in days of the first spans of time that a text names."""
    for count, unit, han_count, han_unit in _DURATION.findall(lower)[:_MAX]:
        written = count or han_count
        numbers = {_FEW[written]} if written in _FEW else read_spoken(written)
        lengths = (number * _UNIT_DAYS[unit or han_unit] for number in numbers)
        yield from (days for days in lengths if days < _LONGEST_DAYS)


def _read_day(*written: str) -> Iterator[int]:
    for text in filter(None, written):
        values = {int(text)} if text.isdecimal() else read_spoken(text, NAMED)
        yield from (value for value in values if 1 <= value <= _LAST_DAY)
