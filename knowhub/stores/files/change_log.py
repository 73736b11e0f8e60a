"""The truth: append-only segments of sealed lines, one operation a line (seed 001 §3, `change_log.jsonl`)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from knowhub.stores.files.filesystem import FileSystem, replace_file, write_all
from knowhub.stores.files.log_line import parsed, seal

_PREFIX, _SUFFIX = "segment-", ".jsonl"
_LINE_BYTES = 4 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a segment. `previous_length` is where the segment before it ends: bytes past it are void."""

    log_id: str
    segment: int
    generation: int
    first_seq: int
    previous_length: int | None


class ChangeLog:
    """The segment files of one data directory. It knows bytes and lines, not what they mean."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._readers: dict[int, int] = {}
        self._writer: tuple[int, int] | None = None

    def close(self) -> None:
        """Close every file; the log can be used again afterwards."""
        for descriptor in self._readers.values():
            self._files.close(descriptor)
        self._readers.clear()
        self.stop_writing()

    def stop_writing(self) -> None:
        if self._writer is not None:
            self._files.close(self._writer[1])
            self._writer = None

    def segments(self) -> list[int]:
        """Return the numbers of the segments on disk, oldest first."""
        return [
            int(name[len(_PREFIX) : -len(_SUFFIX)])
            for name in self._files.names(self._folder)
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
        ]

    def path(self, segment: int) -> Path:
        return self._folder / f"{_PREFIX}{segment:08d}{_SUFFIX}"

    def create(self, header: Header) -> int:
        """Make a segment that holds its header, durable; return its length. Raises OSError."""
        record = {
            "knowhub_log": 1,
            "log_id": header.log_id,
            "segment": header.segment,
            "generation": header.generation,
            "first_seq": header.first_seq,
            "previous_length": header.previous_length,
        }
        line = seal(orjson.dumps(record)[:-1])
        replace_file(self._files, self.path(header.segment), line)
        return len(line)

    def header(self, segment: int) -> tuple[Header | None, int]:
        """Return a segment's header and its length in bytes; None for a header that is not whole."""
        line = self.line_at(segment, 0)
        record = parsed(line)
        return (_header(record) if record and "knowhub_log" in record else None), len(line)

    def inode(self, segment: int) -> int:
        return os.fstat(self._reader(segment)).st_ino

    def is_in_place(self, segment: int) -> bool:
        """Whether the segment that is open here is still the file that bears its name."""
        return self._files.inode_at(self.path(segment)) == self.inode(segment)

    def size(self, segment: int) -> int:
        return self._files.size(self._reader(segment))

    def append(self, segment: int, data: bytes, offset: int) -> None:
        """Write `data` at the end and make it durable. Raises OSError; then nothing past `offset` is to be trusted."""
        descriptor = self._writable(segment)
        write_all(self._files, descriptor, data, offset)
        self._files.sync_data(descriptor)

    def sync(self, segment: int) -> None:
        self._files.sync_data(self._writable(segment))

    def cut(self, segment: int, length: int) -> None:
        """Shorten a segment, durably. Raises OSError."""
        descriptor = self._writable(segment)
        self._files.truncate(descriptor, length)
        self._files.sync(descriptor)

    def read(self, segment: int, start: int, end: int) -> bytes:
        """Return the bytes of a segment from `start` to `end`, fewer when it is shorter."""
        pieces = []
        while start < end:
            piece = self._files.read_at(self._reader(segment), end - start, start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def line_at(self, segment: int, offset: int) -> bytes:
        """Return the line that begins at `offset`, its newline included where there is one."""
        pieces: list[bytes] = []
        length = _LINE_BYTES
        while True:
            piece = self._files.read_at(self._reader(segment), length, offset)
            newline = piece.find(b"\n")
            if newline >= 0 or not piece:
                pieces.append(piece[: newline + 1])
                return b"".join(pieces)
            pieces.append(piece)
            offset += len(piece)
            length *= 4

    def _reader(self, segment: int) -> int:
        if segment not in self._readers:
            self._readers[segment] = self._files.open(self.path(segment), os.O_RDONLY)
        return self._readers[segment]

    def _writable(self, segment: int) -> int:
        if self._writer is None or self._writer[0] != segment:
            self.stop_writing()
            self._writer = (segment, self._files.open(self.path(segment), os.O_WRONLY))
        return self._writer[1]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a segment where it stands; `record` is None when it is not whole."""

    offset: int
    data: bytes
    record: dict[str, Any] | None


def lines_of(data: bytes, start: int) -> Iterator[Line]:
    """Split bytes that begin at offset `start` into lines; a last one without newline is not whole."""
    begin = 0
    while begin < len(data):
        newline = data.find(b"\n", begin)
        end = len(data) if newline < 0 else newline + 1
        line = data[begin:end]
        yield Line(start + begin, line, parsed(line))
        begin = end


def _header(record: dict[str, Any]) -> Header:
    return Header(
        log_id=record["log_id"],
        segment=record["segment"],
        generation=record["generation"],
        first_seq=record["first_seq"],
        previous_length=record["previous_length"],
    )
