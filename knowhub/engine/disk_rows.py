"""Row texts that stay in the log: where each is, and the checksum that tells whether it reads back unchanged."""

import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from knowhub.core.errors import Unavailable

RowT = TypeVar("RowT")

ReadText = Callable[[int, int, int], bytes]
"""Returns the bytes of a segment from a start to an end."""

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


_AFTER = b'"after":'


@dataclass(frozen=True, slots=True)
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
class PlacedRows(Generic[RowT]):
    """Rows of one collection that one operation wrote: each row, its text, and the offset and checksum of the text.

    The offset of a row whose own line is damaged is -1.
    """

    segment: int
    rows: list[RowT]
    texts: list[bytes]
    offsets: list[int]
    sums: list[int]

    @classmethod
    def find(cls, decode: Callable[[bytes], RowT], texts: Sequence[bytes], line: LogLine) -> "PlacedRows[RowT]":
        """Decode rows of a line and find where they are. It touches no table, and so may run in a thread."""
        # No `map`: it would keep the interpreter until the last row of a batch is decoded.
        rows = [decode(text) for text in texts]
        return cls(line.segment, rows, list(texts), line.offsets_of(texts), [zlib.crc32(text) for text in texts])

    def part(self, start: int, end: int) -> "PlacedRows[RowT]":
        """Return the rows from `start` to `end`."""
        if start == 0 and end == len(self.rows):
            return self
        part = slice(start, end)
        return PlacedRows(self.segment, self.rows[part], self.texts[part], self.offsets[part], self.sums[part])


class DiskRows:
    """The newest text of numbered rows, 16 bytes a row in memory. Numbers begin with 0 and leave no gap."""

    def __init__(self, read: ReadText) -> None:
        self._read = read
        self._places = array("Q")
        self._lengths = array("I")
        self._sums = array("I")
        self._in_memory: dict[int, bytes] = {}

    def extend(self, placed: PlacedRows[Any]) -> None:
        """Add new rows; they get the next numbers."""
        base = placed.segment << _OFFSET_BITS
        if min(placed.offsets, default=0) < 0:
            for index, offset in enumerate(placed.offsets):
                if offset < 0:
                    self._in_memory[len(self._places) + index] = placed.texts[index]
        self._places.extend([base | max(offset, 0) for offset in placed.offsets])
        self._lengths.extend(map(len, placed.texts))
        self._sums.extend(placed.sums)

    def replace(self, number: int, segment: int, offset: int, text: bytes) -> None:
        """Replace the text of row `number`."""
        self._in_memory.pop(number, None)
        if offset < 0:
            self._in_memory[number] = text
        self._places[number] = segment << _OFFSET_BITS | max(offset, 0)
        self._lengths[number], self._sums[number] = len(text), zlib.crc32(text)

    def move(self, number: int, segment: int, offset: int, text: bytes) -> None:
        """Read the text of row `number` from another place from now on, if it is still this text."""
        is_same = self._lengths[number] == len(text) and self._sums[number] == zlib.crc32(text)
        if is_same and number not in self._in_memory:
            self._places[number] = segment << _OFFSET_BITS | offset

    def text(self, number: int) -> bytes:
        """Return a row's text. Raises Unavailable if it cannot be read, or is not what was written."""
        if number in self._in_memory:
            return self._in_memory[number]
        place = self._places[number]
        segment, offset = place >> _OFFSET_BITS, place & _OFFSET_MASK
        try:
            text = self._read(segment, offset, offset + self._lengths[number])
        except OSError as problem:
            raise Unavailable(f"segment {segment} does not read back at offset {offset}: {problem}") from problem
        if zlib.crc32(text) != self._sums[number]:
            raise Unavailable(f"segment {segment} does not read back at offset {offset}; run `knowhub doctor`")
        return text

    def __len__(self) -> int:
        return len(self._places)
