"""The forms in which Chinese and English name a time, and what each means seen from a day."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, zip_longest
from typing import Final

from knowhub.conversations.language.numbers import CARDINALS, read_number

MAX_NAMED: Final = 8
"""So many times are read in each form: the rest of a long list of dates is not read."""
MAX_READ_CHARS: Final = 4_000
DECEMBER: Final = 12
WEEK: Final = 7
# A leap year: a month and a day without a year are kept in it.
_NO_YEAR: Final = 2000
_DAYS_PAST: Final = 120
_SPAN: Final = re.compile(r"\s{0,3}(?:[-–—~]|to|until|through|至|到)\s{0,3}")

_NUMBERED: Final = re.compile(r"\d|[一二三四五六七八九十][月号日]|下下?个?(?:周|星期|礼拜|月)")
_MONTH_NAMES: Final = "january february march april may june july august september october november december"
_DAY_NAMES: Final = "monday tuesday wednesday thursday friday saturday sunday"
MONTHS, WEEKDAYS = _MONTH_NAMES.split(), _DAY_NAMES.split()
HAN_WEEKDAYS: Final = "一二三四五六日天"
_HOLIDAYS: Final = {
    "元旦": (1, 1), "情人节": (2, 14), "妇女节": (3, 8), "植树节": (3, 12), "愚人节": (4, 1), "劳动节": (5, 1),
    "五一": (5, 1), "青年节": (5, 4), "儿童节": (6, 1), "六一": (6, 1), "建党节": (7, 1), "建军节": (8, 1),
    "教师节": (9, 10), "国庆": (10, 1), "万圣节": (10, 31), "双十一": (11, 11), "平安夜": (12, 24), "圣诞": (12, 25),
    "跨年夜": (12, 31), "new year's day": (1, 1), "valentine's day": (2, 14), "april fools": (4, 1),
    "may day": (5, 1), "independence day": (7, 4), "halloween": (10, 31), "christmas eve": (12, 24),
    "christmas": (12, 25), "boxing day": (12, 26), "new year's eve": (12, 31),
}  # fmt: skip
"""Those of a fixed date: what moves with the moon, or is a certain Monday, is not in it."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The days that a time is, the last one among them; without a year they are those of every year."""

    first: date
    last: date
    every_year: bool = False


@dataclass(frozen=True, slots=True)
class TimeMention:
    """A time where a text names it: `words` at `start`. `reading` is None for a day that no calendar has."""

    start: int
    words: str
    reading: TimeRange | None


def iter_times(text: str, today: date) -> Iterator[TimeMention]:
    """Yield the times that the beginning of a text names, seen from a day, in the order of the forms."""
    text = text[:MAX_READ_CHARS]
    if not _has_date_hint(text):
        return
    taken: list[tuple[int, int]] = []
    lower = text.lower()
    for form in _FORMS:
        if not form.can_match(lower):
            continue
        for match in islice(form.pattern.finditer(text), MAX_NAMED):
            # The longest form comes first: of 2023年5月2日 neither the year nor the month is named beside it.
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            taken.append(match.span())
            yield TimeMention(match.start(), match[0].strip(), _read_form(form, match, today))


def find_coming_day(text: str, said: date) -> date | None:
    """Return the first day, after the one on which it was said, that a text names to the day; None if there is none.

    A day and a month without a year are the next ones. «Tomorrow» and holidays are left out: few of them are plans.
    """
    return next(iter_coming_days(text, said), None)


def iter_coming_days(text: str, said: date) -> Iterator[date]:
    """Yield the days that `find_coming_day` chooses from."""
    mentions = sorted(iter_times(text, said), key=lambda item: item.start)
    for named, following in zip_longest(mentions, mentions[1:]):
        found = named.reading
        if found is None or found.first != found.last or not _NUMBERED.search(named.words):
            continue
        day: date | None = found.first
        if found.every_year:
            end = _find_end(text, named, following)
            day = _find_next(found.first, said) if end is None else _find_last(found.first, end)
        if day is not None and day > said:
            yield day


def read_day(timestamp: str | None) -> date | None:
    """Return the day of a timestamp in ISO 8601; None for anything else."""
    try:
        return datetime.fromisoformat(timestamp).date() if timestamp else None
    except ValueError:
        return None


