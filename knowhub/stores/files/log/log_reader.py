"""A log read from its newest base on with every check: what is not whole is named, and nothing of it is believed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from knowhub.core.erasing import ERASING
from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.change_log import ChangeLog, Header, Line
from knowhub.stores.files.log.log_line import BASE, BaseHeader, line_checksum
from knowhub.stores.files.log.partial_line import (
    PartialChange,
    PartialOperation,
    decode_base_line,
    decode_operation,
    row_text,
)
from knowhub.stores.files.log.recovery import SHAPE_ERRORS

Take: TypeAlias = Callable[[str, Sequence[PartialChange], int], None]
"""Takes in the rows of a line: its account, the rows, and the operation's number; of a base, that of its newest one.

It raises ValueError, TypeError, KeyError or AttributeError for a row that has not the shape of one.
"""


class DamagedLog(Unavailable):
    """A log does not read back: `path` is the file, `offset` where its first bad line begins."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path} at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where reading stops: everything before this offset of this segment is durable."""

    segment: int
    offset: int


@dataclass(slots=True)
class LogSummary:
    """What a log told of itself. `checksum` and `last_time` are those of operation `last_seq`, the last one read.

    `erases` is the number of the newest erasing.
    """

    log_id: str = ""
    generation: int = 1
    last_seq: int = 0
    checksum: str = ""
    last_time: float = 0.0
    erases: int = 0

    def begin_after(self, base: BaseHeader) -> None:
        """Take in the header of a base."""
        self.log_id, self.generation = base.log_id, base.generation
        self.last_seq, self.checksum = base.last_seq, base.checksum
        self.last_time, self.erases = base.last_time, base.erases

    def note(self, operation: PartialOperation, line: bytes) -> None:
        """Take in that an operation is the newest one."""
        self.last_seq, self.checksum = operation.seq, line_checksum(line)
        self.last_time = max(self.last_time, operation.timestamp)
        if operation.op.startswith(ERASING):
            self.erases = self.last_seq


def read_log(files: FileSystem, folder: Path, take: Take, *, end: LogEnd | None = None) -> LogSummary:
    """Give the rows of a change_log folder, from its newest base on, to `load`, line by line; nothing is written.

    All up to `end` is durable; without it that is all of the log. Raises DamagedLog for the first thing that is wrong,
    and OSError.
    """
    log = ChangeLog(files, folder)
    try:
        return _Reader(log, end, take, LogSummary()).run()
    finally:
        log.close()


@dataclass(slots=True)
class _Reader:
    log: ChangeLog
    end: LogEnd | None
    take: Take
    found: LogSummary

    def run(self) -> LogSummary:
        first = self._read_base()
        segments = self._segments(first)
        headers = [self._header(number) for number in segments]
        for place, number in enumerate(segments):
            header, start = headers[place]
            self._check_header(number, header)
            following = headers[place + 1][0].previous_length if place + 1 < len(segments) else None
            self._read_segment(number, start, self._length(number, following))
        return self.found

    def _read_base(self) -> int:
        """Read the newest base; return the segment that follows it, the first one where there is no base."""
        bases = self.log.bases()
        if not bases:
            return 1
        number, count = bases[-1], 0
        with self._check_shape(number, 0):
            base, start = self.log.base_header(number)
        if base is None or base.segment != number ^ BASE:
            raise self._damage(number, 0, "the base is damaged: its header or its end")
        self.found.begin_after(base)
        told = -1
        for line in self.log.lines(number, start, self.log.size(number)):
            data = self._check_line(number, line)
            with self._check_shape(number, line.offset):
                read = decode_base_line(data)
                if read.knowhub_base_end is not None:
                    told = -1 if read.rows is None else read.rows
                elif read.account is None or read.changes is None:
                    raise ValueError("neither rows nor the end of a base")
                else:
                    count += len(read.changes)
                    self.take(read.account, read.changes, self.found.last_seq)
        if told != count:
            raise self._damage(number, 0, f"the base says that it has {told} rows, and it has {count}")
        return base.segment

    def _segments(self, first: int) -> list[int]:
        there = [number for number in self.log.segments() if number >= first]
        last = self.end.segment if self.end else max(there, default=first)
        for number in range(first, last + 1):
            if number not in there:
                raise self._damage(number, 0, "this segment is missing")
        return list(range(first, last + 1))

    def _header(self, number: int) -> tuple[Header, int]:
        header, start = self.log.header(number)
        if header is None:
            raise self._damage(number, 0, "the segment's header is damaged")
        return header, start

    def _check_header(self, number: int, header: Header) -> None:
        self.found.log_id = self.found.log_id or header.log_id
        self.found.generation = max(self.found.generation, header.generation)
        if (header.log_id, header.segment) != (self.found.log_id, number):
            raise self._damage(number, 0, "by its header it is another segment, or of another log")
        if header.first_seq != self.found.last_seq + 1:
            raise self._damage(number, 0, f"operation {self.found.last_seq + 1} was to follow, not {header.first_seq}")

    def _length(self, number: int, following: int | None) -> int:
        """Return where a segment ends. Raises DamagedLog when its file is shorter."""
        size = self.log.size(number)
        length = following if following is not None else size
        if self.end is not None and number == self.end.segment:
            length = self.end.offset
        if size < length:
            raise self._damage(number, size, f"the file ends here, {length - size} acknowledged bytes are gone")
        return length

    def _read_segment(self, number: int, start: int, end: int) -> None:
        for line in self.log.lines(number, start, end):
            data = self._check_line(number, line)
            with self._check_shape(number, line.offset):
                operation = decode_operation(data)
            if operation.seq != self.found.last_seq + 1 or line.offset + len(data) > end:
                raise self._damage(number, line.offset, f"operation {self.found.last_seq + 1} was to stand here")
            with self._check_shape(number, line.offset):
                self.found.note(operation, data)
                self.take(operation.account, operation.changes, operation.seq)

    def _check_line(self, number: int, line: Line) -> bytes:
        if not line.is_whole:
            raise self._damage(number, line.offset, "its checksum or its JSON is wrong")
        return line.data

    @contextmanager
    def _check_shape(self, number: int, offset: int) -> Iterator[None]:
        """Name a line whose checksum is right, and which no KnowHub of this format has written."""
        try:
            yield
        except SHAPE_ERRORS as problem:
            raise self._damage(number, offset, f"it is no line of this KnowHub's log ({problem!r})") from problem

    def _damage(self, number: int, offset: int, reason: str) -> DamagedLog:
        return DamagedLog(self.log.path(number), offset, reason)


@dataclass(frozen=True, slots=True)
class LogRows:
    """What a log told, and rows by collection and id, tombstones too, in the order of their creation, as JSON text."""

    told: LogSummary
    rows: Mapping[tuple[str, str], bytes]


def latest_rows(files: FileSystem, folder: Path, account: str | None, *, end: LogEnd | None = None) -> LogRows:
    """Read the rows of an account, of none if it is None, out of a change_log folder that is durable up to `end`.

    Raises DamagedLog for the first thing that is wrong, whosever it is, and OSError.
    """
    rows: dict[tuple[str, str], bytes] = {}

    def take(of: str, changes: Sequence[PartialChange], _seq: int) -> None:
        texts = {(change.collection, change.id): row_text(change) for change in changes}
        if of == account:
            rows.update(texts)

    return LogRows(read_log(files, folder, take, end=end), rows)
