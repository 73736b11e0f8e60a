"""The text rules of keyword names and queries: normal form, pinyin, words."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

import rjieba

from knowhub.core.unicode_forms import normalize
from knowhub.search.analysis import index_terms, simplify

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


class KeywordTextRules:
    """The default implementation of `KeywordText`."""

    def load(self) -> None:
        """Load the pinyin dictionaries (0.2 s, 56 MB). Otherwise the first Chinese name does."""
        _list_pinyin_options("字")

    def name_keys(self, text: str) -> list[str]:
        key = _normalize_cached(text) if len(text) <= _CACHED_CHARS else normalize_name(text)
        return [key] if key else []

    def pinyin(self, text: str) -> list[str]:
        """Return at most eight spellings of a Chinese name, the likeliest first.

        In full (`zidonghua`) and as initials (`zdh`). Names of up to four characters also get their less likely
        readings: 重构 is `chonggou` too. ü is spelt v, u and ü. Single letters are left out.
        """
        return _list_first(_list_pinyin(text))

    def spellings(self, text: str) -> list[str]:
        return _list_first(_list_pinyin(text, initials=False))

    def words(self, text: str) -> list[str]:
        return list(rjieba.cut(text))

    def terms(self, text: str) -> list[str]:
        return list(islice(dict.fromkeys(index_terms(text)), _MAX_TERMS))


@dataclass(frozen=True, slots=True)
class _Run:
    """The readings of a Chinese character, or other text between such characters."""

    readings: Sequence[str]
    is_syllable: bool


def _list_first(spellings: Iterable[str]) -> list[str]:
    found = (spelling for spelling in dict.fromkeys(spellings) if len(spelling) >= _MIN_SPELLING)
    return list(islice(found, _MAX_SPELLINGS))


def _list_pinyin(text: str, *, initials: bool = True) -> Iterator[str]:
    if len(text) > _CACHED_CHARS or not _HAN.search(text):
        return
    name = _normalize_cached(text)
    runs = list(_split_by_script(name)) if len(name) <= _SPELT_CHARS else []
    likeliest = [run.readings[0] for run in runs]
    # A character that no dictionary spells stays as it is, and then nobody can type the rest.
    if not runs or any(_HAN.search(spelt) for spelt in likeliest):
        return
    yield from _join_pinyin(runs, likeliest, initials=initials)
    if sum(run.is_syllable for run in runs) > _READ_OTHERWISE_CHARS:
        return
    for place, run in enumerate(runs):
        for reading in run.readings[1:]:
            other = [*likeliest[:place], reading, *likeliest[place + 1 :]]
            yield from _join_pinyin(runs, other, initials=initials)


def _join_pinyin(runs: Sequence[_Run], reading: Sequence[str], *, initials: bool) -> Iterator[str]:
    for umlaut in _UMLAUTS:
        yield "".join(
            spelt.replace("ü", umlaut) if run.is_syllable else spelt for run, spelt in zip(runs, reading, strict=True)
        )
    # Other text is kept whole in the initials: C语言 is cyy, and Python编程 pythonbc.
    if initials:
        yield "".join(spelt[0] if run.is_syllable else spelt for run, spelt in zip(runs, reading, strict=True))


def _split_by_script(name: str) -> Iterator[_Run]:
    for han, other in _HAN_OR_OTHER.findall(name):
        if other:
            yield _Run([other], is_syllable=False)
        for readings in _list_pinyin_options(han) if han else ():
            yield _Run(readings, is_syllable=True)


def _list_pinyin_options(han: str) -> list[list[str]]:
    """List the readings of each character, the likeliest first."""
    from pypinyin import Style, pinyin  # noqa: PLC0415 -- 0.2 s, which only who spells Chinese should wait for

    return pinyin(han, style=Style.NORMAL, heteronym=True, v_to_u=True)


# Two do for all but a handful of characters, whose simplified form has a simplified form of its own.
_PASSES: Final = 8
# Seen by nobody, and yet letters, marks or symbols to Unicode: fillers, vowel inherents, variation selectors, blank.
_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000))))
)
_MAYBE_UNSEEN: Final = re.compile(r"[^\w\x00-\x7f]|[\u115f\u1160\u17b4\u17b5]")
_OPENING: Final = re.compile(r"\A([^\w.*]*)(\.(?=[a-z])|[a-z]\*(?!\*))")
_MAYBE_DROPPED: Final = re.compile(r"(?<![a-z])\#|(?<![0-9])\.|\.(?![0-9])|[^\w#.]|_")


def normalize_name(text: str) -> str:
    """Return the key by which a name or query is looked up, "" if nothing is left of it.

    Width, case and the two Chinese scripts become equal. Punctuation, white space, controls and invisible characters
    are dropped. These are kept, because names differ by them:

    - symbols: `C`, `C++` and `C+` are three names, and an emoji or `=` is one; not a backtick, a circumflex or a skin
      tone;
    - `#` after a Latin letter: `C#`, `F#` and `C♯`, while `#python` is `python`;
    - a dot at the beginning (`.NET` is not `net`) or between digits (`3.11` is not `311`). Otherwise it is dropped:
      `Node.js`, `Node JS` and `nodejs` are equal;
    - `*` after one letter that begins the name: `A*`, while `**bold**` is `bold`.

    Hyphens are dropped: `GPT-4` is `gpt4`. Accents are kept. A normal form is its own normal form.
    """
    for _ in range(_PASSES):
        once = _normalize_step(text)
        if once == text:
            break
        text = once
    return text


def _normalize_step(text: str) -> str:
    # First, because NFKC makes a space and a loose accent of some, which would then join the letter before them.
    text = _MAYBE_UNSEEN.sub(lambda found: "" if _is_hidden(found[0]) else found[0], text)
    text = normalize("NFKC", text).casefold()
    # Turkish İ, which in lower case is an i with a second dot; and the sharp of music, which some write in C♯.
    text = text.replace("i\u0307", "i").replace("♯", "#")
    opening = _OPENING.match(text)
    if opening is None:
        return simplify(_strip(text))
    return simplify(_strip(opening[1]) + opening[2] + _strip(text[opening.end() :]))


def _strip(text: str) -> str:
    return _MAYBE_DROPPED.sub(lambda found: "" if _is_ignored(found[0]) else found[0], text)


_normalize_cached: Final = lru_cache(maxsize=8_192)(normalize_name)


@lru_cache(maxsize=4_096)
def _is_hidden(char: str) -> bool:
    return char in _UNSEEN or unicodedata.category(char) in {"Cf", "Cs", "Sk"}


@lru_cache(maxsize=4_096)
def _is_ignored(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "PZ" or category in {"Cc", "Sk"}
