"""The normal form of a name: what two spellings of one thing have in common (KT-022, KT-158; seed 001 §4.1)."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

Fold: TypeAlias = Callable[[str], str]
"""Brings variants of characters to one, such as traditional to simplified Chinese; never sees half a surrogate pair."""

# Two do for all but a handful of characters, whose simplified form has a simplified form of its own.
_PASSES: Final = 8
# Seen by nobody, and yet letters, marks or symbols to Unicode: fillers, vowel inherents, variation selectors, blank.
_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000))))
)
_MAYBE_UNSEEN: Final = re.compile(r"[^\w\x00-\x7f]|[\u115f\u1160\u17b4\u17b5]")
_OPENING: Final = re.compile(r"([^\w.*]*)(\.(?=[a-z])|[a-z]\*(?!\*))")
_SOMETIMES_KEPT: Final = r"(?<![a-z])\#|(?<![0-9])\.|\.(?![0-9])"
_ASCII_DROPPED: Final = re.compile(_SOMETIMES_KEPT + r"""|[\x00-\x20\x7f!"%&'()*,\-/:;?@\[\\\]^_`{}]+""")
# ASCII and the Chinese characters that nearly all names are written in: NFKC changes none of them.
_PLAIN: Final = re.compile(r"[\x00-\x7f\u4e00-\u9fff]*")
_MAYBE_DROPPED: Final = re.compile(_SOMETIMES_KEPT + r"|[^\w#.]|_")


def normalise(text: str, fold: Fold) -> str:
    """Return the key by which a name or query is looked up, "" when nothing is left of it (KT-157; G-01, G-02).

    Width and other compatibility forms (NFKC), case and what `fold` knows are made one; punctuation, white space,
    controls and what nobody sees are dropped. What tells names apart stays:

    - symbols, so that `C`, `C++` and `C+` are three names, and an emoji or `=` is one; not a backtick, a circumflex
      or a skin tone, which only modify;
    - `#` after a Latin letter: `C#`, `F#`, and `C♯` too, while `#python` is `python`;
    - a dot that begins the name (`.NET` is not `net`) or stands between digits (`3.11` is not `311`), no other:
      `Node.js`, `Node JS` and `nodejs` are one;
    - `*` after one letter that begins the name: `A*`, `C*`, while `**bold**` is `bold`.

    A hyphen never stays: `GPT-4` is `gpt4`, `A-` is `a`, `C--` is `c`. Accents stay. It raises for no text, and a
    normal form is its own normal form.
    """
    if text.isascii():
        return _stripped(text.lower(), _ascii_dropped)
    if _PLAIN.fullmatch(text):
        # The rounds below would come to the same, at three times the cost: every search begins here.
        stripped = _stripped(text.lower(), _ascii_dropped)
        text = fold(stripped)
        if text == stripped:
            return text
    for _ in range(_PASSES):
        once = _fold_once(text, fold)
        if once == text:
            break
        text = once
    return text


def _fold_once(text: str, fold: Fold) -> str:
    # First, because NFKC makes a space and a loose accent of some, which would then join the letter before them.
    text = _MAYBE_UNSEEN.sub(_unless_unseen, text)
    text = unicodedata.normalize("NFKC", text).casefold()
    # Turkish İ, which in lower case is an i with a second dot; and the sharp of music, which some write in C♯.
    text = text.replace("i\u0307", "i").replace("♯", "#")
    return fold(_stripped(text, _dropped))


def _stripped(text: str, dropped: Callable[[str], str]) -> str:
    if text.isalnum():
        return text
    opening = _OPENING.match(text)
    if opening is None:
        return dropped(text)
    return dropped(opening[1]) + opening[2] + dropped(text[opening.end() :])


def _ascii_dropped(text: str) -> str:
    return _ASCII_DROPPED.sub("", text)


def _dropped(text: str) -> str:
    return _MAYBE_DROPPED.sub(_unless_dropped, text)


def _unless_unseen(found: re.Match[str]) -> str:
    return "" if _is_unseen(found[0]) else found[0]


def _unless_dropped(found: re.Match[str]) -> str:
    return "" if _says_nothing(found[0]) else found[0]


@lru_cache(maxsize=4_096)
def _is_unseen(char: str) -> bool:
    return char in _UNSEEN or unicodedata.category(char) in {"Cf", "Cs", "Sk"}


@lru_cache(maxsize=4_096)
def _says_nothing(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "PZ" or category in {"Cc", "Sk"}
