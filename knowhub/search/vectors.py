"""The vectors of one account in memory. Filtered rows are not compared; comparison is exact.

Rows are append-only. An outdated row stays until its file is rewritten; callers drop it from the results.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[Any]
"""As `make_row_type` says."""

# Few blocks, as each product wakes the threads of the library anew; memory that no row has touched costs nothing.
_ROWS_PER_BLOCK: Final = 1 << 16
# Taking rows out of a matrix costs as much as comparing three times as many where they lie.
_WORTH_TAKING_OUT: Final = 3
_MORE: Final = 4


def make_row_type(dimensions: int) -> np.dtype[Any]:
    """Return what a row is, in memory and on disk: which change wrote its text, the text's hash, and its vector.

    Sixteen bits a dimension: they move a similarity by less than 0.001, and halve the file.
    """
    return np.dtype([("number", "<i8"), ("digest", "<u8"), ("vector", "<f2", (dimensions,))])


class Vectors:
    """Vectors by number, with the facets of their records. Belongs to the event loop, but where it says otherwise."""

    def __init__(self, dimensions: int, rows_per_block: int = _ROWS_PER_BLOCK) -> None:
        self.dimensions = dimensions
        self._rows_per_block = rows_per_block
        self._count = 0
        self._blocks: list[Matrix] = []
        self._numbers = array("q")
        self._digests = array("Q")
        self._slots: dict[int, int] = {}
        self._slots_by_facet: dict[str, array[int]] = {}

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
            self._numbers.append(number)
            self._digests.append(digest)
            self._slots[number] = slot
            for name in names:
                self._slots_by_facet.setdefault(name, array("I")).append(slot)
        self._count += len(rows)

    def find_by_text(self, digest: int) -> Matrix | None:
        """Return the vector of a text by its hash; None when it is not here."""
        # By looking through all: a map would take a tenth of the memory of the vectors.
        if not self._digests:
            return None
        slots = np.flatnonzero(np.frombuffer(self._digests, np.uint64) == digest)
        return self._row(int(slots[-1])) if len(slots) else None

    def get(self, number: int) -> Matrix | None:
        """Return the vector of a row by its number; None when it is not here."""
        slot = self._slots.get(number)
        return None if slot is None else self._row(slot)

    def rows(self, numbers: Sequence[int]) -> Rows:
        """Return rows as they were taken in. Meant for a thread."""
        rows = np.empty(len(numbers), make_row_type(self.dimensions))
        for position, slot in enumerate(map(self._slots.__getitem__, numbers)):
            rows[position] = self._numbers[slot], self._digests[slot], self._row(slot)
        return rows

    def find_slots(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the positions of rows by their number; what has no vector is left out."""
        return {number: self._slots[number] for number in numbers if number in self._slots}

    def numbers_at(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the rows at these positions."""
        return np.frombuffer(self._numbers, np.int64)[slots]

    def start_comparison(self, query: Matrix, groups: Sequence[frozenset[str]]) -> "Callable[[], Similarities]":
        """Find the rows that have one facet of each group, and return what compares a query with them.

        That is meant for a thread: it reads only the rows that stand now.
        """
        slots, count = self._find_passing(groups), self._count
        return lambda: Similarities(self, slots, self._multiply(query, count, slots))

    def _find_passing(self, groups: Sequence[frozenset[str]]) -> NDArray[np.int64] | None:
        """Return the positions of the rows that have one facet of each group; None if all have."""
        allowed: NDArray[np.bool_] | None = None
        for group in groups:
            passing = np.zeros(self._count, bool)
            for name in group:
                if name in self._slots_by_facet:
                    passing[np.frombuffer(self._slots_by_facet[name], np.uint32)] = True
            allowed = passing if allowed is None else allowed & passing
        # Many callers see everything: then no rows need to be taken out.
        return None if allowed is None or allowed.all() else np.flatnonzero(allowed)

    def _multiply(self, query: Matrix, count: int, slots: NDArray[np.int64] | None) -> Matrix:
        """Multiply a query with the rows at these positions; None is the first `count`."""
        if slots is None or len(slots) * _WORTH_TAKING_OUT > count:
            everything = np.empty(count, np.float32)
            for block, start in enumerate(range(0, count, self._rows_per_block)):
                end = min(start + self._rows_per_block, count)
                np.dot(self._blocks[block][: end - start], query, out=everything[start:end])
            return everything if slots is None else everything[slots]
        values = np.empty(len(slots), np.float32)
        edges = np.searchsorted(slots, np.arange(0, count + self._rows_per_block, self._rows_per_block)).tolist()
        for block, (start, end) in enumerate(pairwise(edges)):
            chosen = slots[start:end] - block * self._rows_per_block
            np.dot(self._blocks[block][chosen], query, out=values[start:end])
        return values

    def _append(self, rows: Rows) -> None:
        # In blocks: to grow one matrix would copy hundreds of megabytes at once.
        slot, taken = self._count, 0
        while taken < len(rows):
            block, offset = divmod(slot + taken, self._rows_per_block)
            if block == len(self._blocks):
                self._blocks.append(np.zeros((self._rows_per_block, self.dimensions), np.float32))
            some = rows[taken : taken + self._rows_per_block - offset]
            self._blocks[block][offset : offset + len(some)] = some["vector"]
            taken += len(some)

    def _row(self, slot: int) -> Matrix:
        block, offset = divmod(slot, self._rows_per_block)
        row: Matrix = self._blocks[block][offset]
        return row


@dataclass(frozen=True, slots=True)
class Similarities:
    """How similar rows are to a query: `values`, in the order of `slots`; None is all rows.

    Belongs to the event loop.
    """

    vectors: Vectors
    slots: NDArray[np.int64] | None
    values: Matrix

    def iter_best(self, first: int) -> Iterator[tuple[float, int]]:
        """Yield (similarity, number) of the best `first`, then on and on until nothing is left."""
        taken = 0
        while taken < len(self.values):
            positions, numbers = self._find_best(max(first, 1))
            yield from zip(self.values[positions[taken:]].tolist(), numbers[taken:].tolist(), strict=True)
            taken, first = len(positions), first * _MORE

    def get_by_number(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return the similarity of rows by their number, without those that were not compared or have no meaning."""
        by_number = self.vectors.find_slots(numbers)
        wanted = np.fromiter(by_number.values(), np.int64)
        positions = wanted if self.slots is None else np.searchsorted(self.slots, wanted)
        is_here = positions < len(self.values)
        if self.slots is not None:
            is_here[is_here] = self.slots[positions[is_here]] == wanted[is_here]
        values = np.zeros(len(wanted), np.float32)
        values[is_here] = self.values[positions[is_here]]
        return {number: value for number, value in zip(by_number, values.tolist(), strict=True) if value}

    def _find_best(self, many: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        positions = np.arange(len(self.values))
        if many < len(positions):
            # All that are as good as the last of them: the order must not hang on how rows happen to lie.
            least = np.partition(self.values, -many)[-many]
            positions = np.flatnonzero(self.values >= least)
        numbers = self.vectors.numbers_at(positions if self.slots is None else self.slots[positions])
        order = np.lexsort((-numbers, -self.values[positions]))
        return positions[order], numbers[order]
