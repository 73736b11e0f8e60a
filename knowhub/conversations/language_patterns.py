"""Patterns in Chinese and English, and how they are matched."""

import re
from dataclasses import dataclass


def any_of(*forms: str) -> re.Pattern[str]:
    """Return one pattern that matches any of several."""
    return re.compile("|".join(f"(?:{form})" for form in forms))


def split_words(words: str) -> tuple[str, ...]:
    """Split words at `|`."""
    return tuple(words.split("|"))


@dataclass(frozen=True, slots=True)
class LanguagePatterns:
    """The Chinese and English patterns of one kind of statement.

    A pattern is only tried if the sentence contains one of its hints. That saves most of the work.
    """

    zh: re.Pattern[str]
    en: re.Pattern[str]
    zh_hints: tuple[str, ...] = ("",)
    en_hints: tuple[str, ...] = ("",)

    def search(self, bare: str, start: int = 0) -> re.Match[str] | None:
        """Return the first Chinese match from `start` on, else the first English one. `bare` must be lower case."""
        if not bare.isascii() and any(hint in bare for hint in self.zh_hints):
            match = self.zh.search(bare, start)
            if match is not None:
                return match
        return self.en.search(bare, start) if any(hint in bare for hint in self.en_hints) else None