def read_moment(timestamp: str | None) -> str | None:
    """Return a timestamp in the one form of ISO 8601 that KnowHub keeps; None for what is no time."""
    if not timestamp or read_day(timestamp) is None:
        return None
    moment = datetime.fromisoformat(timestamp)
    try:
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def make_month(year: int, month: int) -> TimeRange:
    """Return a month by its number, which may run on into other years."""
    year, month = year + (month - 1) // DECEMBER, (month - 1) % DECEMBER + 1
    after = date(year + month // DECEMBER, month % DECEMBER + 1, 1)
    return TimeRange(date(year, month, 1), after - timedelta(days=1))


def compile_form(text: str) -> re.Pattern[str]:
    """Compile a form: case does not count, and neither does white space in it."""
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


@dataclass(frozen=True, slots=True)
class _Form:
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], date], TimeRange]
    # Every match contains one of these; searching for them is far cheaper than the pattern.
    signs: Sequence[str] = ()

    def can_match(self, lower: str) -> bool:
        return not self.signs or any(sign in lower for sign in self.signs)


def _has_date_hint(text: str) -> bool:
    # Most texts name no day, which one search shows.
    if not text.isascii() and _HAN_TIME.search(text):
        return True
    words = _WORDS.findall(text.lower())
    return not _TIME_WORDS.isdisjoint(words) or any(word.isdecimal() for word in words)


def _read_form(form: _Form, match: re.Match[str], today: date) -> TimeRange | None:
    try:
        return form.read(match, today)
    except (ValueError, LookupError, OverflowError):
        # The thirty-first of a month without one, before the year 1, or a word with the long s of old print.
        return None


def _read_month(written: str) -> int:
    lower = written.lower().rstrip(".")
    names = [at for at, name in enumerate(MONTHS, 1) if name.startswith(lower[:3])]
    month = names[0] if names and lower[0].isascii() and lower[0].isalpha() else read_number(written)
    if not 1 <= month <= DECEMBER:
        raise ValueError(written)
    return month


def _read_date(match: re.Match[str], today: date) -> TimeRange:
    """Read year, month and day, as many as are there; 去年5月 names its year from today."""
    parts = match.groupdict()
    month = _read_month(parts["month"]) if parts.get("month") else None
    day = read_number(parts["day"]) if parts.get("day") else None
    year = _read_year(parts.get("year"), today)
    if month is None:
        return TimeRange(*_get_year_ends(year or today.year))
    whole = make_month(year or _NO_YEAR, month)
    if day is None:
        return TimeRange(whole.first, whole.last, year is None)
    item = date(whole.first.year, month, day)
    return TimeRange(item, item, year is None)


_YEARS_AWAY: Final = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "last year": -1, "this year": 0, "next year": 1}


def _read_year(written: str | None, today: date) -> int | None:
    if not written:
        return None
    away = _YEARS_AWAY.get(" ".join(written.lower().split()))
    return today.year + away if away is not None else read_number(written.rstrip("年"))


def _find_next(day: date, said: date) -> date | None:
    """Return such a day of this year, or of the next if it is long gone; None for the 29th of February of neither."""
    for year in (said.year, said.year + 1):
        found = _set_year(day, year)
        # «Since 1 March», said in May, is past and no plan.
        if found is not None and found >= said - timedelta(days=_DAYS_PAST):
            return found
    return None


def _find_end(text: str, named: TimeMention, following: TimeMention | None) -> date | None:
    """Return the last day of a span whose year is said at its end: «28 December to 3 January 2028»."""
    if following is None or following.reading is None or following.reading.every_year:
        return None
    between = text[named.start + len(named.words) : following.start]
    return following.reading.last if _SPAN.fullmatch(between) else None


def _find_last(day: date, end: date) -> date | None:
    found = _set_year(day, end.year)
    return found if found is None or found <= end else _set_year(day, end.year - 1)


def _set_year(day: date, year: int) -> date | None:
    try:
        return day.replace(year=year)
    except ValueError:
        return None


def _get_year_ends(year: int) -> tuple[date, date]:
    return date(year, 1, 1), date(year, DECEMBER, 31)


_DAYS_AWAY: Final = {
    "大前天": -3, "前天": -2, "昨天": -1, "昨日": -1, "昨晚": -1, "昨夜": -1, "今天": 0, "今日": 0, "今早": 0,
    "今晚": 0, "明天": 1, "明日": 1, "明晚": 1, "后天": 2, "大后天": 3,
    "the day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0, "tonight": 0, "this morning": 0,
    "this afternoon": 0, "tomorrow": 1, "tmrw": 1, "tmr": 1, "the day after tomorrow": 2,
}  # fmt: skip


def _read_relative_day(match: re.Match[str], today: date) -> TimeRange:
    day = today + timedelta(days=_DAYS_AWAY[" ".join(match[0].lower().split())])
    return TimeRange(day, day)


_STEPS: Final = {"上上": -2, "上": -1, "last": -1, "这": 0, "本": 0, "this": 0, "下": 1, "next": 1, "下下": 2}


