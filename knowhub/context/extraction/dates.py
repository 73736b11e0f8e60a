"""When something took place that a sentence tells of: dates, and words held against the day of the telling."""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

_MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH: Final = "|".join(f"{name}|{name[:3]}" for name in _MONTHS) + "|sept"
_DAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_DAY: Final = "|".join(_DAYS)
_COUNTED_EN: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS_EN: Final = {word: number for number, word in enumerate(_COUNTED_EN, 1)} | {"a": 1, "an": 1, "a couple of": 2}
_NUMBERS_ZH: Final = {sign: number for number, sign in enumerate("一二三四五六七八九十", 1)} | {"两": 2}
_NUMBER_EN: Final = r"\d{1,2}|" + "|".join(_NUMBERS_EN)
_NUMBER_ZH: Final = r"\d{1,2}|[一二两三四五六七八九十]"
_UNITS: Final = {"day": 1, "week": 7, "天": 1, "周": 7, "星期": 7, "个星期": 7}
_AGO_ZH: Final = {"今天": 0, "今早": 0, "今晚": 0, "昨天": 1, "昨晚": 1, "前天": 2, "大前天": 3}
_AGO_EN: Final = {"yesterday": 1, "last night": 1, "today": 0, "this morning": 0, "this afternoon": 0, "tonight": 0}
_WEEKDAYS_ZH: Final = "一二三四五六日"
_MONTHS_A_YEAR: Final = 12

_DATED: Final = re.compile(
    r"(?P<iso>\b\d{4}-\d{2}-\d{2}\b)"
    rf"|\b(?:on |the )*(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{_MONTH})\b\.?,?(?: (?P<y1>\d{{4}}))?"
    rf"|\b(?P<m2>{_MONTH})\b\.? (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y2>\d{{4}}))?"
    rf"|\bin (?P<m3>{_MONTH})\b(?: (?P<y3>\d{{4}}))?"
    r"|\b(?:in|back in|since) (?P<y4>(?:19|20)\d\d)\b"
    r"|(?:(?P<y5>\d{4})年)?(?P<m5>\d{1,2})月(?:(?P<d5>\d{1,2})[日号])?|(?P<y6>(?:19|20)\d\d)年"
)
_RELATIVE: Final = re.compile(
    r"\b(?P<ago_en>yesterday|last night|this morning|this afternoon|today|tonight)\b"
    rf"|\b(?P<n_en>{_NUMBER_EN}) (?P<unit_en>day|week|month|year)s? ago\b"
    r"|\b(?P<last>last|this past|this) (?P<what>week(?:end)?|month|year|" + _DAY + r")\b"
    rf"|\b(?:on|this past) (?P<weekday>{_DAY})\b"
    r"|(?P<ago_zh>大前天|前天|昨天|昨晚|今天|今早|今晚)"
    rf"|(?P<n_zh>{_NUMBER_ZH})(?P<unit_zh>天|周|个?星期|个月|年)(?:以|之)?前"
    r"|(?P<last_zh>上上?(?:个)?(?:周|星期|礼拜|月)|去年|前年)(?P<on_zh>[一二三四五六日天末])?"
)


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
    """Return the time that a sentence in lower case names first; relative ones need the day on which it was said."""
    dated, relative = _DATED.search(bare), _RELATIVE.search(bare)
    if dated is not None and (relative is None or dated.start() <= relative.start()):
        return _on_date(dated, said)
    return None if relative is None else _before(relative, said)


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


def _on_date(match: re.Match[str], said: date | None) -> When:
    words = match[0].strip()
    if match["iso"]:
        return When(words, day_of(match["iso"]))
    year_alone = match["y4"] or match["y6"]
    if year_alone:
        return When(words, date(int(year_alone), 1, 1), "year")
    month_text = match["m1"] or match["m2"] or match["m3"] or match["m5"]
    month = int(month_text) if month_text.isdecimal() else _month_number(month_text)
    day_text = match["d1"] or match["d2"] or match["d5"]
    year_text = match["y1"] or match["y2"] or match["y3"] or match["y5"]
    grain = "day" if day_text else "month"
    if not 1 <= month <= _MONTHS_A_YEAR:
        return When(words, None, grain)
    return When(words, _dated(year_text, month, int(day_text or 1), said), grain)


