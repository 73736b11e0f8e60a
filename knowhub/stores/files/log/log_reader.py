"""Read a log from its base on, find its end and its damage. Torn bytes were never acknowledged; damaged bytes were.

Opening, the doctor, compaction and restores read it in this one way.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from knowhub.core.errors import Unavailable
from knowhub.core.operation import Group
from knowhub.engine.account import LoadedChange
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.lock import LockFile, Position
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_line import (
    BASE,
    BaseHeader,
    Header,
    decode_base_line,
    decode_operation,
    line_checksum,
    row_text,
)
from knowhub.stores.files.log.log_manifest import MANIFEST

SHAPE_ERRORS = (KeyError, TypeError, ValueError, AttributeError)
"""The errors of reading a line that another program wrote."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Acknowledged bytes that cannot be read: their position, and what is wrong."""

    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


def check_sequence(lines: Iterable[Line], next_seq: int, *, after_bad: bool) -> Iterator[Line]:
    """Mark lines with a wrong number as bad. The first should have the number `next_seq`.

    A gap in the numbers is accepted only after a bad line, or at the beginning with `after_bad`.
    """
    for line in lines:
        operation = line.operation
        seq = operation.seq if operation is not None else -1
        if seq == next_seq or (after_bad and seq > next_seq):
            after_bad, next_seq = False, seq + 1
            yield line
        else:
            after_bad = True
            yield Line(line.segment, line.offset, line.data, is_valid=False)


def find_durable_end(lines: Iterable[Line], end: int) -> int:
    """Return where the acknowledged lines of a segment end, by the log alone; `lines` come from `check_sequence`.

    A bad line before the last batch is damage. In the last batch, everything from its first bad line on is torn. A
    group of operations counts as a whole: without its last operation, all of it is torn.
    """
    # The offset of each line, and of its batch, and its group; None for a bad line. The lines would take much memory.
    marks: list[tuple[int, tuple[int, Group | None] | None]] = []
    for line in lines:
        read = line.operation
        marks.append((line.offset, None if read is None else (read.batch_offset, read.group)))
    last_batch_offset = next((good[0] for _, good in reversed(marks) if good is not None), 0)
    end = next((offset for offset, good in marks if good is None and offset >= last_batch_offset), end)
    last_group: Group | None = None
    for offset, good in reversed([mark for mark in marks if mark[0] < end]):
        group = good[1] if good is not None else None
        if group is None or group.index == group.of - 1 or group.id != (last_group or group).id:
            break
        last_group, end = group, offset
    return end


def describe_damage(line: Line) -> str:
    """Say what is wrong with a bad line."""
    if not line.data.strip(b"\0"):
        return "a run of NUL bytes"
    if not line.data.endswith(b"\n"):
        return "a line without an end"
    return "its checksum, its JSON or its sequence number is wrong"


def quarantine_bytes(files: FileSystem, folder: Path, name: str, data: bytes) -> Path:
    """Store bytes in a file of their own, durably; the same bytes go to the same file. Raises OSError."""
    files.make_folder(folder)
    path = folder / f"{name}-{zlib.crc32(data):08x}.bytes"
    if files.inode(path) is None:
        replace_file(files, path, data)
        files.sync_folder(folder.parent)
    return path


