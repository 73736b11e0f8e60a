"""The numbers that English and Chinese write in words: «two hundred and fifty», «35k», «half past six», 三万五."""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from knowhub.conversations.language.sentence_ends import iter_clauses

Units: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The units that stand beside a number, and those of time that its clause counts by; empty where there is none."""

_SMALL: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
CARDINALS: Final[Mapping[str, int]] = {name: value for value, name in enumerate(_SMALL.split())} | {
    name: 10 * value for value, name in enumerate(_TENS.split(), 2)
}
_ORDINALS: Final = {f"{name.removesuffix('y')}{'ie' * name.endswith('y')}th": at for name, at in CARDINALS.items()} | {
    "first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12,
}  # fmt: skip
_COUNTS: Final = {
    "once": 1, "twice": 2, "thrice": 3, "half": 2, "dozen": 12, "double": 2, "couple": 2, "pair": 2, "fortnight": 2,
    "midnight": 0, "noon": 12,
}  # fmt: skip
_INDEFINITE: Final = {"a": 1, "an": 1, "a couple of": 2}
NAMED: Final[Mapping[str, int]] = {**CARDINALS, **_ORDINALS, **_COUNTS}
_HUNDRED: Final = 100
_TEN: Final = 10
_CENTURIES: Final = (19, 20)
_SCALES: Final = {
    "hundred": _HUNDRED, "thousand": 1_000, "k": 1_000, "million": 1_000_000, "m": 1_000_000, "billion": 1_000_000_000,
    "bn": 1_000_000_000,
}  # fmt: skip
# Letters, as every suffix of a figure is one: «85k», «1.5 million».
_TOKEN: Final = re.compile(r"\d{1,12}(?:[.,]\d{1,12}){0,4}|[a-z]+|[^\sa-z-]")
_CLOCK: Final = re.compile(
    r"\b(half|quarter|[a-z]{3,6}|\d\d?) (?:minutes )?(past|after|to|before|till) ([a-z]{3,6}|\d\d?)\b"
)
_MINUTES: Final = {"half": 30, "quarter": 15}
_HOUR: Final = 60
_HALF_HOURS: Final = {"半": 30, "一刻": 15, "三刻": 45}
_HAN_CLOCK: Final = re.compile(r"[点时](半|一刻|三刻)")
_HAN_DIGITS: Final = "〇一二三四五六七八九"
_HAN_UNITS: Final = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_MYRIAD: Final = 10_000
_HAN_NUMBER: Final = re.compile(
    r"(?:\d{1,9}(?:\.\d{1,4})?)?[〇零一二两三四五六七八九十百千万亿](?:[〇零一二两三四五六七八九十百千万亿]|\d(?!\d)){0,15}"
)
_HAN_PART: Final = re.compile(r"\d+(?:\.\d+)?|.")
_SCALED: Final = re.compile(
    r"\d{1,12}(?:[.,]\d{1,12}){0,4} ?(?:(?:thousand|million|billion|bn|k|m)\b|[百千万亿]{1,2})", re.IGNORECASE
)
# «Pounds» are a weight and a currency.
_UNIT_WORDS: Final = (
    "minute minutes min mins 分钟|hour hours hr hrs 小时 钟头|day days 天|week weeks 周 星期 礼拜|month months 月"
    "|year years 年|% percent|kg kgs kilo kilos kilogram kilograms 公斤 千克|lb lbs pound pounds|斤"
    "|km kilometer kilometers kilometre kilometres 公里 千米|mile miles 英里|£ gbp pound pounds 英镑|€ eur euro euros"
    " 欧 欧元|$ usd dollar dollars bucks 美元 美金|¥ cny rmb yuan 块 元"
)
_UNIT_GROUPS: Final = tuple(tuple(group.split()) for group in _UNIT_WORDS.split("|"))
_UNITS: Final = {
    word: frozenset(group[0] for group in _UNIT_GROUPS if word in group) for group in _UNIT_GROUPS for word in group
}
_UNIT: Final = f"(?P<unit>{'|'.join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))})(?![a-z])"
_MEASURE: Final = re.compile(
    rf"(?P<sign>[€$£¥])? ?(?P<number>\d{{1,18}}(?:[.,:]\d{{1,18}}){{0,6}})(?:[ -]?个?{_UNIT})?"
)
_RATE: Final = re.compile(
    rf"(?:\b(?:an?|per|each|every) |/ ?|[每一]个?){_UNIT}|\b(?P<adverb>dai|hour|week|month|year)ly\b"
)
_COMMA: Final = re.compile(r"(?<=\d),(?=\d{3})")


def list_units(text: str) -> dict[str, set[Units]]:
    """Return the units of each figure of a text; the figures are without commas."""
    found: dict[str, set[Units]] = {}
    for clause, _ in iter_clauses(_COMMA.sub("", text.lower())):
        rates = [match["unit"] or match["adverb"].replace("dai", "day") for match in _RATE.finditer(clause)]
        counted = frozenset().union(*(_UNITS[rate] for rate in rates))
        for match in _MEASURE.finditer(clause):
            own = _UNITS.get(match["unit"] or match["sign"] or "", frozenset())
            found.setdefault(match["number"], set()).add((own, counted))
    return found


def read_spoken(text: str, names: Mapping[str, int] = NAMED) -> frozenset[int]:
    """Return the numbers that a text says in words or with a word behind figures, in time linear in its length."""
    lower = text.lower()
    found = {int(value) for value in _iter_english(lower, names) if value == int(value)}
    # «Half past six», and «half six».
    found |= {_MINUTES["half"]} if "half" in lower else set()
    for part, side, hour in _CLOCK.findall(lower):
        minutes, hours = (_MINUTES.get(part) or _read_value(part, names)), _read_value(hour, names)
        if minutes is not None and hours is not None:
            found |= {minutes} if side in {"past", "after"} else {_HOUR - minutes, hours - 1}
    found |= {_HALF_HOURS[half] for half in _HAN_CLOCK.findall(text)}
    for match in _HAN_NUMBER.finditer(text):
        found |= _read_han(match[0])
    return frozenset(found)


def read_number(written: str) -> int:
    """Read a number below a hundred, or a year by its digits: 5, five, a, 五, 十二, 二〇二三. Raises ValueError."""
    written = " ".join(written.lower().split())
    known = int(written) if written.isdecimal() else CARDINALS.get(written, _INDEFINITE.get(written))
    if known is not None:
        return known
    tens, ten, ones = written.replace("两", "二").replace("零", "〇").partition("十")
    if ten:
        return (_HAN_DIGITS.index(tens) if tens else 1) * 10 + (_HAN_DIGITS.index(ones) if ones else 0)
    return int("".join(str(_HAN_DIGITS.index(digit)) for digit in tens))


def blank_known(text: str, known: AbstractSet[int]) -> str:
    """Return a text without the figures that a word multiplies, such as «35k», where the product is known."""
    return _SCALED.sub(lambda match: " " if read_spoken(match[0]) & known else match[0], text)


def _read_value(word: str, names: Mapping[str, int]) -> int | None:
    return int(word) if word.isdecimal() else names.get(word)


@dataclass(slots=True)
class _Number:
    """A number that is being read. What is below `room` can still be added: below ten after «twenty»."""

    group: float
    room: int = 0
    total: float = 0

    @property
    def value(self) -> float:
        return self.total + self.group

    def add(self, value: float) -> bool:
        """Add a smaller number, or the second half of a year: «twenty twenty-six»."""
        if self.group in _CENTURIES and not self.total and value >= _TEN:
            self.total, self.group = self.group * _HUNDRED, value
        elif value < self.room:
            self.group += value
        else:
            return False
        self.room = _get_room(value)
        return True

    def multiply(self, scale: int) -> bool:
        """Multiply what was read since the last, larger scale."""
        if self.group >= scale or 0 < self.total <= scale:
            return False
        if scale == _HUNDRED:
            self.group, self.room = self.group * scale, scale
        else:
            self.total, self.group, self.room = self.total + self.group * scale, 0, 1_000
        return True


def _get_room(value: float) -> int:
    return _TEN if value >= 2 * _TEN and value % _TEN == 0 else 0


def _iter_english(text: str, names: Mapping[str, int]) -> Iterator[float]:
    """Yield each number: «two hundred and fifty» is one, «six thirty» are two."""
    number: _Number | None = None
    for match in _TOKEN.finditer(text):
        word = match[0]
        value, scale = names.get(word), _SCALES.get(word, 0)
        if number is not None:
            if (value is not None and number.add(value)) or (word == "and" and number.room >= _HUNDRED):
                continue
            if scale and number.multiply(scale):
                continue
            yield number.value
        number = None
        if value is not None:
            number = _Number(value, _get_room(value))
        elif word[0].isdecimal():
            number = _read_figure(word)
        elif scale and len(word) > len("bn"):
            number = _Number(1)
            number.multiply(scale)
    if number is not None:
        yield number.value


def _read_figure(word: str) -> _Number | None:
    plain = word.replace(",", "")
    return _Number(float(plain)) if plain.count(".") <= 1 else None


def _read_han(text: str) -> set[int]:
    """Return what a number of Chinese characters may be: 二〇二六, 三百五 (350), 三万五 (35,000), 1.5万."""
    parts = _HAN_PART.findall(text.replace("两", "二").replace("零", "〇"))
    if not any(part in _HAN_UNITS for part in parts):
        digits = "".join(str(_HAN_DIGITS.index(part)) if part in _HAN_DIGITS else part for part in parts)
        return {int(digits)} if digits.isdecimal() else set()
    total: float = 0
    section: float = 0
    digit: float | None = None
    unit = 1
    for part in parts:
        scale = _HAN_UNITS.get(part)
        if scale is None:
            is_zero = part == "〇"
            digit = None if is_zero else float(_HAN_DIGITS.index(part) if part in _HAN_DIGITS else part)
            unit = 1 if is_zero else unit
        elif scale < _MYRIAD:
            section, digit, unit = section + (1 if digit is None else digit) * scale, None, scale
        else:
            total, section, digit, unit = total + (section + (digit or 0) or 1) * scale, 0, None, scale
    # The last digit counts the next smaller unit, unless it counts ones: 三百五 is 350, 十五 is 15.
    tail = 0 if digit is None else digit * (unit // _TEN if unit > _TEN else 1)
    value = total + section + tail
    return {int(value)} if value == int(value) else set()
