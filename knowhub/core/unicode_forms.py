"""Unicode normal forms of callers' text, in linear time, and shortened text."""

import re
import unicodedata
from typing import Final, Literal

# Python sorts the combining marks of a letter by moving each past the others: 64,000 of them take six seconds.
# Unicode itself allows 30 in a row (UAX #15, stream-safe text), which is more than any script has.
MAX_MARKS: Final = 30
_LONG_RUN: Final = re.compile(rf"[^\w\s\x00-\x7f]{{{MAX_MARKS + 1},}}")
# These are no marks, but normalization turns them into marks.
_BECOME_MARKS: Final = frozenset("\u0f73\u0f75\u0f81")
_WIDE_SOUND_MARKS: Final = (("\uff9e", "\u3099"), ("\uff9f", "\u309a"))


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters; a longer text is cut and ends with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def normalize(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return a text in a Unicode normal form; combining marks after the first 30 of a letter are dropped."""
    if text.isascii():
        return text
    if form == "NFKC":
        # As NFKC does. The pattern takes them for letters.
        for wide, mark in _WIDE_SOUND_MARKS:
            text = text.replace(wide, mark)
    return unicodedata.normalize(form, _LONG_RUN.sub(_drop_marks, text))


def _drop_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for char in run[0]:
        marks = marks + 1 if unicodedata.combining(char) or char in _BECOME_MARKS else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)