def _read_relative_week(match: re.Match[str], today: date) -> TimeRange:
    """Read last week, 上周, and with a day last Tuesday, 上周二; weeks begin on Monday.

    In Chinese 上周二 is of the week before; last Tuesday is the one before today.
    """
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=_STEPS[match["step"].lower()])
    named = match["weekday"].lower()
    if not named:
        return TimeRange(monday, monday + timedelta(days=WEEK - 1))
    if named in {"末", "weekend"}:
        return TimeRange(monday + timedelta(days=5), monday + timedelta(days=6))
    if named in HAN_WEEKDAYS:
        day = monday + timedelta(days=min(HAN_WEEKDAYS.index(named), 6))
        return TimeRange(day, day)
    away = (WEEKDAYS.index(named) - today.weekday()) % WEEK
    day = today + timedelta(days=away - WEEK if match["step"].lower() == "last" else away)
    return TimeRange(day, day)


def _read_this_past(match: re.Match[str], today: date) -> TimeRange:
    match match["unit"].lower():
        case "week":
            monday = today - timedelta(days=today.weekday())
            return TimeRange(monday, monday + timedelta(days=WEEK - 1))
        case "month":
            return make_month(today.year, today.month - 1)
    return TimeRange(*_get_year_ends(today.year - 1))


def _read_relative_month(match: re.Match[str], today: date) -> TimeRange:
    return make_month(today.year, today.month + _STEPS[match["step"].lower()])


def _read_relative_month_day(match: re.Match[str], today: date) -> TimeRange:
    day = _read_relative_month(match, today).first.replace(day=read_number(match["day"]))
    return TimeRange(day, day)


def _read_that_day(match: re.Match[str], today: date) -> TimeRange:
    """Read this day of another year: 去年的今天."""
    day = today.replace(year=today.year + _YEARS_AWAY[match["year"]])
    return TimeRange(day, day)


def _read_ago(match: re.Match[str], today: date) -> TimeRange:
    count, unit = read_number(match["count"]), match["unit"].lower()
    if unit in {"天", "日", "day"}:
        day = today - timedelta(days=count)
        return TimeRange(day, day)
    if unit in {"周", "星期", "礼拜", "week"}:
        # A week ago is hardly ever to the day.
        day = today - timedelta(weeks=count)
        return TimeRange(day - timedelta(days=3), day + timedelta(days=3))
    if unit in {"月", "month"}:
        return make_month(today.year, today.month - count)
    return TimeRange(*_get_year_ends(today.year - count))


def _read_holiday(match: re.Match[str], today: date) -> TimeRange:
    month, day = _HOLIDAYS[match["holiday"].lower().replace("’", "'")]
    year = _read_year(match["year"], today)
    item = date(year or _NO_YEAR, month, day)
    return TimeRange(item, item, year is None)


HAN_NUMBER: Final = r"(?:\d{1,2}|[一二两三四五六七八九十]{1,3})"
_DOZEN: Final = "|".join(name for name, value in CARDINALS.items() if 1 <= value <= 12)  # noqa: PLR2004 -- a dozen
EN_NUMBER: Final = rf"\d{{1,2}}|a\s+couple\s+of|an?|{_DOZEN}"
_HAN_YEARS: Final = r"[一二][〇零一二三四五六七八九]{3}年|前年|去年|今年|明年"
# Four digits before 年 may be a duration, unless a month follows.
_HAN_YEAR: Final = rf"(?:(?P<year>(?:19|20)\d\d年|{_HAN_YEARS})(?:\s*的)?\s*)"
_HAN_YEAR_OF: Final = rf"(?:(?P<year>(?<!\d)\d{{4}}年|{_HAN_YEARS})(?:\s*的)?\s*)"
_EN_MONTHS: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_EN_MONTH: Final = rf"(?P<month>{_EN_MONTHS})\.?"
_NEAR_YEAR: Final = r"last\s+year|this\s+year|next\s+year"
_EN_YEAR: Final = rf"(?P<year>(?<![\d-])(?:19|20)\d\d(?![\d-])|{_NEAR_YEAR})"
_EN_DAY: Final = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_WEEKDAY: Final = rf"(?P<weekday>{'|'.join(WEEKDAYS)}|weekend)\b"
_HOLIDAY: Final = "|".join(re.escape(name).replace("'", "['’]") for name in sorted(_HOLIDAYS, key=len, reverse=True))
_NEAR: Final = "|".join(
    re.escape(name).replace(r"\ ", r"\s+") if name[0] > "z" else rf"\b{re.escape(name)}\b".replace(r"\ ", r"\s+")
    for name in sorted(_DAYS_AWAY, key=len, reverse=True)
)
_IN_MONTHS: Final = tuple(name[:3] for name in MONTHS)

