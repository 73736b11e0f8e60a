"""The change numbers of the rows of a table, in both directions, with some twenty bytes a row."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise


class ChangeNumbers:
    """The number of the change that last wrote each row. Rows are numbered from 0, without gaps."""

    def __init__(self) -> None:
        self._of_row = array("q")
        # Changes are mostly read in their order. Others, of rows that a compaction moved, are few.
        self._ascending = array("q")
        self._rows = array("I")
        self._others: dict[int, int] = {}

    def extend(self, changes: Sequence[int]) -> None:
        """Add the next rows with their changes."""
        first = len(self._of_row)
        self._of_row.extend(changes)
        last = self._ascending[-1] if self._ascending else 0
        if changes and changes[0] > last and all(low < high for low, high in pairwise(changes)):
            self._ascending.extend(changes)
            self._rows.extend(range(first, first + len(changes)))
        else:
            for row, change in enumerate(changes, first):
                self._note(row, change)

    def replace(self, row: int, change: int) -> None:
        """Note that a change has rewritten a row."""
        self._of_row[row] = change
        self._note(row, change)

    def of(self, row: int) -> int:
        """Return the change that last wrote a row."""
        return self._of_row[row]

    def find(self, change: int) -> int | None:
        """Return the row that a change wrote last; None if it was rewritten since."""
        index = bisect_left(self._ascending, change)
        is_listed = index < len(self._ascending) and self._ascending[index] == change
        row = self._rows[index] if is_listed else self._others.get(change)
        return row if row is not None and self._of_row[row] == change else None

    def iter_after(self, change: int) -> Iterator[tuple[int, int]]:
        """Yield (change, row) of the rows whose last change is later than this one, ascending."""
        start = bisect_right(self._ascending, change)
        later: Iterable[tuple[int, int]] = zip(self._ascending[start:], self._rows[start:], strict=True)
        if others := [(number, row) for number, row in self._others.items() if number > change]:
            later = sorted([*later, *others])
        return ((number, row) for number, row in later if self._of_row[row] == number)

    def _note(self, row: int, change: int) -> None:
        if not self._ascending or change > self._ascending[-1]:
            self._ascending.append(change)
            self._rows.append(row)
        else:
            self._others[change] = row
