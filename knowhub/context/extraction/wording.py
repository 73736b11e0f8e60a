"""How texts are shortened and joined."""

import re
from collections.abc import Iterable
from typing import Final

_SPACES: Final = re.compile(r"\s+")


def one_line(text: str) -> str:
    """Return a text on one line."""
    return _SPACES.sub(" ", text).strip()


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut at a word."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    word = cut.rfind(" ")
    return f"{cut[:word] if word > limit // 2 else cut}…"


def join_texts(texts: Iterable[str], limit: int, between: str = " ") -> str:
    """Join as many of the texts as fit, the first in any case."""
    said = ""
    for text in texts:
        longer = f"{said}{between}{text}" if said else text
        if len(longer) > limit:
            return said or shorten(text, limit)
        said = longer
    return said
