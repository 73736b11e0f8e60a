"""Sets of expressions, and how a sentence is held against those of both languages."""

import re
from dataclasses import dataclass


def any_of(*forms: str) -> re.Pattern[str]:
    """Make one expression of several."""
    return re.compile("|".join(f"(?:{form})" for form in forms))


def hints(words: str) -> tuple[str, ...]:
    """Return words that are parted by bars."""
    return tuple(words.split("|"))


@dataclass(frozen=True, slots=True)
class Forms:
    """The Chinese and English forms of one thing that can be said.

    Where hints are given and none of them stands in a sentence, its expression need not be tried: that is most of the
    work saved.
    """

    zh: re.Pattern[str]
    en: re.Pattern[str]
    zh_hints: tuple[str, ...] = ("",)
    en_hints: tuple[str, ...] = ("",)

    def search(self, bare: str, start: int = 0) -> re.Match[str] | None:
        """Return the first Chinese match from `start` on, else the first English one; `bare` is in lower case."""
        if not bare.isascii() and any(hint in bare for hint in self.zh_hints):
            match = self.zh.search(bare, start)
            if match is not None:
                return match
        return self.en.search(bare, start) if any(hint in bare for hint in self.en_hints) else None
