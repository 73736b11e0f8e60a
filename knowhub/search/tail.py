"""The rows that the full-text index has not absorbed yet: a small index in memory, searched beside it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from knowhub.search import bm25
from knowhub.search.bm25 import Statistics, WeighedTerm


@dataclass(frozen=True, slots=True)
class Document:
    """A row as the index sees it: its terms, repeats kept. `number` names the change that wrote its text.

    `replaces` says that the index may hold an earlier text of the row.
    """

    number: int
    row_id: str
    terms: list[str]
    facets: frozenset[str]
    replaces: bool = True


class Tail:
    """Documents by number, with postings. Small, short-lived, and never wrong about what it holds."""

    def __init__(self) -> None:
        self._documents: dict[int, Document] = {}
        self._postings: dict[str, dict[int, int]] = {}
        # Postings are made when a search first needs them; a document that is absorbed before never pays.
        self._unposted: dict[int, Document] = {}
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
        self._unposted[document.number] = document
        self.terms += len(document.terms)
        self._norms_for = None

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            document = self._documents.pop(number, None)
            if document is None:
                continue
            self.terms -= len(document.terms)
            if self._unposted.pop(number, None) is None:
                for term in set(document.terms):
                    self._drop(term, number)
        self._norms_for = None

    def document_frequency(self, term: str) -> int:
        self._post()
        return len(self._postings.get(term, ()))

    def search(
        self,
        terms: Sequence[WeighedTerm],
        statistics: Statistics,
        groups: Sequence[frozenset[str]],
        accept: Callable[[int], bool],
        limit: int,
    ) -> list[tuple[float, int]]:
        """Return the best `limit` (score, number) of the documents that pass every group and `accept`."""
        self._post()
        norms = self._norms_under(statistics)
        scores: dict[int, float] = {}
        for term in terms:
            frequencies = self._postings.get(term.term)
            if frequencies:
                bm25.add_scores(scores, frequencies, norms, term, statistics.documents)
        found: list[tuple[float, int]] = []
        for number in sorted(scores, key=lambda number: (-scores[number], -number)):
            facets = self._documents[number].facets
            if all(not group.isdisjoint(facets) for group in groups) and accept(number):
                found.append((scores[number], number))
                if len(found) == limit:
                    break
        return found

    def _post(self) -> None:
        for document in self._unposted.values():
            for term, count in Counter(document.terms).items():
                self._postings.setdefault(term, {})[document.number] = count
        self._unposted.clear()

    def _norms_under(self, statistics: Statistics) -> dict[int, float]:
        if self._norms_for != statistics:
            self._norms = {
                number: bm25.length_norm(len(document.terms), statistics)
                for number, document in self._documents.items()
            }
            self._norms_for = statistics
        return self._norms

    def _drop(self, term: str, number: int) -> None:
        postings = self._postings[term]
        del postings[number]
        if not postings:
            del self._postings[term]
