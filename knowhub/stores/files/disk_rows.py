"""Rows whose text stays in the log: where each stands, and the checksum by which it is known again."""

import zlib
from array import array
from collections.abc import Callable

from knowhub.core.errors import Unavailable

Place = tuple[int, int]
"""A segment, and the offset in it at which a row's text begins."""

ReadText = Callable[[int, int, int], bytes]
"""From segment, offset and length to the bytes that stand there."""

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class DiskRows:
    """The newest text of numbered rows, 16 bytes a row in memory. Numbers begin with 0 and leave no gap."""

    def __init__(self, read: ReadText) -> None:
        self._read = read
        self._places = array("Q")
        self._lengths = array("I")
        self._sums = array("I")
        self._kept: dict[int, bytes] = {}

    def put(self, number: int, place: Place | None, text: bytes) -> None:
        """Take in that row `number` now stands as `text` at `place`; a new row takes the next number.

        Where a line spells the row in another way than ours, there is no place, and the text is kept.
        """
        if place is None:
            self._kept[number] = text
            place = (0, 0)
        elif self._kept:
            self._kept.pop(number, None)
        at = place[0] << _OFFSET_BITS | place[1]
        if number == len(self._places):
            self._places.append(at)
            self._lengths.append(len(text))
            self._sums.append(zlib.crc32(text))
        else:
            self._places[number], self._lengths[number], self._sums[number] = at, len(text), zlib.crc32(text)

    def text(self, number: int) -> bytes:
        """Return a row's text. Raises Unavailable when what stands there is not what was written."""
        if number in self._kept:
            return self._kept[number]
        place = self._places[number]
        segment, offset = place >> _OFFSET_BITS, place & _OFFSET_MASK
        text = self._read(segment, offset, offset + self._lengths[number])
        if zlib.crc32(text) != self._sums[number]:
            raise Unavailable(f"segment {segment} does not read back at offset {offset}; run `knowhub doctor`")
        return text

    def __len__(self) -> int:
        return len(self._places)