def _dated(year_text: str | None, month: int, day: int, said: date | None) -> date | None:
    """Return a day; without a year it is the last such day up to when that was said."""
    if year_text is None and said is None:
        return None
    year = int(year_text) if year_text is not None else _said(said).year
    if year < 1 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    found = date(year, month, day)
    if year_text is None and said is not None and found > said:
        return date(year - 1, month, min(day, monthrange(year - 1, month)[1])) if year > 1 else None
    return found


def _before(match: re.Match[str], said: date | None) -> When:
    words = match[0].strip()
    ways: tuple[tuple[str, Callable[[re.Match[str], date], tuple[date, str]]], ...] = (
        ("ago_en", lambda found, day: (day - timedelta(days=_AGO_EN[found["ago_en"]]), "day")),
        ("ago_zh", lambda found, day: (day - timedelta(days=_AGO_ZH[found["ago_zh"]]), "day")),
        ("n_en", lambda found, day: _count_back(_number(found["n_en"]), found["unit_en"], day)),
        ("n_zh", lambda found, day: _count_back(_number(found["n_zh"]), found["unit_zh"], day)),
        ("weekday", lambda found, day: (_last_weekday(_DAYS.index(found["weekday"]), day), "day")),
        ("what", _last_en),
        ("last_zh", _last_zh),
    )
    way = next(way for group, way in ways if match[group])
    if said is None:
        return When(words, None)
    try:
        day, grain = way(match, said)
    except (OverflowError, ValueError):
        # Before the year 1 nobody said anything.
        return When(words, None)
    return When(words, day, grain)


def _count_back(number: int, unit: str, said: date) -> tuple[date, str]:
    if unit in _UNITS:
        return said - timedelta(days=number * _UNITS[unit]), "day" if _UNITS[unit] == 1 else "week"
    if unit in ("month", "个月"):
        return _months_before(said, number), "month"
    return date(said.year - number, 1, 1), "year"


def _last_en(match: re.Match[str], said: date) -> tuple[date, str]:
    what = match["what"]
    is_last = match["last"] != "this"
    if what in _DAYS:
        return _last_weekday(_DAYS.index(what), said), "day"
    if what == "month":
        return _months_before(said, int(is_last)), "month"
    if what == "year":
        return date(said.year - int(is_last), 1, 1), "year"
    monday = said - timedelta(days=said.weekday())
    begins = monday - timedelta(days=7) if match["last"] == "last" else monday
    return (begins, "week") if what == "week" else (_last_weekday(_DAYS.index("saturday"), said), "day")


def _last_zh(match: re.Match[str], said: date) -> tuple[date, str]:
    word, on = match["last_zh"], match["on_zh"]
    if word in ("去年", "前年"):
        return date(said.year - (1 if word == "去年" else 2), 1, 1), "year"
    back = 2 if word.startswith("上上") else 1
    if word.endswith("月"):
        return _months_before(said, back), "month"
    monday = said - timedelta(days=said.weekday() + 7 * back)
    if on is None:
        return monday, "week"
    if on == "末":
        return monday + timedelta(days=5), "day"
    return monday + timedelta(days=_WEEKDAYS_ZH.index("日" if on == "天" else on)), "day"


def _last_weekday(weekday: int, said: date) -> date:
    """Return the last such day of the week before a day."""
    return said - timedelta(days=(said.weekday() - weekday - 1) % 7 + 1)


def _months_before(said: date, months: int) -> date:
    number = said.year * _MONTHS_A_YEAR + said.month - 1 - months
    return date(number // _MONTHS_A_YEAR, number % _MONTHS_A_YEAR + 1, 1)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else _NUMBERS_EN.get(text) or _NUMBERS_ZH[text]


def _month_number(text: str) -> int:
    return next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(text[:3]))


def _said(said: date | None) -> date:
    if said is None:
        raise ValueError("a day without a year needs the day on which it was named")
    return said
