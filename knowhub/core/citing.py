"""What a model says that it has from somewhere, held against what was shown to it."""

import re
from collections.abc import Container, Sequence
from typing import Final

_MAX_CITED: Final = 20
# Of a paraphrase so much of the words still stands in what it paraphrases; of an invention it does not.
_LEAST_GROUND: Final = 0.3
_WORD: Final = re.compile(r"[a-z0-9_]{2,}|[\u3400-\u9fff]")


def cited(said: object, shown: Container[int]) -> tuple[int, ...]:
    """Return the numbers that a field names, one or several, of those that were shown; each once."""
    pointed: Sequence[object] = said[:_MAX_CITED] if isinstance(said, list) else [said]
    # True is an int in Python, and nobody's number.
    numbers = (one for one in pointed if isinstance(one, int) and not isinstance(one, bool) and one in shown)
    return tuple(dict.fromkeys(numbers))


def is_grounded(content: str, texts: Sequence[str]) -> bool:
    """Tell whether enough of the words of a content stand in the texts that it is said to come from."""
    words = set(_WORD.findall(content.casefold()))
    there = set(_WORD.findall(" ".join(texts).casefold()))
    return bool(words) and len(words & there) >= _LEAST_GROUND * len(words)
