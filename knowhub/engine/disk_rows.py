"""Row texts that stay in the log: where each is, and the checksum that tells whether it reads back unchanged."""

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from knowhub.core.errors import Unavailable

RowT = TypeVar("RowT")

ReadText = Callable[[int, int, int], bytes]
"""Returns the bytes of a segment from a start to an end."""

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


_AFTER = b'"after":'


@dataclass(slots=True)
class LogLine:
    """A line of the log: its bytes, and the segment and the offset at which they begin."""

    segment: int
    offset: int
    data: bytes

    def offsets_of(self, texts: Sequence[bytes]) -> list[int]:
        """Return where row texts of the line begin. They are given in the order in which they are in the line."""
        starts_with, find, base = self.data.startswith, self.data.find, self.offset
        offsets, end, gap = [], 0, 0
        for text in texts:
            # In a batch of new rows, what is between two texts always has the same length.
            at = end + gap
            if not starts_with(text, at):
                # Another row may quote this text. If the line has blanks of its own, the same bytes are as good.
                found = find(_AFTER + text, end)
                at = found + len(_AFTER) if found >= 0 else find(text, end)
            offsets.append(base + at)
            gap = at - end
            end = at + len(text)
        return offsets


@dataclass(frozen=True, slots=True)
class LineRows(Generic[RowT]):
    """Rows of one collection that one operation wrote: each row, its text, and the offset and checksum of the text.

    The offset of a row whose own line is damaged is -1.
    """

    segment: int
    rows: list[RowT]
    texts: list[bytes]
    offsets: list[int]
    checksums: list[int]

    @classmethod
    def locate(cls, decode: Callable[[bytes], RowT], texts: Sequence[bytes], line: LogLine) -> "LineRows[RowT]":
        """Decode rows of a line and find where they are."""
        return cls(
            line.segment,
            list(map(decode, texts)),
            list(texts),
            line.offsets_of(texts),
            [zlib.crc32(text) for text in texts],
        )

    def part(self, start: int, end: int) -> "LineRows[RowT]":
        """Return the rows from `start` to `end`."""
        if start == 0 and end == len(self.rows):
            return self
        part = slice(start, end)
        return LineRows(self.segment, self.rows[part], self.texts[part], self.offsets[part], self.checksums[part])


class DiskRows:
    """The newest text of numbered rows, 16 bytes a row in memory. Numbers begin with 0 and leave no gap."""

    def __init__(self, read: ReadText) -> None:
        self._read = read
        self._addresses = array("Q")
        self._lengths = array("I")
        self._checksums = array("I")
        self._in_memory: dict[int, bytes] = {}

    def extend(self, batch: LineRows[Any]) -> None:
        """Add new rows; they get the next numbers."""
        base = batch.segment << _OFFSET_BITS
        if min(batch.offsets, default=0) < 0:
            for index, offset in enumerate(batch.offsets):
                if offset < 0:
                    self._in_memory[len(self._addresses) + index] = batch.texts[index]
        self._addresses.extend([base | max(offset, 0) for offset in batch.offsets])
        self._lengths.extend(map(len, batch.texts))
        self._checksums.extend(batch.checksums)

    def replace(self, number: int, segment: int, offset: int, text: bytes) -> None:
        """Replace the text of row `number`."""
        self._in_memory.pop(number, None)
        if offset < 0:
            self._in_memory[number] = text
        self._addresses[number] = segment << _OFFSET_BITS | max(offset, 0)
        self._lengths[number], self._checksums[number] = len(text), zlib.crc32(text)

    def move(self, number: int, segment: int, offset: int, text: bytes) -> None:
        """Read the text of row `number` from another address from now on, if it is still this text."""
        is_same = self._lengths[number] == len(text) and self._checksums[number] == zlib.crc32(text)
        if is_same and number not in self._in_memory:
            self._addresses[number] = segment << _OFFSET_BITS | offset

    def text(self, number: int) -> bytes:
        """Return a row's text. Raises Unavailable if it cannot be read, or is not what was written."""
        if number in self._in_memory:
            return self._in_memory[number]
        address = self._addresses[number]
        segment, offset = address >> _OFFSET_BITS, address & _OFFSET_MASK
        try:
            text = self._read(segment, offset, offset + self._lengths[number])
        except OSError as problem:
            raise Unavailable(f"segment {segment} does not read back at offset {offset}: {problem}") from problem
        if zlib.crc32(text) != self._checksums[number]:
            raise Unavailable(f"segment {segment} does not read back at offset {offset}; run `knowhub doctor`")
        return text

    def __len__(self) -> int:
        return len(self._addresses)


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
                self._add_to_index(row, change)

    def replace(self, row: int, change: int) -> None:
        """Store that a change has rewritten a row."""
        self._of_row[row] = change
        self._add_to_index(row, change)

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

    def _add_to_index(self, row: int, change: int) -> None:
        if not self._ascending or change > self._ascending[-1]:
            self._ascending.append(change)
            self._rows.append(row)
        else:
            self._others[change] = row