_FORMS: Final[Sequence[_Form]] = (
    _Form(
        compile_form(
            r"(?<!\d)(?P<year>(?:19|20)\d\d)([-/.])(?P<month>1[0-2]|0?[1-9])\2(?P<day>[12]\d|3[01]|0?[1-9])(?!\d)"
        ),
        _read_date,
    ),
    _Form(compile_form(r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b"), _read_date, "-"),
    _Form(
        compile_form(rf"{_HAN_YEAR_OF}?(?P<month>{HAN_NUMBER})\s*月\s*(?P<day>{HAN_NUMBER})\s*[日号]"), _read_date, "月"
    ),
    _Form(
        compile_form(rf"\b{_EN_DAY}\s+(?:of\s+)?{_EN_MONTH}(?:,?\s+(?:of\s+)?{_EN_YEAR})?\b"), _read_date, _IN_MONTHS
    ),
    _Form(
        compile_form(rf"\b{_EN_MONTH}\s+(?:the\s+)?{_EN_DAY}(?:,?\s+(?:of\s+)?{_EN_YEAR})?\b(?!\d)"),
        _read_date,
        _IN_MONTHS,
    ),
    _Form(compile_form(rf"{_HAN_YEAR}?(?P<holiday>{_HOLIDAY})"), _read_holiday),
    _Form(compile_form(r"(?P<year>前年|去年|明年)的?今[天日]"), _read_that_day, "今"),
    _Form(
        compile_form(_NEAR),
        _read_relative_day,
        ("天", "日", "早", "晚", "夜", "day", "this", "night", "tomorrow", "tmr"),
    ),
    _Form(
        compile_form(r"(?P<step>上上|上|这|本|下下|下)个?(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天末]?)"),
        _read_relative_week,
        "周期拜",
    ),
    _Form(compile_form(rf"\b(?P<step>last)\s+{_WEEKDAY}"), _read_relative_week, ("last",)),
    _Form(compile_form(rf"\b(?P<step>this|next)\s+{_WEEKDAY}"), _read_relative_week, ("this", "next")),
    _Form(compile_form(r"\bthis\s+past\s+(?P<unit>week|month|year)\b"), _read_this_past, ("past",)),
    _Form(compile_form(r"\b(?P<step>last|this|next)\s+week\b(?P<weekday>)"), _read_relative_week, ("week",)),
    _Form(
        compile_form(rf"(?P<step>上上|上|这|本|下下|下)个?月\s*(?P<day>{HAN_NUMBER})\s*[日号]"),
        _read_relative_month_day,
        "月",
    ),
    _Form(compile_form(r"(?P<step>上上|上|这|本|下下|下)个?月"), _read_relative_month, "月"),
    _Form(compile_form(r"\b(?P<step>last|this|next)\s+month\b"), _read_relative_month, ("month",)),
    _Form(
        compile_form(rf"(?P<count>{HAN_NUMBER})\s*个?(?P<unit>天|日|周|星期|礼拜|月|年)(?:以|之)?前"), _read_ago, "前"
    ),
    _Form(compile_form(rf"\b(?P<count>{EN_NUMBER})\s+(?P<unit>day|week|month|year)s?\s+ago\b"), _read_ago, ("ago",)),
    _Form(compile_form(rf"{_HAN_YEAR_OF}?(?<![\d.])(?P<month>{HAN_NUMBER})\s*月(?:份|底|初|中|里)?"), _read_date, "月"),
    _Form(compile_form(rf"\b{_EN_MONTH},?\s+(?:of\s+)?{_EN_YEAR}\b"), _read_date, _IN_MONTHS),
    # Alone only where it can be nothing else: a march, and what may be.
    _Form(
        re.compile(rf"\b(?P<month>{'|'.join(name.title() for name in MONTHS if name != 'may')})\b"),
        _read_date,
        _IN_MONTHS,
    ),
    _Form(compile_form(rf"(?<=\bin\s)(?P<month>{_EN_MONTHS})\b"), _read_date, _IN_MONTHS),
    _Form(compile_form(_HAN_YEAR), _read_date, "年"),
    _Form(compile_form(rf"\b(?P<year>{_NEAR_YEAR})\b"), _read_date, ("year",)),
    _Form(compile_form(rf"\b{_EN_YEAR}\b"), _read_date),
)
_WORDS: Final = re.compile(r"[a-z]+|\d\d")
_TIME_WORDS: Final = frozenset(
    ["sept", "ago", "last", "this", "next", "day", "yesterday", "today", "tonight", "tomorrow", "tmr"]
).union(
    MONTHS,
    WEEKDAYS,
    (name[:3] for name in MONTHS),
    (name.rpartition(" ")[2] for name in _HOLIDAYS if name.isascii()),
)
_HAN_HOLIDAYS: Final = "|".join(name for name in _HOLIDAYS if not name.isascii())
_HAN_TIME: Final = re.compile(rf"[月天日号昨今明周年节前早晚]|星期|礼拜|{_HAN_HOLIDAYS}")
