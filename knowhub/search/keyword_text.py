"""How names of keywords and queries for them are read: normal form, pinyin, words (seed 001 §4.1)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

import opencc

from knowhub.keywords.normalize import normalise
from knowhub.search.analysis import index_terms

_MAX_TERMS: Final = 64
_MAX_SPELLINGS: Final = 8
_MIN_SPELLING: Final = 2
# Nobody types more than this by its sounds.
_SPELT_CHARS: Final = 64
# Longer names are clear by their words, and each reading costs a place in the index.
_READ_OTHERWISE_CHARS: Final = 4
# Queries longer than this are sentences, which come once; so the cache is bounded in characters too.
_CACHED_CHARS: Final = 128
_HAN_CHARS: Final = "〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAN: Final = re.compile(f"[{_HAN_CHARS}]")
_HAN_OR_OTHER: Final = re.compile(f"([{_HAN_CHARS}]+)|([^{_HAN_CHARS}]+)")
# How 绿 is typed: lv in input methods, lu where the dots are left out, lü by the book.
_UMLAUTS: Final = ("v", "u", "ü")

_to_simplified: Final = opencc.OpenCC("t2s").convert


class KeywordTextRules:
    """The rules that a hub reads keywords by, unless it is given others (KT-023)."""

    def load(self) -> None:
        """Load the dictionaries of pinyin, some 0.2 s and 56 MB; without it the first Chinese name does."""
        _readings("字")

    def tokens(self, text: str) -> list[str]:
        token = _short_normal_form(text) if len(text) <= _CACHED_CHARS else normalise(text, _to_simplified)
        return [token] if token else []

    def pinyin(self, text: str) -> list[str]:
        """Spell `text` at most eight ways, the likeliest first; what is not Chinese in it stays as its normal form.

        In full (`zidonghua`) and by initials (`zdh`), for the reading that its words suggest, and, in a name of up to
        four characters, for those that differ from it by one character: 重构 is `chonggou` as well. ü is spelt v, u
        and ü. One letter alone is no spelling: it would be taken for `C` or `R`.
        """
        if len(text) > _CACHED_CHARS or not _HAN.search(text):
            return []
        token = _short_normal_form(text)
        if len(token) > _SPELT_CHARS:
            return []
        spellings = dict.fromkeys(_spellings(token))
        return list(islice((one for one in spellings if len(one) >= _MIN_SPELLING), _MAX_SPELLINGS))

    def terms(self, text: str) -> list[str]:
        return list(islice(dict.fromkeys(index_terms(text)), _MAX_TERMS))


@dataclass(frozen=True, slots=True)
class _Run:
    """A Chinese character with how it may be read, or what stands between such characters."""

    readings: Sequence[str]
    is_syllable: bool


@lru_cache(maxsize=8_192)
def _short_normal_form(text: str) -> str:
    return normalise(text, _to_simplified)


def _spellings(token: str) -> Iterator[str]:
    runs = list(_runs(token))
    likeliest = [run.readings[0] for run in runs]
    # A character that no dictionary spells stays as it is, and then nobody can type the rest.
    if any(_HAN.search(spelt) for spelt in likeliest):
        return
    yield from _written(runs, likeliest)
    if sum(run.is_syllable for run in runs) > _READ_OTHERWISE_CHARS:
        return
    for place, run in enumerate(runs):
        for reading in run.readings[1:]:
            yield from _written(runs, [*likeliest[:place], reading, *likeliest[place + 1 :]])


def _written(runs: Sequence[_Run], reading: Sequence[str]) -> Iterator[str]:
    for umlaut in _UMLAUTS:
        yield "".join(
            spelt.replace("ü", umlaut) if run.is_syllable else spelt for run, spelt in zip(runs, reading, strict=True)
        )
    # What is not Chinese stands whole among the initials: C语言 is cyy, and Python编程 pythonbc.
    yield "".join(spelt[0] if run.is_syllable else spelt for run, spelt in zip(runs, reading, strict=True))


def _runs(token: str) -> Iterator[_Run]:
    for han, other in _HAN_OR_OTHER.findall(token):
        if other:
            yield _Run([other], is_syllable=False)
        for readings in _readings(han) if han else ():
            yield _Run(readings, is_syllable=True)


def _readings(han: str) -> list[list[str]]:
    """List how each character is read, the likeliest first, where the words it stands in do not settle it."""
    from pypinyin import Style, pinyin  # noqa: PLC0415 -- 0.2 s, which only who spells Chinese should wait for

    return pinyin(han, style=Style.NORMAL, heteronym=True, v_to_u=True)
