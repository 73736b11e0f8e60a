"""The log: append-only segments with one operation a line, and a base before them."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from knowhub.core.operation import Operation
from knowhub.engine.disk_rows import LogLine
from knowhub.stores.files.filesystem import FileSystem, read_range, replace_file, write_all
from knowhub.stores.files.lock import lock_shared, unlock
from knowhub.stores.files.log.log_line import (
    BASE,
    BaseHeader,
    Header,
    PartialBaseLine,
    PartialOperation,
    decode_base_line,
    decode_operation,
    has_valid_checksum,
    header_line,
    make_operation,
    parse_header,
    parse_line,
    parse_object,
)
from knowhub.stores.files.log.log_manifest import MANIFEST, ActiveFiles

_LINE_BYTES = 4 * 1024
_MAX_LINE_BYTES = 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_END_BYTES = 1024


class ChangeLog(ActiveFiles):
    """The segments and bases of one data directory, by number. It reads and writes bytes and lines."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        super().__init__(files, folder)
        self._readers: dict[int, int] = {}
        self._locked_segment: int | None = None
        self._writer: tuple[int, int] | None = None
        self._replaced: list[int] = []
        self._manifest_lock: int | None = None

    def close(self) -> None:
        """Close every file; the log can be used again afterwards."""
        self.close_replaced()
        if self._manifest_lock is not None:
            self._files.close(self._manifest_lock)
            self._manifest_lock = None
        for descriptor in self._readers.values():
            self._files.close(descriptor)
        self._readers.clear()
        self._locked_segment = None
        self.close_writer()

    def close_writer(self) -> None:
        if self._writer is not None:
            self._files.close(self._writer[1])
            self._writer = None

    def reload(self) -> None:
        """Use the manifest that is on disk now. Raises OSError.

        Files that a rewrite has replaced are not read any more; `close_replaced` closes them.
        """
        written = [] if self._writer is None else [self._writer[0]]
        before = {number: self.path(number) for number in (*self._readers, *written)}
        super().reload()
        replaced = [number for number, path in before.items() if self.path(number) != path]
        self._replaced += [self._readers.pop(number) for number in replaced if number in self._readers]
        if self._writer is not None and self._writer[0] in replaced:
            self.close_writer()
        if self._locked_segment in replaced:
            lock_shared(self._reader(self._locked_segment))

    def close_replaced(self) -> None:
        """Close the files that a rewrite has replaced. Freeing the room of a large one takes tens of milliseconds."""
        while self._replaced:
            self._files.close(self._replaced.pop(0))

    def lock_manifest(self) -> None:
        """Lock the manifest that this process uses, to show others that it has closed older files. Raises OSError."""
        try:
            descriptor = self._files.open(self.folder / MANIFEST, os.O_RDONLY)
        except FileNotFoundError:
            return
        lock_shared(descriptor)
        before, self._manifest_lock = self._manifest_lock, descriptor
        if before is not None:
            self._files.close(before)

    def numbers(self) -> list[int]:
        """Return the numbers of the base, if there is one, and of the segments."""
        return [*([] if self.base is None else [self.base]), *self.segments()]

    def path(self, number: int) -> Path:
        """Return the file of the segment or base with this number."""
        return self.folder / str(self.name(number))

    def create(self, header: Header) -> int:
        """Make a segment that holds its header, durable; return its length. Raises OSError."""
        line = header_line(header)
        replace_file(self._files, self.path(header.segment), line)
        return len(line)

    def header(self, segment: int) -> tuple[Header | None, int]:
        """Return a segment's header and its length in bytes; None for a damaged header."""
        line = self.line_at(segment, 0)
        return parse_header(line, Header), len(line)

    def base_header(self, base: int) -> tuple[BaseHeader | None, int]:
        """Return the header of a base and its length in bytes; no header if that or the end of the base is damaged."""
        line = self.line_at(base, 0)
        size = self.size(base)
        tail = self.read(base, max(len(line), size - _END_BYTES), size)
        last = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        header = parse_header(line, BaseHeader) if "knowhub_base_end" in (parse_line(last) or {}) else None
        return (header if header is not None and header.segment == base ^ BASE else None), len(line)

    def durable_end(self, number: int) -> int | None:
        """Return where the acknowledged bytes of a base or a closed segment end; None if the next header is damaged."""
        if number & BASE:
            return self.size(number)
        following, _ = self.header(number + 1)
        return following.previous_length if following is not None else None

    def lock_segment(self, segment: int) -> None:
        """Lock a segment, so that no compaction removes it or a later one; unlock the one before."""
        if segment != self._locked_segment:
            lock_shared(self._reader(segment))
            if self._locked_segment is not None:
                unlock(self._reader(self._locked_segment))
            self._locked_segment = segment

    def release_before(self, base: int) -> list[int]:
        """Return the descriptors of the files that a base replaces; the caller closes them."""
        gone = [number for number in self._readers if number < (base if number & BASE else base & ~BASE)]
        return [self._readers.pop(number) for number in gone]

    def inode(self, segment: int) -> int:
        return os.fstat(self._reader(segment)).st_ino

    def is_in_place(self, segment: int) -> bool:
        """Whether the segment that is open here is still the file that bears its name."""
        return self._files.inode(self.path(segment)) == self.inode(segment)

    def size(self, segment: int) -> int:
        return self._files.size(self._reader(segment))

    def append(self, segment: int, pieces: Iterable[bytes], offset: int) -> None:
        """Append `pieces` and sync them. Raises OSError; then no byte after `offset` can be trusted."""
        descriptor = self._writable(segment)
        for piece in pieces:
            write_all(self._files, descriptor, piece, offset)
            offset += len(piece)
        self._files.sync_data(descriptor)

    def sync(self, segment: int) -> None:
        self._files.sync_data(self._writable(segment))

    def sync_folder(self) -> None:
        """Make the names of the files durable. Raises OSError."""
        self._files.sync_folder(self.folder)

    def truncate(self, segment: int, length: int) -> None:
        """Shorten a segment, durably. Raises OSError."""
        descriptor = self._writable(segment)
        self._files.truncate(descriptor, length)
        self._files.sync(descriptor)

    def read(self, segment: int, start: int, end: int) -> bytes:
        """Return the bytes of a segment from `start` to `end`, fewer when it is shorter."""
        return read_range(self._files, self._reader(segment), start, end)

    async def read_async(self, segment: int, start: int, end: int) -> bytes:
        """Return the same as `read`, which a thread reads: to copy many mebibytes takes long."""
        # A file of its own: a rewrite may close the log's meanwhile.
        file = FileIO(os.dup(self._reader(segment)))

        def read() -> bytes:
            with file:
                return read_range(self._files, file.fileno(), start, end)

        return await asyncio.to_thread(read)

    def lines(self, number: int, start: int, end: int) -> Iterator["Line"]:
        """Yield the lines that begin between two offsets, a few megabytes in memory at a time."""
        for offset, piece in self.chunks(number, start, end):
            yield from split_lines(number, piece, offset)

    def chunks(self, number: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes between two offsets in chunks of complete lines, with their offsets.

        The last line may be torn, or end at `end`.
        """
        while start < end:
            piece = self.read(number, start, min(end, start + _PIECE_BYTES))
            whole = piece.rfind(b"\n") + 1
            piece = piece[:whole] if whole else self.line_at(number, start)[: end - start]
            if not piece:
                # The file is shorter than it should be.
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
                return b"".join((*pieces, piece[: newline + 1]))
            pieces.append(piece)
            offset += len(piece)
            length = min(length * 4, _MAX_LINE_BYTES)

    def _reader(self, segment: int) -> int:
        if segment not in self._readers:
            self._readers[segment] = self._files.open(self.path(segment), os.O_RDONLY)
        return self._readers[segment]

    def _writable(self, segment: int) -> int:
        if self._writer is None or self._writer[0] != segment:
            self.close_writer()
            self._writer = (segment, self._files.open(self.path(segment), os.O_WRONLY))
        return self._writer[1]


@dataclass(slots=True)
class Line(LogLine):
    """A line of a segment or a base. It `is_valid` if its checksum, and its number in the sequence, are right."""

    is_valid: bool
    _record: dict[str, Any] | None = None
    _operation: PartialOperation | None = None
    _base_line: PartialBaseLine | None = None

    @property
    def record(self) -> dict[str, Any] | None:
        """Its object, parsed once; None if the line is damaged or is no JSON object."""
        if self._record is None and self.is_valid:
            self._record = parse_object(self.data)
        return self._record

    @property
    def operation(self) -> PartialOperation | None:
        """Its operation, with the rows as text; None if the line is damaged or holds none."""
        if self._operation is None and self.is_valid:
            try:
                self._operation = decode_operation(self.data)
            except ValueError:
                return None
        return self._operation

    @property
    def full_operation(self) -> Operation | None:
        """Its operation with all rows; None if the line is damaged or holds none."""
        read, record = self.operation, self.record
        if read is not None and record is not None:
            with suppress(TypeError):
                return make_operation(read, record)
        return None

    @property
    def base_line(self) -> PartialBaseLine | None:
        """Its fields as a line of a base; None if it is damaged or no such line."""
        if self._base_line is None and self.is_valid:
            with suppress(ValueError):
                self._base_line = decode_base_line(self.data)
        return self._base_line


def split_lines(segment: int, data: bytes, start: int) -> Iterator[Line]:
    """Split bytes that begin at offset `start` into lines. A last line without newline is not valid."""
    begin = 0
    while begin < len(data):
        newline = data.find(b"\n", begin)
        end = len(data) if newline < 0 else newline + 1
        line = data[begin:end]
        yield Line(segment, start + begin, line, has_valid_checksum(line))
        begin = end
