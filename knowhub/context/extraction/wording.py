"""Small readings of a text that all extractors share: its language, its words, and a short form of it."""

import re
from collections.abc import Iterable
from typing import Final

_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_SPACES: Final = re.compile(r"\s+")
# What can be left out of a statement without changing what it says.
_FILLERS: Final = re.compile(
    r"\b(?:really|very|just|also|actually|honestly|definitely|absolutely|personally|so much|a lot|well|oh|yes|yeah"
    r"|and|but|so)\b"
    r"|真的|非常|特别|其实|还是|确实|的确|比较|很|挺|也|呢|啊|哦|嗯"
)


def is_chinese(text: str) -> bool:
    """Tell in which language a text is written: Chinese where a fifth of it is."""
    return len(_HAN.findall(text)) * 5 >= max(len(_SPACES.sub("", text)), 1)


def one_line(text: str) -> str:
    """Return a text on one line."""
    return _SPACES.sub(" ", text).strip()


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut at a word."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    word = cut.rfind(" ")
    return f"{cut[:word] if word > limit // 2 else cut}…"


def plain(text: str) -> str:
    """Return what two texts have in common that say the same in the same words, whatever their marks and fillers."""
    folded = text.casefold()
    return _letters(_FILLERS.sub("", folded)) or _letters(folded)


def joined(texts: Iterable[str], limit: int, between: str = " ") -> str:
    """Join as many of the texts as fit, the first in any case."""
    said = ""
    for text in texts:
        longer = f"{said}{between}{text}" if said else text
        if len(longer) > limit:
            return said or shortened(text, limit)
        said = longer
    return said


def _letters(text: str) -> str:
    # A commit compares what is new with all that stands: a generator takes several times as long.
    return "".join(filter(str.isalnum, text))
