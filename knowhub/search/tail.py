"""The rows that the full-text index has not absorbed yet: a small index in memory, searched beside it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from knowhub.core.clock import CooperativePause, TimeLimit
from knowhub.search import bm25
from knowhub.search.bm25 import QueryTerm, Statistics

# A longer document has no postings: each query looks through its terms. The postings of 16 MiB of text are millions of
# objects, which take half a minute to make and a second in each garbage collection.
_MOST_POSTED_TERMS = 1_000


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
        waiting = self._unposted if document.term_count <= _MOST_POSTED_TERMS else self._long
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
            bm25.add_scores(scores, frequencies, norms, term, statistics.documents)
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
                number: bm25.get_length_factor(document.term_count, statistics)
                for number, document in self._documents.items()
            }
            self._norms_for = statistics
        return self._norms
