"""The vectors of one account in memory. Filtered rows are not compared; comparison is exact.

Rows are append-only. An outdated row stays until its file is rewritten; callers drop it from the results.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

Matrix: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[Any]
"""As `make_row_type` says."""

# Few blocks, as each product wakes the threads of the library anew; memory that no row has touched costs nothing.
_ROWS_PER_BLOCK: Final = 1 << 16
_LINKED_PER_TURN: Final = 512
# Taking rows out of a matrix costs as much as comparing three times as many where they lie.
_WORTH_TAKING_OUT: Final = 3
# A quarter of a gigabyte is read in some 25 ms; beyond it a graph of neighbours is worth its upkeep.
_EXACT_NUMBERS: Final = 1 << 26
_SPARE_NEIGHBOURS: Final = 64
_MORE: Final = 4
_CONNECTIONS: Final = 24
_EXPANSION_ADD: Final = 128
_EXPANSION_SEARCH: Final = 256


def make_row_type(dimensions: int) -> np.dtype[Any]:
    """Return what a row is, in memory and on disk: which change wrote its text, the text's hash, and its vector.

    Sixteen bits a dimension: they move a likeness by less than 0.001, and halve the file.
    """
    return np.dtype([("number", "<i8"), ("digest", "<u8"), ("vector", "<f2", (dimensions,))])


@dataclass(frozen=True, slots=True)
class VectorSimilarities:
    """How like a query rows are: `values`, and in their order the `numbers` of the rows."""

    values: Matrix
    numbers: NDArray[np.int64]

    def iter_best(self, first: int) -> Iterator[tuple[float, int]]:
        """Yield (likeness, number) of the best `first`, then on and on until nothing is left."""
        taken = 0
        while taken < len(self.values):
            order = self._best(max(first, 1))
            for index in order[taken:]:
                yield float(self.values[index]), int(self.numbers[index])
            taken, first = len(order), first * _MORE

    def _best(self, many: int) -> NDArray[np.int64]:
        places = np.arange(len(self.values))
        if many < len(places):
            # All that are as good as the last of them: the order must not hang on how rows happen to lie.
            least = np.partition(self.values, -many)[-many]
            places = np.flatnonzero(self.values >= least)
        order: NDArray[np.int64] = places[np.lexsort((-self.numbers[places], -self.values[places]))]
        return order


@dataclass(frozen=True, slots=True)
class Comparison:
    """A query, and which of the first `count` rows it is to be compared with; None is all of them."""

    query: Matrix
    count: int
    slots: NDArray[np.int64] | None

    @property
    def size(self) -> int:
        return self.count if self.slots is None else len(self.slots)


class VectorGraph:
    """The first `rows` vectors of an account, each linked to similar ones, where too many would have to be compared.

    It is in memory only. Until it is built, vectors are compared exactly.
    """

    def __init__(self, dimensions: int) -> None:
        self.rows = 0
        self._lock = Lock()
        self._graph = Index(
            ndim=dimensions,
            metric="ip",
            dtype="f16",
            connectivity=_CONNECTIONS,
            expansion_add=_EXPANSION_ADD,
            expansion_search=_EXPANSION_SEARCH,
        )

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Add the next rows. Meant for a thread: it takes a millisecond per row."""
        keys = np.arange(self.rows, self.rows + len(vectors), dtype=np.uint64)
        with self._lock:
            self._graph.add(keys, vectors, threads=1)
        self.rows += len(vectors)

    def search(self, query: NDArray[np.float32], many: int) -> NDArray[np.int64]:
        """Return rows that are near to a query, in the order of the rows."""
        with self._lock:
            found = self._graph.search(query, min(many, self.rows), threads=1)
        return np.sort(found.keys.astype(np.int64))


