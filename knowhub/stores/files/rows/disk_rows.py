"""Rows whose text stays in the log: where each stands, and the checksum by which it is known again."""

import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from knowhub.core.errors import Unavailable

RowT = TypeVar("RowT")

ReadText = Callable[[int, int, int], bytes]
"""From segment, offset and length to the bytes that stand there."""

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


@dataclass(frozen=True, slots=True)
class PlacedRows(Generic[RowT]):
    """Rows of one collection that one operation wrote: each row, its text, and the offset at which that stands.

    A row whose own line is damaged has no place; its offset is -1.
    """

    segment: int
    rows: list[RowT]
    texts: list[bytes]
    offsets: list[int]

    def part(self, start: int, end: int) -> "PlacedRows[RowT]":
        """Return some of them; all of them are themselves."""
        if start == 0 and end == len(self.rows):
            return self
        return PlacedRows(self.segment, self.rows[start:end], self.texts[start:end], self.offsets[start:end])


class DiskRows:
    """The newest text of numbered rows, 16 bytes a row in memory. Numbers begin with 0 and leave no gap."""

    def __init__(self, read: ReadText) -> None:
        self._read = read
        self._places = array("Q")
        self._lengths = array("I")
        self._sums = array("I")
        self._kept: dict[int, bytes] = {}

    def extend(self, placed: PlacedRows[Any]) -> None:
        """Take in new rows: they take the next numbers."""
        base = placed.segment << _OFFSET_BITS
        if min(placed.offsets, default=0) < 0:
            for index, offset in enumerate(placed.offsets):
                if offset < 0:
                    self._kept[len(self._places) + index] = placed.texts[index]
        self._places.extend([base | max(offset, 0) for offset in placed.offsets])
        self._lengths.extend(map(len, placed.texts))
        self._sums.extend(map(zlib.crc32, placed.texts))

    def replace(self, number: int, segment: int, offset: int, text: bytes) -> None:
        """Take in that row `number` now stands as `text`."""
        self._kept.pop(number, None)
        if offset < 0:
            self._kept[number] = text
        self._places[number] = segment << _OFFSET_BITS | max(offset, 0)
        self._lengths[number], self._sums[number] = len(text), zlib.crc32(text)

    def move(self, number: int, segment: int, offset: int, text: bytes) -> None:
        """Take in that the text of row `number`, if this is still it, can also be read elsewhere."""
        if number not in self._kept and self._lengths[number] == len(text) and self._sums[number] == zlib.crc32(text):
            self._places[number] = segment << _OFFSET_BITS | offset

    def text(self, number: int) -> bytes:
        """Return a row's text. Raises Unavailable when what stands there is not what was written, or cannot be read."""
        if number in self._kept:
            return self._kept[number]
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
