"""The newest row under every key, read out of a log with every check: for a new base, and for what a snapshot held."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from knowhub.core.erasing import ERASING
from knowhub.core.errors import Unavailable
from knowhub.knowledge import model as knowledge
from knowhub.knowledge.heads import signature, tag_facets
from knowhub.stores.files.change_log import ChangeLog, Header, Line
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log_base import BASE, BaseHeader
from knowhub.stores.files.log_line import line_checksum
from knowhub.stores.files.sliced_line import SlicedChange, SlicedOperation, sliced_base_line, sliced_operation
from knowhub.stores.files.state import text_number

_OBJECT = ord("{")


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
class LogRows:
    """The rows of each account by collection and id, tombstones too, in the order of their creation, as JSON text.

    `numbers` holds the text number of each knowledge row, by account and id. `checksum` and `last_time` are those of
    operation `last_seq`, the last one that was read; `erases` is the number of the newest erasing.
    """

    log_id: str = ""
    generation: int = 1
    last_seq: int = 0
    checksum: str = ""
    last_time: float = 0.0
    erases: int = 0
    rows: dict[str, dict[tuple[str, str], bytes]] = field(default_factory=dict)
    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    _signatures: dict[tuple[str, str], int] = field(default_factory=dict)

    def begin_after(self, base: BaseHeader) -> None:
        """Take in the header of a base."""
        self.log_id, self.generation = base.log_id, base.generation
        self.last_seq, self.checksum = base.last_seq, base.checksum
        self.last_time, self.erases = base.last_time, base.erases

    def note(self, operation: SlicedOperation, line: bytes) -> None:
        """Take in that an operation is the newest one."""
        self.last_seq, self.checksum = operation.seq, line_checksum(line)
        self.last_time = max(self.last_time, operation.timestamp)
        if operation.op.startswith(ERASING):
            self.erases = self.last_seq

    def take_rows(self, account: str, changes: Sequence[SlicedChange], *, numbered: bool) -> None:
        """Take in the rows of a line, of an operation or of a base."""
        rows = self.rows.setdefault(account, {})
        for index, change in enumerate(changes):
            # A copy: what is pointed out keeps the whole line in memory. There are millions, so no call is made.
            text = bytes(change.after)
            if text[0] != _OBJECT:
                raise TypeError("a row is an object")
            collection = change.collection
            rows[collection, change.id] = text
            if numbered and collection == knowledge.COLLECTION:
                number = text_number(self.last_seq, index) if change.number is None else change.number
                self._take_number(account, change.id, orjson.loads(text), number)

    def _take_number(self, account: str, row_id: str, row: Mapping[str, Any], number: int) -> None:
        # As in memory: the number stays while the text is the same.
        text = signature(row, tag_facets(row["tags"]))
        if self._signatures.get((account, row_id)) != text:
            self._signatures[account, row_id] = text
            self.numbers.setdefault(account, {})[row_id] = number


def latest_rows(
    files: FileSystem, folder: Path, *, end: LogEnd | None = None, account: str | None = None, numbered: bool = True
) -> LogRows:
    """Read a change_log folder, from its newest base on, of which all up to `end` is durable; nothing is written.

    Without `end` that is all of it. `account` keeps the rows of one account only; without `numbered` no text numbers
    are made. Raises DamagedLog for the first thing that is wrong, and OSError.
    """
    log = ChangeLog(files, folder)
    try:
        return _Reading(log, end, account, numbered).run()
    finally:
        log.close()


@dataclass(slots=True)
class _Reading:
    log: ChangeLog
    end: LogEnd | None
    account: str | None
    numbered: bool
    found: LogRows = field(default_factory=LogRows)

    def run(self) -> LogRows:
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
        with self._shaped(number, 0):
            base, start = self.log.base_header(number)
        if base is None or base.segment != number ^ BASE:
            raise self._damage(number, 0, "the base is damaged: its header or its end")
        self.found.begin_after(base)
        told = -1
        for line in self.log.lines(number, start, self.log.size(number)):
            data = self._whole(number, line)
            with self._shaped(number, line.offset):
                read = sliced_base_line(data)
                if read.knowhub_base_end is not None:
                    told = -1 if read.rows is None else read.rows
                elif read.account is None or read.changes is None:
                    raise ValueError("neither rows nor the end of a base")
                else:
                    count += len(read.changes)
                    self._take_rows(read.account, read.changes)
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
        with self._shaped(number, 0):
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
            data = self._whole(number, line)
            with self._shaped(number, line.offset):
                operation = sliced_operation(data)
            if operation.seq != self.found.last_seq + 1 or line.offset + len(data) > end:
                raise self._damage(number, line.offset, f"operation {self.found.last_seq + 1} was to stand here")
            with self._shaped(number, line.offset):
                self.found.note(operation, data)
                self._take_rows(operation.account, operation.changes)

    def _take_rows(self, account: str, changes: Sequence[SlicedChange]) -> None:
        if self.account in (None, account):
            self.found.take_rows(account, changes, numbered=self.numbered)

    def _whole(self, number: int, line: Line) -> bytes:
        line = self.log.read_again(number, line)
        if not line.is_whole:
            raise self._damage(number, line.offset, "its checksum or its JSON is wrong")
        return line.data

    @contextmanager
    def _shaped(self, number: int, offset: int) -> Iterator[None]:
        """Name a line whose checksum is right, and which no KnowHub of this format has written."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise self._damage(number, offset, f"it is no line of this KnowHub's log ({problem!r})") from problem

    def _damage(self, number: int, offset: int, reason: str) -> DamagedLog:
        return DamagedLog(self.log.path(number), offset, reason)