class Vectors:
    """Vectors by number, with the facets of their records. It belongs to the event loop, but where it says otherwise.

    Up to `exact_numbers` floats are compared one by one; a graph of neighbours serves where there are more.
    """

    def __init__(
        self, dimensions: int, exact_numbers: int = _EXACT_NUMBERS, rows_per_block: int = _ROWS_PER_BLOCK
    ) -> None:
        self.dimensions = dimensions
        self._exact_numbers = exact_numbers
        self._rows_per_block = rows_per_block
        self._count = 0
        self._blocks: list[Matrix] = []
        self._numbers: list[NDArray[np.int64]] = []
        self._digests: list[NDArray[np.uint64]] = []
        self._slots: dict[int, int] = {}
        self._slot_by_digest: dict[int, int] = {}
        self._slots_by_facet: dict[str, array[int]] = {}
        self._neighbours = VectorGraph(dimensions)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return number in self._slots

    def add(self, rows: Rows, facets: Sequence[frozenset[str]]) -> None:
        """Take in rows with the facets of their records."""
        self._append(rows)
        slots = range(self._count, self._count + len(rows))
        for slot, number, digest, names in zip(
            slots, rows["number"].tolist(), rows["digest"].tolist(), facets, strict=True
        ):
            self._slots[number] = slot
            self._slot_by_digest[digest] = slot
            for name in names:
                self._slots_by_facet.setdefault(name, array("I")).append(slot)
        self._count += len(rows)

    def find_by_text(self, digest: int) -> Matrix | None:
        """Return the vector of a text by its hash; None when it is not here."""
        slot = self._slot_by_digest.get(digest)
        return None if slot is None else self._row(slot)

    def get(self, number: int) -> Matrix | None:
        """Return the vector of a row by its number; None when it is not here."""
        slot = self._slots.get(number)
        return None if slot is None else self._row(slot)

    def rows(self, numbers: Sequence[int]) -> Rows:
        """Return rows as they were taken in. Meant for a thread."""
        rows = np.empty(len(numbers), make_row_type(self.dimensions))
        for place, slot in enumerate(map(self._slots.__getitem__, numbers)):
            block, offset = divmod(slot, self._rows_per_block)
            rows["number"][place] = self._numbers[block][offset]
            rows["digest"][place] = self._digests[block][offset]
            rows["vector"][place] = self._blocks[block][offset]
        return rows

    def compare(self, query: Matrix, numbers: Sequence[int]) -> dict[int, float]:
        """Return how like a query some rows are, by number; what has no vector, or one without meaning, is left out."""
        found = [number for number in dict.fromkeys(numbers) if number in self._slots]
        if not found:
            return {}
        rows = np.stack([self._row(self._slots[number]) for number in found])
        has_meaning = np.asarray(rows.any(axis=1))
        likeness = dict(zip(found, (rows @ query).tolist(), strict=True))
        return {number: likeness[number] for number, counts in zip(found, has_meaning, strict=True) if counts}

    def start_comparison(self, query: Matrix, groups: Sequence[frozenset[str]]) -> Comparison:
        """Find the rows that have one facet of each group."""
        allowed: NDArray[np.bool_] | None = None
        for group in groups:
            passing = np.zeros(self._count, bool)
            for name in group:
                if name in self._slots_by_facet:
                    passing[np.frombuffer(self._slots_by_facet[name], np.uint32)] = True
            allowed = passing if allowed is None else allowed & passing
        return Comparison(query, self._count, None if allowed is None else np.flatnonzero(allowed))

    def run_comparison(self, asked: Comparison, many: int) -> VectorSimilarities:
        """Compare a query with its rows; where those are very many, with the nearest, at least `many` of them.

        Meant for a thread: it reads only what stood when the comparison was made.
        """
        slots = self._search_graph(asked, many) if asked.size * self.dimensions > self._exact_numbers else None
        slots = asked.slots if slots is None else slots
        numbers = np.concatenate([*self._numbers, np.empty(0, np.int64)])[: asked.count]
        return VectorSimilarities(self._multiply(asked, slots), numbers if slots is None else numbers[slots])

    @property
    def needs_graph(self) -> bool:
        """Whether there are rows that a graph of neighbours should hold and does not."""
        return (
            self._count * self.dimensions > self._exact_numbers
            and self._neighbours.rows + _LINKED_PER_TURN <= self._count
        )

    def extend_graph(self) -> None:
        """Bring the next rows into the graph. Meant for a thread, one at a time."""
        block, offset = divmod(self._neighbours.rows, self._rows_per_block)
        self._neighbours.add(self._blocks[block][offset : offset + _LINKED_PER_TURN])

    def _search_graph(self, asked: Comparison, many: int) -> NDArray[np.int64] | None:
        """Return rows that are near; None where the graph does not serve, being unfinished or mostly filtered away."""
        covered = self._neighbours.rows
        wanted = 2 * many * asked.count // asked.size + _SPARE_NEIGHBOURS
        if (asked.count - covered) * self.dimensions > self._exact_numbers or wanted * _SPARE_NEIGHBOURS > asked.count:
            return None
        # What came after the graph is compared one by one.
        near = np.concatenate([self._neighbours.search(asked.query, wanted), np.arange(covered, asked.count)])
        near = near if asked.slots is None else np.intersect1d(near, asked.slots, assume_unique=True)
        return near if len(near) >= many else None

    def _multiply(self, asked: Comparison, slots: NDArray[np.int64] | None) -> Matrix:
        values = np.empty(asked.count if slots is None else len(slots), np.float32)
        if slots is None or len(slots) * _WORTH_TAKING_OUT > asked.count:
            everything = np.empty(asked.count, np.float32)
            for block, start in enumerate(range(0, asked.count, self._rows_per_block)):
                end = min(start + self._rows_per_block, asked.count)
                np.dot(self._blocks[block][: end - start], asked.query, out=everything[start:end])
            return everything if slots is None else everything[slots]
        edges = np.searchsorted(slots, np.arange(0, asked.count + self._rows_per_block, self._rows_per_block)).tolist()
        for block, (start, end) in enumerate(pairwise(edges)):
            chosen = slots[start:end] - block * self._rows_per_block
            np.dot(self._blocks[block][chosen], asked.query, out=values[start:end])
        return values

    def _append(self, rows: Rows) -> None:
        # In blocks: to grow one matrix would copy hundreds of megabytes at once.
        slot, taken = self._count, 0
        while taken < len(rows):
            block, offset = divmod(slot + taken, self._rows_per_block)
            if block == len(self._blocks):
                self._blocks.append(np.zeros((self._rows_per_block, self.dimensions), np.float32))
                self._numbers.append(np.zeros(self._rows_per_block, np.int64))
                self._digests.append(np.zeros(self._rows_per_block, np.uint64))
            some = rows[taken : taken + self._rows_per_block - offset]
            self._blocks[block][offset : offset + len(some)] = some["vector"]
            self._numbers[block][offset : offset + len(some)] = some["number"]
            self._digests[block][offset : offset + len(some)] = some["digest"]
            taken += len(some)

    def _row(self, slot: int) -> Matrix:
        block, offset = divmod(slot, self._rows_per_block)
        row: Matrix = self._blocks[block][offset]
        return row