class LogSink(Protocol):
    """Receives what is read: the header and the lines of the base, then the lines of the segments.

    Raises one of SHAPE_ERRORS for a line that another program wrote.
    """

    def begin_after(self, base: BaseHeader) -> None: ...
    def load_rows(self, line: Line) -> None: ...
    def load_operation(self, line: Line) -> None: ...


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The files of a log and its end at one moment; `size` is the length of the last segment.

    `position` is the durable end, None if only the log itself can tell. `vanished` is that end where LOCK names a
    segment that is missing.
    """

    segments: Sequence[int]
    base: int | None
    size: int
    position: Position | None = None
    vanished: Position | None = None

    @classmethod
    def of(cls, log: ChangeLog, lock: LockFile | None = None) -> "LogBounds":
        """Look at the files on disk, and at LOCK if it is given. Raises ValueError for a file without a number."""
        base = log.base if log.base is not None and log.base_header(log.base)[0] is not None else None
        segments = log.segments()
        size = log.size(segments[-1]) if segments else 0
        published = lock.read() if lock is not None else None
        if lock is None or published is None:
            return cls(segments, base, size)
        position = published[1]
        if position.segment not in segments:
            # There is no segment whose inode could be compared, so only the inode of LOCK and the boot count.
            return cls(segments, base, size, vanished=position if lock.is_trusted(None) else None)
        return cls(segments, base, size, position if lock.is_trusted(log.inode(position.segment)) else None)

    @classmethod
    def until(cls, log: ChangeLog, end: tuple[int, int] | None) -> "LogBounds":
        """Return the bounds of a log that is durable up to a segment and an offset, or up to the end of its files."""
        found = cls.of(log)
        last, offset = end or (max(found.segments, default=1), found.size)
        segments = [number for number in found.segments if number <= last]
        size = log.size(last) if last in segments else 0
        return cls(segments, found.base, size, Position(0, last, offset))

    def durable(self, log: ChangeLog, segment: int, header_length: int) -> int | None:
        """Return where the acknowledged bytes of a segment end; None if only the log itself can tell."""
        if segment != self.segments[-1]:
            following, _ = log.header(self.segments[self.segments.index(segment) + 1])
            return following.previous_length if following else None
        if self.position is None:
            return None
        # If the process that started this segment died before it published, it contains only its header.
        return self.position.offset if self.position.segment == segment else header_length

    @property
    def missing(self) -> list[int]:
        """The numbers of the segments that are missing between the base, or the beginning, and the last segment."""
        first = 1 if self.base is None else self.base ^ BASE
        last = max([first, *self.segments, self.position.segment if self.position else 0])
        return sorted(set(range(first, last + 1)) - set(self.segments))


class LogReader:
    """Passes the good lines of a log to a sink, and reports all others. It reads on after damage.

    `ends` says where the lines of each segment end that count, `offset` where the last good line ends. `log_id`,
    `generation` and `last_seq` are those that the log had at that line.
    """

    def __init__(self, log: ChangeLog, sink: LogSink, last_seq: int = 0) -> None:
        self._log = log
        self._sink = sink
        self.damage: list[Damage] = []
        self.log_id = ""
        self.generation = 1
        self.last_seq = last_seq
        self.ends: dict[int, int] = {}
        self.offset = 0

    def read(self, bounds: LogBounds) -> None:
        """Read the base and all segments. Raises OSError."""
        if self._log.manifest_problem is not None:
            self.report(self._log.folder / MANIFEST, 0, self._log.manifest_problem)
        self._read_base(bounds.base)
        self._find_missing(bounds)
        for number in bounds.segments:
            header, start = self._log.header(number)
            self._check_header(number, header)
            size = bounds.size if number == bounds.segments[-1] else self._log.size(number)
            self.ends[number] = self.read_lines(number, start, size, bounds.durable(self._log, number, start))

    def read_lines(self, number: int, start: int, size: int, durable: int | None) -> int:
        """Read the lines of a segment from `start`; return where those end that count. Raises OSError.

        All up to `durable` was acknowledged. If it is None, the log itself tells where that ends.
        """
        path, end = self._log.path(number), size if durable is None else durable
        next_seq, is_damaged = self.last_seq + 1, bool(self.damage)

        def read() -> Iterator[Line]:
            return check_sequence(self._log.lines(number, start, min(size, end)), next_seq, after_bad=is_damaged)

        if durable is None:
            end = find_durable_end(read(), size)
        for line in read():
            if line.is_valid:
                self._load(path, line, self._sink.load_operation)
                self.offset = line.offset + len(line.data)
                self.last_seq = (line.operation or decode_operation(line.data)).seq
            else:
                self.report(path, line.offset, describe_damage(line))
        if size < end:
            self.report(path, size, f"the file ends here, {end - size} acknowledged bytes are gone")
        return end

    def _load(self, path: Path, line: Line, load: Callable[[Line], object]) -> bool:
        """Load a line; report it if its checksum is right but another program wrote it."""
        try:
            load(line)
        except SHAPE_ERRORS as problem:
            self.report(path, line.offset, f"it is no line of this KnowHub's log ({problem!r})")
            return False
        return True

    def report(self, path: Path, offset: int, reason: str) -> None:
        """Name damage."""
        self.damage.append(Damage(str(path), offset, reason))

    def _read_base(self, number: int | None) -> None:
        log = self._log
        if number is None and log.base is not None:
            self.report(log.path(log.base), 0, "the base is damaged: its header or its end")
        header, start = log.base_header(number) if number is not None else (None, 0)
        if number is None or header is None:
            return
        self.log_id, self.generation, self.last_seq = header.log_id, header.generation, header.last_seq
        self._sink.begin_after(header)
        path, known, rows, expected = log.path(number), len(self.damage), 0, 0
        for line in log.lines(number, start, log.size(number)):
            read = line.base_line
            if read is None:
                self.report(path, line.offset, "its checksum or its JSON is wrong")
            elif read.knowhub_base_end is not None:
                expected = read.rows or 0
            elif read.account is None or read.changes is None:
                self.report(
                    path, line.offset, "it is no line of this KnowHub's log: neither rows nor the end of a base"
                )
            elif self._load(path, line, self._sink.load_rows):
                rows += len(read.changes)
        if rows != expected and len(self.damage) == known:
            self.report(path, 0, f"holds {rows} rows, and by its end it held {expected}")

    def _find_missing(self, bounds: LogBounds) -> None:
        behind = "later segments are there" if bounds.segments else "the log goes on with it behind its base"
        paths = [self._log.path(number) for number in bounds.missing]
        for path in self._log.missing():
            if path not in paths:
                self.report(path, 0, "the manifest names it, and it is missing")
        for path in paths:
            self.report(path, 0, f"is missing; {behind}")

    def _check_header(self, number: int, header: Header | None) -> None:
        path = self._log.path(number)
        if header is None:
            self.report(path, 0, "the segment's header is damaged")
            return
        if header.segment != number:
            self.report(path, 0, f"by its header this is segment {header.segment}")
        if header.log_id != (self.log_id or header.log_id):
            self.report(path, 0, "by its header it is of another log than the segment before it")
        elif header.first_seq != self.last_seq + 1 and not self.damage:
            self.report(path, 0, f"it begins with operation {header.first_seq}, and {self.last_seq + 1} was to follow")
        self.log_id, self.generation = self.log_id or header.log_id, max(self.generation, header.generation)


class DamagedLog(Unavailable):
    """A log that does not read back: `path` is the file, `offset` where its first bad line begins."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path} at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


