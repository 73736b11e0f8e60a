"""The days that a text names in Chinese or English, seen from a day: what is asked about, and what is spoken of."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Final

# A leap year: a month and a day without a year are kept in it.
_NO_YEAR: Final = 2000
_MOST_DAYS: Final = 7
_MOST_MONTHS: Final = 3
_DECEMBER: Final = 12
_WEEK: Final = 7
_MOST_NAMED: Final = 8
_MOST_READ_CHARS: Final = 4_000

_MONTH_NAMES: Final = "january february march april may june july august september october november december"
_DAY_NAMES: Final = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBER_NAMES: Final = "zero one two three four five six seven eight nine ten eleven twelve"
_MONTHS, _WEEKDAYS, _NUMBERS = _MONTH_NAMES.split(), _DAY_NAMES.split(), _NUMBER_NAMES.split()
_HAN_DIGITS: Final = "零一二三四五六七八九"
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
class NamedTime:
    """Days that a text names by `words`, the last one among them; without a year they are those of every year."""

    words: str
    first: date
    last: date
    every_year: bool = False

    def marks(self) -> list[str]:
        """Return the marks of these days, see `marks_of`; of a long time those of its months, or of its years."""
        days = (self.last - self.first).days + 1
        if self.every_year:
            return [f"m{self.first:%m}"] if days > _MOST_DAYS else [f"m{self.first:%m%d}"]
        if days <= _MOST_DAYS:
            named = (self.first + timedelta(ahead) for ahead in range(days))
            return [_marks(day.year, day.month, day.day)[0] for day in named]
        months = (self.last.year - self.first.year) * _DECEMBER + self.last.month - self.first.month + 1
        if months <= _MOST_MONTHS:
            begun = (_month(self.first.year, self.first.month + ahead).first for ahead in range(months))
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

    def around(self, moment: float) -> NamedTime | None:
        """Return the days that are meant where the event was at `moment`: nobody counts weeks to the day.

        None where that is beyond the calendar.
        """
        leeway = timedelta(days=0 if abs(self.days) < _WEEK else 3)
        try:
            day = _day_of(moment) + timedelta(days=self.days)
            return NamedTime(self.words, day - leeway, day + leeway)
        except (ValueError, OverflowError, OSError):
            return None


def time_after(text: str) -> TimeAfter | None:
    """Return the time that a question counts from an event: "a week after we met", 我们认识两周后."""
    for sign, pattern in _AFTER:
        match = pattern.search(text) if sign.search(text) else None
        if match is None:
            continue
        try:
            length = _LENGTHS[match["unit"].lower()] * _number(match["count"])
        except ValueError:
            # 十十 is no number.
            continue
        way = -1 if (match.groupdict().get("side") or "").lower() == "before" else 1
        event = match["event"].strip(" ,，")
        rest = f"{text[: match.start()].rstrip()} {text[match.end() :].lstrip()}".strip()
        return TimeAfter(event, rest, way * length, match[0].strip())
    return None


def named_times(text: str, now: float) -> list[NamedTime]:
    """List the days that a text names, seen from `now`, in seconds since the epoch; each is named once."""
    text = text[:_MOST_READ_CHARS]
    if not _may_name_days(text):
        return []
    try:
        found = _found(text, _day_of(now))
    except (ValueError, OverflowError, OSError):
        # The thirty-first of a month without one, or a thousand years ago.
        return []
    return list(dict.fromkeys(found))[:_MOST_NAMED]


def marks_of(moment: float | None, named: Iterable[NamedTime] = ()) -> list[str]:
    """Return the words under which a day is found: day, day of every year, month, month of every year, year.

    No text has such words by itself: what is said of a date is not mixed up with a number.
    """
    try:
        days = [_day_of(moment)] if moment is not None else []
    except (ValueError, OverflowError, OSError):
        days = []
    days += [one.first for one in named if one.first == one.last and not one.every_year]
    marks = [mark for day in days for mark in _marks(day.year, day.month, day.day)]
    marks += [mark for one in named if one.every_year for mark in one.marks()]
    return list(dict.fromkeys(marks))


def _marks(year: int, month: int, day: int) -> tuple[str, ...]:
    return f"d{year}{month:02}{day:02}", f"m{month:02}{day:02}", f"d{year}{month:02}", f"m{month:02}", f"y{year}"


def _may_name_days(text: str) -> bool:
    # Most of what is said names no day, and one look tells.
    if not text.isascii() and _HAN_TIME.search(text):
        return True
    words = _WORDS.findall(text.lower())
    return not _TIME_WORDS.isdisjoint(words) or any(word.isdecimal() for word in words)


def _day_of(moment: float) -> date:
    return datetime.fromtimestamp(moment, UTC).date()


def _found(text: str, today: date) -> list[NamedTime]:
    found: list[NamedTime] = []
    taken: list[tuple[int, int]] = []
    for pattern, read in _RULES:
        for match in islice(pattern.finditer(text), _MOST_NAMED):
            # The longest form comes first: of 2023年5月2日 neither the year nor the month is named beside it.
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            first, last, every_year = read(match, today)
            taken.append(match.span())
            found.append(NamedTime(match[0].strip(), first, last, every_year))
    return found


_Read = tuple[date, date, bool]


@dataclass(frozen=True, slots=True)
class _Month:
    first: date
    last: date


def _month(year: int, month: int) -> _Month:
    year, month = year + (month - 1) // _DECEMBER, (month - 1) % _DECEMBER + 1
    after = date(year + month // _DECEMBER, month % _DECEMBER + 1, 1)
    return _Month(date(year, month, 1), after - timedelta(days=1))


def _number(written: str) -> int:
    """Read a number below a hundred, or a year by its digits: 5, five, a, 五, 十二, 二十, 二〇二三."""
    written = written.lower().replace("两", "二").replace("〇", "零")
    if written.isdecimal():
        return int(written)
    if written in _NUMBERS:
        return _NUMBERS.index(written)
    if written in {"a", "an"}:
        return 1
    if "十" in written:
        tens, _, ones = written.partition("十")
        return (_HAN_DIGITS.index(tens) if tens else 1) * 10 + (_HAN_DIGITS.index(ones) if ones else 0)
    return int("".join(str(_HAN_DIGITS.index(digit)) for digit in written))


def _month_number(written: str) -> int:
    lower = written.lower().rstrip(".")
    names = [at for at, name in enumerate(_MONTHS, 1) if name.startswith(lower[:3])]
    return names[0] if names and lower[0].isascii() and lower[0].isalpha() else _number(written)


def _dated(match: re.Match[str], today: date) -> _Read:
    """Read year, month and day, as many as are there; 去年5月 names its year from today."""
    parts = match.groupdict()
    month = _month_number(parts["month"]) if parts.get("month") else None
    day = _number(parts["day"]) if parts.get("day") else None
    year = _year(parts.get("year"), today)
    if month is None:
        first = date(year or today.year, 1, 1)
        return first, date(first.year, _DECEMBER, 31), False
    whole = _month(year or _NO_YEAR, month)
    if day is None:
        return whole.first, whole.last, year is None
    one = date(whole.first.year, month, day)
    return one, one, year is None


def _year(written: str | None, today: date) -> int | None:
    if not written:
        return None
    relative = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "last year": -1, "this year": 0, "next year": 1}
    known = relative.get(" ".join(written.lower().split()))
    return today.year + known if known is not None else _number(written.rstrip("年"))


_DAYS_AWAY: Final = {
    "大前天": -3, "前天": -2, "昨天": -1, "昨日": -1, "昨晚": -1, "今天": 0, "今日": 0, "今早": 0, "今晚": 0,
    "明天": 1, "明日": 1, "明晚": 1, "后天": 2,
    "the day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0, "tonight": 0,
    "tomorrow": 1, "the day after tomorrow": 2,
}  # fmt: skip


def _near_day(match: re.Match[str], today: date) -> _Read:
    day = today + timedelta(days=_DAYS_AWAY[" ".join(match[0].lower().split())])
    return day, day, False


_STEPS: Final = {"上上": -2, "上": -1, "last": -1, "这": 0, "本": 0, "this": 0, "下": 1, "next": 1}


def _near_week(match: re.Match[str], today: date) -> _Read:
    """Read last week, 上周, and with a day last Tuesday, 上周二; weeks begin on Monday.

    In Chinese 上周二 is of the week before; last Tuesday is the one before today.
    """
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=_STEPS[match["step"].lower()])
    named = match["weekday"]
    if not named:
        return monday, monday + timedelta(days=_WEEK - 1), False
    if named.lower() in {"末", "weekend"}:
        return monday + timedelta(days=5), monday + timedelta(days=6), False
    if named in "一二三四五六日天":
        day = monday + timedelta(days=min("一二三四五六日天".index(named), 6))
        return day, day, False
    weekday = _WEEKDAYS.index(named.lower())
    away = (weekday - today.weekday()) % _WEEK
    day = today + timedelta(days=away - _WEEK if match["step"].lower() == "last" else away)
    return day, day, False


def _near_month(match: re.Match[str], today: date) -> _Read:
    whole = _month(today.year, today.month + _STEPS[match["step"].lower()])
    return whole.first, whole.last, False


def _ago(match: re.Match[str], today: date) -> _Read:
    count, unit = _number(match["count"]), match["unit"].lower()
    if unit in {"天", "日", "day"}:
        day = today - timedelta(days=count)
        return day, day, False
    if unit in {"周", "星期", "礼拜", "week"}:
        # A week ago is hardly ever to the day.
        day = today - timedelta(weeks=count)
        return day - timedelta(days=3), day + timedelta(days=3), False
    if unit in {"月", "month"}:
        whole = _month(today.year, today.month - count)
        return whole.first, whole.last, False
    return date(today.year - count, 1, 1), date(today.year - count, _DECEMBER, 31), False


def _holiday(match: re.Match[str], today: date) -> _Read:
    month, day = _HOLIDAYS[match["holiday"].lower().replace("’", "'")]
    year = _year(match["year"], today)
    one = date(year or _NO_YEAR, month, day)
    return one, one, year is None


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_HAN_NUMBER: Final = r"(?:\d{1,2}|[一二两三四五六七八九十]{1,3})"
_HAN_YEAR: Final = r"(?:(?P<year>(?:19|20)\d\d年|[一二][〇零一二三四五六七八九]{3}年|前年|去年|今年|明年)\s*的?\s*)"
_EN_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_EN_YEAR: Final = r"(?P<year>(?<![\d-])(?:19|20)\d\d(?![\d-])|last\s+year|this\s+year|next\s+year)"
_EN_NUMBER: Final = rf"\d{{1,2}}|an?|{'|'.join(_NUMBERS[1:])}"
_EN_DAY: Final = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_HOLIDAY: Final = "|".join(re.escape(name).replace("'", "['’]") for name in sorted(_HOLIDAYS, key=len, reverse=True))
_NEAR: Final = "|".join(
    re.escape(name).replace(r"\ ", r"\s+") if name[0] > "z" else rf"\b{re.escape(name)}\b".replace(r"\ ", r"\s+")
    for name in sorted(_DAYS_AWAY, key=len, reverse=True)
)

_RULES: Final[Sequence[tuple[re.Pattern[str], Callable[[re.Match[str], date], _Read]]]] = (
    (
        _pattern(
            r"(?<!\d)(?P<year>(?:19|20)\d\d)([-/.])(?P<month>1[0-2]|0?[1-9])\2(?P<day>[12]\d|3[01]|0?[1-9])(?!\d)"
        ),
        _dated,
    ),
    (_pattern(rf"{_HAN_YEAR}?(?P<month>{_HAN_NUMBER})\s*月\s*(?P<day>{_HAN_NUMBER})\s*[日号]"), _dated),
    (_pattern(rf"\b{_EN_DAY}\s+(?:of\s+)?{_EN_MONTH}(?:,?\s+(?:of\s+)?{_EN_YEAR})?\b"), _dated),
    (_pattern(rf"\b{_EN_MONTH}\s+(?:the\s+)?{_EN_DAY}(?:,?\s+(?:of\s+)?{_EN_YEAR})?\b(?!\d)"), _dated),
    (_pattern(rf"{_HAN_YEAR}?(?P<holiday>{_HOLIDAY})"), _holiday),
    (_pattern(_NEAR), _near_day),
    (_pattern(r"(?P<step>上上|上|这|本|下)个?(?:周|星期|礼拜)(?P<weekday>[一二三四五六日天末]?)"), _near_week),
    (_pattern(rf"\b(?P<step>last|this|next)\s+(?P<weekday>{'|'.join(_WEEKDAYS)}|weekend)\b"), _near_week),
    (_pattern(r"\b(?P<step>last|this|next)\s+week\b(?P<weekday>)"), _near_week),
    (_pattern(r"(?P<step>上|这|本|下)个?月"), _near_month),
    (_pattern(r"\b(?P<step>last|this|next)\s+month\b"), _near_month),
    (_pattern(rf"(?P<count>{_HAN_NUMBER})\s*个?(?P<unit>天|日|周|星期|礼拜|月|年)(?:以|之)?前"), _ago),
    (_pattern(rf"\b(?P<count>{_EN_NUMBER})\s+(?P<unit>day|week|month|year)s?\s+ago\b"), _ago),
    (_pattern(rf"{_HAN_YEAR}?(?<![\d.])(?P<month>{_HAN_NUMBER})\s*月(?:份|底|初|中|里)?"), _dated),
    (_pattern(rf"\b{_EN_MONTH},?\s+(?:of\s+)?{_EN_YEAR}\b"), _dated),
    # Alone only where it can be nothing else: a march, and what may be.
    (re.compile(rf"\b(?P<month>{'|'.join(name.title() for name in _MONTHS if name != 'may')})\b"), _dated),
    (re.compile(r"(?<=\b[Ii]n )(?P<month>May)\b"), _dated),
    (_pattern(_HAN_YEAR), _dated),
    (_pattern(rf"\b{_EN_YEAR}\b"), _dated),
)
_LENGTHS: Final = {
    "天": 1, "周": 7, "星期": 7, "礼拜": 7, "月": 30, "年": 365, "day": 1, "week": 7, "month": 30, "year": 365,
}  # fmt: skip
_AFTER: Final = (
    (
        re.compile(r"after|before", re.IGNORECASE),
        _pattern(
            rf"\b(?P<count>{_EN_NUMBER})\s+(?P<unit>day|week|month|year)s?\s+(?P<side>after|before)\s+"
            r"(?P<event>[^?.!,]{4,200})"
        ),
    ),
    (
        re.compile("后"),
        _pattern(
            rf"(?P<event>[^，。？！?!,\s]{{2,60}}?)的?(?P<count>{_HAN_NUMBER})\s*个?(?P<unit>天|周|星期|礼拜|月|年)"
            r"(?:以|之)?后"
        ),
    ),
)
_WORDS: Final = re.compile(r"[a-z]+|\d\d")
_TIME_WORDS: Final = frozenset(
    ["sept", "ago", "last", "this", "next", "day", "yesterday", "today", "tonight", "tomorrow"]
).union(
    _MONTHS,
    (name[:3] for name in _MONTHS),
    (name.rpartition(" ")[2] for name in _HOLIDAYS if name.isascii()),
)
_HAN_HOLIDAYS: Final = "|".join(name for name in _HOLIDAYS if not name.isascii())
_HAN_TIME: Final = re.compile(rf"[月天日号昨今明周年节前早晚]|星期|礼拜|{_HAN_HOLIDAYS}")
