"""Where sentences and clauses end, in English and Chinese."""

import re
from collections.abc import Iterator
from typing import Final

SENTENCE_END: Final = re.compile(r"[。！？!?…]+[”」』\"'’)）]*|(?<!\.)\.+(?=\s|$)|\n")
COMMA: Final = re.compile(r"[,;](?=\s)|[，；]")
CLAUSE_END: Final = re.compile(r"\s?(?:[,;]\s?)?\b(?:and|but|so)\s|\s?(?:[,:–—](?!\d)|[;，；：]|--)\s?")
"""Also a colon, a dash, and a word that goes on with another clause; none of these inside a figure."""


def iter_sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence without the marks at its end, and whether it is a question."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        yield text[start : end.start()], not {"?", "？"}.isdisjoint(end[0])
        start = end.end()
    yield text[start:], False