OnRows: TypeAlias = Callable[[str, Sequence[LoadedChange], int], None]
"""Receives the rows of a line: the account, the rows, and the operation's number; of a base, that of its newest one."""


class StrictLogReader(LogReader):
    """Reads a log that must not be damaged: raises DamagedLog for the first damage."""

    def __init__(self, log: ChangeLog, on_rows: OnRows) -> None:
        super().__init__(log, self)
        self._on_rows = on_rows
        self._base_checksum = ""
        self._last_line = b""

    @property
    def checksum(self) -> str:
        """The checksum of the last operation's line."""
        return line_checksum(self._last_line) or self._base_checksum

    def report(self, path: Path, offset: int, reason: str) -> None:
        """Raise DamagedLog."""
        raise DamagedLog(path, offset, reason)

    def begin_after(self, base: BaseHeader) -> None:
        """See `LogSink`."""
        self._base_checksum = base.checksum

    def load_rows(self, line: Line) -> None:
        """See `LogSink`."""
        read = line.base_line or decode_base_line(line.data)
        self._on_rows(read.account or "", read.changes or (), self.last_seq)

    def load_operation(self, line: Line) -> None:
        """See `LogSink`."""
        operation = line.operation or decode_operation(line.data)
        self._on_rows(operation.account, operation.changes, operation.seq)
        self._last_line = line.data


def read_log(
    files: FileSystem, folder: Path, on_rows: OnRows, *, end: tuple[int, int] | None = None
) -> StrictLogReader:
    """Pass the rows of a change_log folder, from its base on, to `on_rows`, line by line; nothing is written.

    All up to `end`, a segment and an offset, is durable; without it that is all of the log. Raises DamagedLog for the
    first thing that is wrong, and OSError.
    """
    with closing(ChangeLog(files, folder)) as log:
        read = StrictLogReader(log, on_rows)
        read.read(LogBounds.until(log, end))
    return read


def read_latest_rows(
    files: FileSystem, folder: Path, account: str | None, *, end: tuple[int, int] | None = None
) -> tuple[StrictLogReader, Mapping[tuple[str, str], bytes]]:
    """Read the rows of an account, of none if it is None, out of a change_log folder that is durable up to `end`.

    The rows are JSON text by collection and id, tombstones too, in the order of their creation.

    Raises DamagedLog for the first damage, of any account, and OSError.
    """
    rows: dict[tuple[str, str], bytes] = {}

    def on_rows(of: str, changes: Sequence[LoadedChange], _seq: int) -> None:
        texts = {(change.collection, change.id): row_text(change) for change in changes}
        if of == account:
            rows.update(texts)

    return read_log(files, folder, on_rows, end=end), rows
