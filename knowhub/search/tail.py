"""The rows that the full-text index has not absorbed yet: a small index in memory, searched beside it.

Its scores are those that the full-text index would give: BM25 with that index's statistics.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from knowhub.core.clock import CooperativePause, TimeLimit

# A longer document has no postings: each query looks through its terms. The postings of 16 MiB of text are millions of
# objects, which take half a minute to make and a second in each garbage collection.
_MAX_POSTED_TERMS = 1_000
_K1: Final = 1.2
_B: Final = 0.75
_EXACT_LENGTHS: Final = 24
_LENGTHS: Final = 256
# A few documents do not show how rare a term is. As many others are assumed, without any term of the query.
_ASSUMED_DOCUMENTS: Final = 50
# From so many documents on, a term that so many and so large a share of them have is common.
_MIN_DOCUMENTS: Final = 8
_MIN_HOLDERS: Final = 4
_COMMON_SHARE: Final = 0.25
# Nobody expects a record to have every word of a long question: it is measured by the rarest of them.
_SUFFICIENT_WORDS: Final = 2.0


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


@dataclass(frozen=True, slots=True)
class Document:
    """A row as the index sees it. `number` names the change that wrote its text.

    `terms` are strings of some thousand terms each, separated by spaces, repeats kept: lists of millions of terms
    would hold up each garbage collection. `replaces` says that the index may hold an earlier text of the row.
    """

    number: int
    row_id: str
    terms: tuple[str, ...]
    term_count: int
    facets: frozenset[str]
    replaces: bool = True


def join_terms(parts: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], int]:
    """Return the terms of a document as it holds them, and how many they are; they come in parts."""
    joined: list[str] = []
    count = 0
    for terms in parts:
        joined.append(" ".join(terms))
        count += len(terms)
    return tuple(joined), count


class Tail:
    """Documents by number, with postings. Small, short-lived, and never wrong about what it holds."""

    def __init__(self) -> None:
        self._documents: dict[int, Document] = {}
        self._postings: dict[str, dict[int, int]] = {}
        # Postings are made when a search first needs them; a document that is absorbed before never pays.
        self._unposted: dict[int, Document] = {}
        self._long: dict[int, Document] = {}
        self._leaving: list[Document] = []
        self._norms: dict[int, float] = {}
        self._norms_for: Statistics | None = None
        self.terms = 0

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, number: int) -> bool:
        return number in self._documents

    def documents(self) -> list[Document]:
        return list(self._documents.values())

    def add(self, document: Document) -> None:
        self._documents[document.number] = document
        waiting = self._unposted if document.term_count <= _MAX_POSTED_TERMS else self._long
        waiting[document.number] = document
        self.terms += document.term_count
        self._norms_for = None

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget documents; their postings go with the next `count` or `drop_removed`."""
        for number in numbers:
            document = self._documents.pop(number, None)
            if document is None:
                continue
            self.terms -= document.term_count
            if self._long.pop(number, None) is None and self._unposted.pop(number, None) is None:
                self._leaving.append(document)
        self._norms_for = None

    async def drop_removed(self, pace: CooperativePause) -> None:
        """Drop the postings of removed documents; one task at a time."""
        while self._leaving:
            document = self._leaving.pop()
            for term in {term for part in document.terms for term in part.split()}:
                frequencies = self._postings[term]
                del frequencies[document.number]
                if not frequencies:
                    del self._postings[term]
            await pace.pause()

    async def count(
        self, terms: Iterable[str], pace: CooperativePause, limit: TimeLimit
    ) -> tuple[dict[str, dict[int, int]], bool]:
        """Return how often each term is in each document that holds it; one task at a time.

        When the time is over, the rest of the documents is left out, and the second value is False.
        """
        while self._unposted and not limit.is_over:
            number, document = next(iter(self._unposted.items()))
            del self._unposted[number]
            for term, count in Counter(term for part in document.terms for term in part.split()).items():
                self._postings.setdefault(term, {})[number] = count
            await pace.pause()
        await self.drop_removed(pace)
        posted = {term: self._postings.get(term, {}) for term in terms}
        if not self._long:
            return posted, not self._unposted
        found = {term: dict(frequencies) for term, frequencies in posted.items()}
        for document in list(self._long.values()):
            if limit.is_over:
                return found, False
            for part in document.terms:
                for term in part.split():
                    if term in found:
                        found[term][document.number] = found[term].get(document.number, 0) + 1
                await pace.pause()
        return found, not self._unposted

    def search(
        self,
        terms: Sequence[QueryTerm],
        counts: Mapping[str, Mapping[int, int]],
        statistics: Statistics,
        groups: Sequence[frozenset[str]],
        accept: Callable[[int], bool],
        limit: int,
    ) -> list[tuple[float, int]]:
        """Return the best `limit` (score, number) of the documents that pass every group and `accept`.

        `counts` is what `count` returned for the terms; documents that were removed since are left out.
        """
        norms = self._update_norms(statistics)
        scores: dict[int, float] = {}
        for term in terms:
            frequencies = {number: count for number, count in counts[term.term].items() if number in norms}
            add_scores(scores, frequencies, norms, term, statistics.documents)
        found: list[tuple[float, int]] = []
        for number in sorted(scores, key=lambda number: (-scores[number], -number)):
            facets = self._documents[number].facets
            if all(not group.isdisjoint(facets) for group in groups) and accept(number):
                found.append((scores[number], number))
                if len(found) == limit:
                    break
        return found

    def _update_norms(self, statistics: Statistics) -> dict[int, float]:
        if self._norms_for != statistics:
            self._norms = {
                number: get_length_factor(document.term_count, statistics)
                for number, document in self._documents.items()
            }
            self._norms_for = statistics
        return self._norms


