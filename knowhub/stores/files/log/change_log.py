"""The truth: append-only segments of sealed lines, one operation a line (seed 001 §3, `change_log.jsonl`)."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.operation import Operation
from knowhub.stores.files.filesystem import FileSystem, replace_file, write_all
from knowhub.stores.files.lock import share, try_flock, unlock
from knowhub.stores.files.log.log_base import BASE, BaseHeader, header_of, is_end
from knowhub.stores.files.log.log_line import decode, is_sealed, parsed, seal
from knowhub.stores.files.log.sliced_line import SlicedBaseLine, SlicedOperation, sliced_base_line, sliced_operation

_SEGMENT, _BASE, _SUFFIX = "segment-", "base-", ".jsonl"
JOURNAL = "erase.journal"
"""In the log's folder: what an erasing that is going on, or was broken off, overwrites."""

_LINE_BYTES = 4 * 1024
_PIECE_BYTES = 1024 * 1024
_END_BYTES = 1024
_READ_TRIES = 5
_READ_AGAIN_S = 0.001


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a segment. `previous_length` is where the segment before it ends: bytes past it are void."""

    log_id: str
    segment: int
    generation: int
    first_seq: int
    previous_length: int | None


class ChangeLog:
    """The segments and bases of one data directory, by number. It knows bytes and lines, not what they mean."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._readers: dict[int, int] = {}
        self._held: int | None = None
        self._writer: tuple[int, int] | None = None

    def close(self) -> None:
        """Close every file; the log can be used again afterwards."""
        for descriptor in self._readers.values():
            self._files.close(descriptor)
        self._readers.clear()
        self._held = None
        self.stop_writing()

    def stop_writing(self) -> None:
        if self._writer is not None:
            self._files.close(self._writer[1])
            self._writer = None

    def segments(self) -> list[int]:
        """Return the numbers of the segments on disk, oldest first, also of those that a base has made superfluous."""
        return self._numbers(_SEGMENT)

    def bases(self) -> list[int]:
        """Return the numbers of the bases on disk, each `BASE` and the segment that follows it, oldest first."""
        return [BASE | segment for segment in self._numbers(_BASE)]

    def path(self, number: int) -> Path:
        prefix, segment = (_BASE, number ^ BASE) if number & BASE else (_SEGMENT, number)
        return self._folder / f"{prefix}{segment:08d}{_SUFFIX}"

    def create(self, header: Header) -> int:
        """Make a segment that holds its header, durable; return its length. Raises OSError."""
        line = header_text(header)
        replace_file(self._files, self.path(header.segment), line)
        return len(line)

    def header(self, segment: int) -> tuple[Header | None, int]:
        """Return a segment's header and its length in bytes; None for a header that is not whole."""
        line = self.line_at(segment, 0)
        return _header(parsed(line)), len(line)

    def base_header(self, base: int) -> tuple[BaseHeader | None, int]:
        """Return a base's header and its length in bytes; None for one that is not whole, or for a base without end."""
        line = self.line_at(base, 0)
        size = self.size(base)
        tail = self.read(base, max(len(line), size - _END_BYTES), size)
        last = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        return (header_of(parsed(line)) if is_end(parsed(last)) else None), len(line)

    def hold(self, segment: int) -> None:
        """Keep a segment, and all after it, from being dropped: this process stands there. The one before goes free."""
        if segment != self._held:
            share(self._reader(segment))
            if self._held is not None:
                unlock(self._reader(self._held))
            self._held = segment

    def is_free(self, number: int) -> bool:
        """Tell whether no process stands in a segment."""
        descriptor = self._files.open(self.path(number), os.O_RDONLY)
        try:
            return try_flock(descriptor)
        finally:
            self._files.close(descriptor)

    @property
    def is_being_erased(self) -> bool:
        """Whether lines may be half overwritten, by an erasing that goes on or whose process died."""
        return self._files.inode_at(self._folder / JOURNAL) is not None

    def drop(self, number: int) -> None:
        """Remove a file of the log. What is open here can still be read. Raises OSError."""
        self._files.remove(self.path(number))

    def forget(self, number: int) -> None:
        """Close a file that nothing is read from any more."""
        descriptor = self.release(number)
        if descriptor is not None:
            self._files.close(descriptor)

    def release(self, number: int) -> int | None:
        """Give away the descriptor of a file that nothing is read from any more; None when it is not open.

        The caller closes it.
        """
        return self._readers.pop(number, None)

    def opened(self) -> list[int]:
        """Return the numbers of the files that are open for reading."""
        return list(self._readers)

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
        pieces: list[bytes] = []
        while start < end:
            piece = self._files.read_at(self._reader(segment), end - start, start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def lines(self, number: int, start: int, end: int) -> Iterator["Line"]:
        """Yield the lines that begin between two offsets, a few megabytes in memory at a time."""
        for offset, piece in self.pieces(number, start, end):
            yield from lines_of(piece, offset)

    def pieces(self, number: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield what lies between two offsets in pieces of whole lines, each with its offset; the last may be torn."""
        while start < end:
            piece = self.read(number, start, min(end, start + _PIECE_BYTES))
            whole = piece.rfind(b"\n") + 1
            piece = piece[:whole] if whole else self.line_at(number, start)
            if not piece:
                # The file has become shorter than it was said to be.
                return
            yield start, piece
            start += len(piece)

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

    def read_again(self, number: int, line: "Line") -> "Line":
        """Read a line that was not whole until it is, a few times: another process may be erasing something in it."""
        for _ in range(_READ_TRIES):
            if line.is_whole:
                break
            time.sleep(_READ_AGAIN_S)
            data = self.line_at(number, line.offset)
            line = Line(line.offset, data, is_sealed(data))
        return line

    def _numbers(self, prefix: str) -> list[int]:
        return [
            int(name[len(prefix) : -len(_SUFFIX)])
            for name in self._files.names(self._folder)
            if name.startswith(prefix) and name.endswith(_SUFFIX)
        ]

    def _reader(self, segment: int) -> int:
        if segment not in self._readers:
            self._readers[segment] = self._files.open(self.path(segment), os.O_RDONLY)
        return self._readers[segment]

    def _writable(self, segment: int) -> int:
        if self._writer is None or self._writer[0] != segment:
            self.stop_writing()
            self._writer = (segment, self._files.open(self.path(segment), os.O_WRONLY))
        return self._writer[1]


@dataclass(slots=True)
class Line:
    """A line of a segment where it stands. It is whole when its checksum is right."""

    offset: int
    data: bytes
    is_whole: bool
    _record: dict[str, Any] | None = None
    _operation: SlicedOperation | None = None
    _base_line: SlicedBaseLine | None = None

    @property
    def record(self) -> dict[str, Any] | None:
        """Its object, parsed when it is first asked for; None when the line is not whole, or no JSON object."""
        if self._record is None and self.is_whole:
            self._record = parsed(self.data)
        return self._record

    @property
    def operation(self) -> SlicedOperation | None:
        """Its operation, whose rows are text that is pointed out; None when the line is not whole, or tells none."""
        if self._operation is None and self.is_whole:
            with suppress(ValueError):
                self._operation = sliced_operation(self.data)
        return self._operation

    @property
    def told(self) -> Operation | None:
        """Its operation with every row before and after; None when the line is not whole, or tells none."""
        read, record = self.operation, self.record
        if read is not None and record is not None:
            with suppress(TypeError):
                return decode(read, record)
        return None

    @property
    def base_line(self) -> SlicedBaseLine | None:
        """What it tells as the line of a base; None when it is not whole, or is no such line."""
        if self._base_line is None and self.is_whole:
            with suppress(ValueError):
                self._base_line = sliced_base_line(self.data)
        return self._base_line


def header_text(header: Header) -> bytes:
    """Return the sealed first line of a segment."""
    record = {
        "knowhub_log": 1,
        "log_id": header.log_id,
        "segment": header.segment,
        "generation": header.generation,
        "first_seq": header.first_seq,
        "previous_length": header.previous_length,
    }
    return seal(orjson.dumps(record)[:-1])


def lines_of(data: bytes, start: int) -> Iterator[Line]:
    """Split bytes that begin at offset `start` into lines; a last one without newline is not whole."""
    begin = 0
    while begin < len(data):
        newline = data.find(b"\n", begin)
        end = len(data) if newline < 0 else newline + 1
        line = data[begin:end]
        yield Line(start + begin, line, is_sealed(line))
        begin = end


def _header(record: dict[str, Any] | None) -> Header | None:
    match record:
        case {
            "knowhub_log": 1,
            "log_id": str() as log_id,
            "segment": int() as segment,
            "generation": int() as generation,
            "first_seq": int() as first_seq,
            "previous_length": int() | None as previous_length,
        }:
            return Header(log_id, segment, generation, first_seq, previous_length)
    return None
