"""A log segment in memory: operations write rows to it, and a catalog reads them back."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from knowhub.engine.disk_rows import LineRows

SEGMENT = 3


class MemorySegment:
    """Holds texts one after another, with other bytes between them. Tests may damage `data`."""

    def __init__(self) -> None:
        self.data = bytearray()

    def place(self, *rows: Mapping[str, Any], read: Callable[[bytes], Any] = orjson.loads) -> LineRows[Any]:
        """Write the rows of one operation; `read` parses a text into what a catalog takes."""
        texts = [orjson.dumps(row) for row in rows]
        offsets = []
        for text in texts:
            self.data += b'{"after":'
            offsets.append(len(self.data))
            self.data += text + b"}"
        return LineRows(SEGMENT, list(map(read, texts)), texts, offsets, list(map(zlib.crc32, texts)))

    def read(self, segment: int, start: int, end: int) -> bytes:
        assert segment == SEGMENT
        return bytes(self.data[start:end])
