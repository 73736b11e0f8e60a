"""Where sentences and clauses end, in English and Chinese."""

import re
from collections.abc import Iterator
from typing import Final

SENTENCE_END: Final = re.compile(r"[。！？!?…]+[”」』\"'’)）]*|(?<!\.)\.+(?=\s|$)|\n")
COMMA: Final = re.compile(r"[,;](?=\s)|[，；]")
_CLAUSE_END: Final = re.compile(r"\s?(?:[,;]\s?)?\b(?:and|but|so)\s|\s?(?:[,:–—](?!\d)|[;，；：]|--)\s?")
"""Also a colon, a dash, and a word that goes on with another clause; none of these inside a figure."""


def iter_sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence without the marks at its end, and whether it is a question."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        yield text[start : end.start()], not {"?", "？"}.isdisjoint(end[0])
        start = end.end()
    yield text[start:], False


def find_clauses(sentence: str) -> list[tuple[int, int]]:
    """Return the start and end of each clause, without the marks and words between clauses."""
    cuts = list(_CLAUSE_END.finditer(sentence))
    return list(zip([0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(sentence)], strict=True))


def iter_clauses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the clauses of all sentences, and whether the sentence is a question."""
    for sentence, is_question in iter_sentences(text):
        for start, end in find_clauses(sentence):
            yield sentence[start:end], is_question
