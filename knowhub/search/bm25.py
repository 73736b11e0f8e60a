"""BM25 as the full-text index computes it, for records that are not indexed yet."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

_K1: Final = 1.2
_B: Final = 0.75
_EXACT_LENGTHS: Final = 24
_LENGTHS: Final = 256
# A few documents do not show how rare a term is. As many others are assumed, without any term of the query.
_ASSUMED_DOCUMENTS: Final = 50
# Nobody expects a record to have every word of a long question: it is measured by the rarest of them.
_ENOUGH_WORDS: Final = 2.0


def _length_table() -> tuple[int, ...]:
    # The index keeps a length in one byte: exact up to 40, then eight steps to each doubling.
    steps = [*range(8), *((8 | step & 7) << (step >> 3) - 1 for step in range(8, _LENGTHS - _EXACT_LENGTHS))]
    return (*range(_EXACT_LENGTHS), *(_EXACT_LENGTHS + step for step in steps))


_LENGTH_STEPS: Final = _length_table()


@dataclass(frozen=True, slots=True)
class Statistics:
    """The number of documents and of terms in a collection."""

    documents: int
    terms: int

    @property
    def average_length(self) -> float:
        return self.terms / self.documents if self.documents else 1.0


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term of a query, its weight, its document frequency, and what part of a word it is.

    The frequency is that of the indexed documents, by which all are scored. `pending` documents that wait to be indexed
    have the term.
    """

    term: str
    weight: float
    document_frequency: int
    words: float = 1.0
    pending: int = 0

    @property
    def holders(self) -> int:
        """How many documents have the term: those of the index, else those that wait for it."""
        return self.document_frequency or self.pending


def encode_length(terms: int) -> int:
    """Round a document's length down to the precision of the index."""
    return _LENGTH_STEPS[bisect_right(_LENGTH_STEPS, terms) - 1]


def get_idf(documents: int, document_frequency: int) -> float:
    """Return the inverse document frequency of a term."""
    return log(1 + (documents - document_frequency + 0.5) / (document_frequency + 0.5))


def get_reach(terms: Sequence[QueryTerm], documents: int) -> tuple[float, float]:
    """Return the scores that documents would approach with every term of a query, and with its rarest words.

    Terms that no document has count by their rarity, against that of the others.
    """
    known = [term for term in terms if term.holders]
    if not known:
        return 1.0, 1.0
    assumed = documents + _ASSUMED_DOCUMENTS
    rarity = [term.weight * get_idf(assumed, min(assumed, term.holders)) for term in terms]
    best = sum(term.weight * get_idf(documents, term.document_frequency) for term in known) * (1 + _K1)
    scale = best / sum(rare for term, rare in zip(terms, rarity, strict=True) if term.holders)
    enough, left = 0.0, _ENOUGH_WORDS
    for term, rare in sorted(zip(terms, rarity, strict=True), key=lambda pair: -pair[1] / pair[0].weight):
        words = term.words * term.weight
        enough += rare * min(1.0, left / words)
        left -= min(left, words)
    return scale * sum(rarity), scale * enough


def get_length_factor(length: int, statistics: Statistics) -> float:
    """Return the part of the denominator that depends on the length of the document."""
    return _K1 * (1 - _B + _B * encode_length(length) / statistics.average_length)


def add_scores(
    scores: dict[int, float],
    frequencies: Mapping[int, int],
    norms: Mapping[int, float],
    term: QueryTerm,
    documents: int,
) -> None:
    """Add the scores of a term to `scores`; `frequencies` has the frequency of the term by document."""
    factor = term.weight * get_idf(documents, term.document_frequency) * (1 + _K1)
    for document, frequency in frequencies.items():
        scores[document] = scores.get(document, 0.0) + factor * frequency / (frequency + norms[document])