def _make_length_steps() -> tuple[int, ...]:
    # The index keeps a length in one byte: exact up to 40, then eight steps to each doubling.
    steps = [*range(8), *((8 | step & 7) << (step >> 3) - 1 for step in range(8, _LENGTHS - _EXACT_LENGTHS))]
    return (*range(_EXACT_LENGTHS), *(_EXACT_LENGTHS + step for step in steps))


_LENGTH_STEPS: Final = _make_length_steps()


def encode_length(terms: int) -> int:
    """Round a document's length down to the precision of the index."""
    return _LENGTH_STEPS[bisect_right(_LENGTH_STEPS, terms) - 1]


def get_idf(documents: int, document_frequency: int) -> float:
    """Return the inverse document frequency of a term."""
    return log(1 + (documents - document_frequency + 0.5) / (document_frequency + 0.5))


def get_score_limits(terms: Sequence[QueryTerm], documents: int) -> tuple[float, float]:
    """Return the maximal and the sufficient score of a query: with all its terms, and with its rarest two words.

    Documents that repeat these terms very often approach these scores. A term that no document has counts too, by its
    rarity against that of the others: a query of which only a common word is known cannot be answered well.
    """
    known = [term for term in terms if term.holders]
    if not known:
        return 1.0, 1.0
    # BM25 gives a term at most its IDF times (1 + k1).
    max_known = sum(term.weight * get_idf(documents, term.document_frequency) for term in known) * (1 + _K1)
    assumed = documents + _ASSUMED_DOCUMENTS

    def get_rarity(holders: int) -> float:
        # What many of a few documents have is common, whatever others are assumed.
        is_common = documents >= _MIN_DOCUMENTS and holders >= max(_MIN_HOLDERS, _COMMON_SHARE * documents)
        total = documents if is_common else assumed
        return get_idf(total, min(total, holders))

    rarity = [term.weight * get_rarity(term.holders) for term in terms]
    # From rarities to scores, by the terms that have both.
    scale = max_known / sum(rare for term, rare in zip(terms, rarity, strict=True) if term.holders)
    sufficient, words_left = 0.0, _SUFFICIENT_WORDS
    for term, rare in sorted(zip(terms, rarity, strict=True), key=lambda pair: -pair[1] / pair[0].weight):
        words = term.words * term.weight
        sufficient += rare * min(1.0, words_left / words)
        words_left -= min(words_left, words)
    return scale * sum(rarity), scale * sufficient


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
