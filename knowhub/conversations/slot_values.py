"""Whether a text has the form of a slot's value: a true value must not be ended by an idiom."""

from typing import Final

import rjieba

from knowhub.conversations.sentences import is_chinese

_NAMES: Final = frozenset(["name", "home", "employer", "hometown", "native language", "editor", "shell"])
# Their values are figures or names.
_MIXED: Final = frozenset(["address", "timezone", "email", "birthday", "phone number"])
_FIGURES: Final = frozenset("0123456789@/")
_COMMON_NOUNS: Final = ("n", "s", "f", "t")
_FUNCTION_WORDS: Final = frozenset("drfpucymt")


def is_value(slot: str, value: str, text: str, start: int) -> bool | None:
    """Return whether a slot can have a value: where a name is wanted, it is written like one. None if it cannot.

    It cannot tell for a writer without capitals, and for a common noun in Chinese.
    """
    if not value:
        return None
    if (slot not in _NAMES and slot not in _MIXED) or (slot in _MIXED and not _FIGURES.isdisjoint(value)):
        return True
    if not is_chinese(value):
        return text[start].isupper() or (False if text[0].islower() or is_chinese(text) else None)
    tags = [tag for _, tag in rjieba.tag(value)]
    if len(tags) == 1:
        return None if tags[0][0] in "vr" else tags[0] not in _COMMON_NOUNS
    return None if any(tag == "v" or tag[0] in _FUNCTION_WORDS for tag in tags) else True
