"""`knowhub doctor --repair`: repair the log, remove wrong derived files, and keep what is removed in the quarantine.

All files of a damaged log are written again from their good lines, and published together. Lines come in the order of
their numbers, and a line that says so replaces each lost operation. All other lines are in quarantine before
the new files are published. So a repair that dies changes nothing, and the next repair does the same again.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from knowhub.core.collection import Collections
from knowhub.core.errors import Conflict, Unavailable
from knowhub.core.ids import Ids, operation_id
from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory, check_format, check_log
from knowhub.stores.files.doctor.findings import Finding, Severity, format_names, format_ranges, format_size
from knowhub.stores.files.doctor.log_contents import LOST_OPERATION, LogContents, ProjectionsOf, check_projections
from knowhub.stores.files.filesystem import FileSystem, remove_partial_files
from knowhub.stores.files.lock import LockFile, is_free, try_flock
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import BASE, BaseHeader, Header, encode_operation, end_line, header_line
from knowhub.stores.files.log.log_manifest import (
    BASE_PREFIX,
    MANIFEST,
    SEGMENT_PREFIX,
    LogFileName,
    LogFiles,
    LogManifest,
    publish_manifest,
)
from knowhub.stores.files.log.log_reader import LogBounds, quarantine_bytes
from knowhub.stores.files.log.rewrite import remove_unused_files, write_version

_IN_USE = "{} is open in a running KnowHub; stop every server and command on this directory, then repair"


def repair(
    files: FileSystem, directory: DataDirectory, ids: Ids, collections: Collections, projections: ProjectionsOf
) -> list[Finding]:
    """Repair a directory that nobody has open; return what was done.

    Doing it again does no more. Raises Conflict while another process has the directory open, Unavailable for another
    format or a log that is gone, and OSError; an interrupted repair is finished by the next one.
    """
    check_format(files, directory)
    check_log(files, directory)
    if not files.names(directory.change_log):
        return []
    with _lock_directory(files, directory) as lock:
        done: list[Finding] = []
        try:
            with _read_log(files, directory, lock, collections) as (end, read):
                is_damaged = read.is_damaged or end.vanished is not None
        except ValueError:
            raise Unavailable("change_log/ holds a file whose name is no number; move it out of there") from None
        if is_damaged:
            done += [*_move_records(files, directory), *_repair_log(files, directory, lock, end, ids)]
        for folder in (directory.change_log, directory.snapshots):
            for name in remove_partial_files(files, folder):
                done.append(_note(folder / name, "was left over from a write that was broken off; removed"))
        done += _discard_wrong_files(files, directory, lock, collections, projections)
    return done


@contextmanager
def _lock_directory(files: FileSystem, directory: DataDirectory) -> Iterator[LockFile]:
    """Hold KEEPER and LOCK while no process has a segment open. Raises Conflict if one has.

    A process that opens the directory waits for LOCK first.
    """
    segments = [
        directory.change_log / name for name in files.names(directory.change_log) if name.startswith("segment-")
    ]
    with ExitStack() as stack:
        leader = files.open(directory.leader_lock, os.O_RDWR | os.O_CREAT)
        stack.callback(files.close, leader)
        lock = LockFile(files, directory.lock)
        stack.callback(lock.close)
        if not (try_flock(leader) and lock.try_acquire() and all(is_free(files, path) for path in segments)):
            raise Conflict(_IN_USE.format(directory.root))
        yield lock


@contextmanager
def _read_log(
    files: FileSystem, directory: DataDirectory, lock: LockFile, collections: Collections
) -> Iterator[tuple[LogBounds, LogContents]]:
    with closing(ChangeLog(files, directory.change_log)) as log:
        bounds, read = LogBounds.of(log, lock), LogContents(log, collections)
        read.read(bounds)
        yield bounds, read


def _move_records(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    """Move the record files of a damaged log to the quarantine: they may contain rows that are lost."""
    for path in sorted(directory.records.rglob("*.jsonl")):
        files.make_folder(directory.quarantine)
        name = str(path.relative_to(directory.records)).replace("/", "%2F")
        number = 1
        while files.inode(directory.quarantine / f"records-{number}-{name}") is not None:
            number += 1
        files.rename(path, directory.quarantine / f"records-{number}-{name}")
        files.sync_folder(directory.quarantine)
        detail = f"may tell of what is lost: it lies in quarantine/records-{number}-{name}, and is written anew"
        yield _note(path, detail)


def _discard_wrong_files(
    files: FileSystem,
    directory: DataDirectory,
    lock: LockFile,
    collections: Collections,
    projections: ProjectionsOf,
) -> Iterator[Finding]:
    """Remove derived files that differ from the log. The next leader builds them again."""
    with _read_log(files, directory, lock, collections) as (_, read):
        for projection, finding, is_right in check_projections(projections(read), read):
            if not is_right:
                projection.discard()
                detail = f"{finding.detail.partition(';')[0]}: removed, and the next leader builds it again"
                yield Finding(Severity.NOTE, finding.subject, detail)


_LOG_ID_DIGITS: Final = 32
_ACTOR: Final = "agent:doctor"
_ROW_ID: Final = re.compile(rb'"collection":"([a-z_]+)","id":"([^"\\]{1,512})"')


def _repair_log(files: FileSystem, directory: DataDirectory, lock: LockFile, end: LogBounds, ids: Ids) -> list[Finding]:
    """Repair a damaged log; return what was done.

    The caller holds the leader lock and LOCK. Raises OSError; then the repair can be started again.
    """
    if end.vanished is not None:
        lock.forget_segment()
    with closing(ChangeLog(files, directory.change_log)) as log:
        repair = _LogRepair(files, directory, log, end, ids)
        done = repair.run()
        log.reload()
        remove_unused_files(files, log)
    # It may name a file that was replaced.
    lock.clear()
    return done


@dataclass(slots=True)
class _ScannedSegment:
    """What a segment holds: the offset and the time of its good lines by their numbers, and its other lines.

    `header` is None if it is damaged, or missing with its segment. `lost` is how many operations may have been after
    the last good line.
    """

    number: int
    header: Header | None = None
    lines: dict[int, tuple[int, float]] = field(default_factory=dict)
    bad: list[bytes] = field(default_factory=list)
    lost: int = 0

    @property
    def first_seq(self) -> int | None:
        """The number of the first operation; None if neither the header nor a line tells."""
        return self.header.first_seq if self.header is not None else min(self.lines, default=None)


class _LogRepair:
    """The steps of one repair. Old files are read until the end; nothing uses the new ones before the manifest."""

    def __init__(
        self, files: FileSystem, directory: DataDirectory, log: ChangeLog, bounds: LogBounds, ids: Ids
    ) -> None:
        self._files = files
        self._directory = directory
        self._log = log
        self._bounds = bounds
        self._base = log.base
        self._base_header = None if self._base is None else log.base_header(self._base)[0]
        headers = {number: log.header(number)[0] for number in log.segments()}
        known = [header for header in (self._base_header, *headers.values()) if header is not None]
        self._log_id = known[0].log_id if known else ids.hex(_LOG_ID_DIGITS)
        self._headers = headers
        self._generation = max([log.newest_generation, *(header.generation for header in known)]) + 1

    def run(self) -> list[Finding]:
        """Write all files again and publish them; return what was done."""
        problem = self._log.manifest_problem
        done = [_note(self._log.folder / MANIFEST, f"{problem}; it was written anew")] if problem is not None else []
        segments = self._scan_segments()
        gone = [self._log.path(segment.number) for segment in segments if segment.number not in self._headers]
        done += [_note(path, "was missing") for path in dict.fromkeys([*self._log.missing(), *gone])]
        base, findings = self._write_base(segments)
        done += [
            *findings,
            *(finding for segment in segments for finding in self._quarantine_lines(segment.number, segment.bad)),
        ]
        known = {seq for segment in segments for seq in segment.lines}
        last = max([self._last_seq, *known])
        for segment in reversed(segments):
            # So no number is given twice.
            last += segment.lost
            if segment.lines:
                break
        lost = [seq for seq in range(self._last_seq + 1, last + 1) if seq not in known]
        names = self._write_segments(segments, last)
        publish_manifest(self._files, self._log.folder, LogManifest(self._generation, LogFiles(base, names)))
        what = f"operations {format_ranges(lost)} are lost" if lost else "no operation is lost"
        return [*done, _note(self._log.folder, f"written again from its good lines; {what}")]

    @property
    def _last_seq(self) -> int:
        """The number of the last operation in the base."""
        return 0 if self._base_header is None else self._base_header.last_seq

    def _scan_segments(self) -> list[_ScannedSegment]:
        """Find the good lines of every segment from the first to the last that there was."""
        first = 1 if self._base is None else self._base ^ BASE
        named = [name.number for name in self._log.list_segments()]
        vanished = self._bounds.vanished
        last = max([first, *self._headers, *named, vanished.segment if vanished is not None else 0])
        segments: list[_ScannedSegment] = []
        limit: int | None = None
        for number in range(last, first - 1, -1):
            segment = self._scan(number, limit)
            limit = segment.first_seq or limit
            segments.append(segment)
        return segments[::-1]

    def _scan(self, number: int, limit: int | None) -> _ScannedSegment:
        """Find the good lines of a segment; the next one begins with the operation `limit`."""
        segment, end, size = _ScannedSegment(number), self._find_end(number), 0
        if number in self._headers:
            size, header = self._log.size(number), self._headers[number]
            # The numbers in lines of another log may fit by chance: none of them counts.
            is_ours = header is None or header.log_id == self._log_id
            segment.header = header if is_ours else None
            start = self._log.header(number)[1] if segment.header is not None else 0
            first = self._last_seq + 1 if segment.header is None else segment.header.first_seq
            for line in self._log.lines(number, start, size):
                operation = line.full_operation if is_ours else None
                # If somebody inserted bytes, good lines may be after the end now.
                is_torn = end is not None and line.offset >= end and not segment.bad
                seq = -1 if operation is None or is_torn else operation.seq
                is_expected = first <= seq and (limit is None or seq < limit) and seq not in segment.lines
                if operation is not None and is_expected:
                    segment.lines[seq], segment.lost = (line.offset, operation.timestamp), 0
                    continue
                segment.bad.append(line.data)
                if end is not None and 0 < line.offset < end:
                    segment.lost += _count_operations(line.data)
        missing = max(0, (end or 0) - size)
        segment.lost = max(segment.lost, 1 if missing else 0) + missing // len(_make_lost_line(1))
        return segment

    def _find_end(self, number: int) -> int | None:
        """Return where the acknowledged bytes of a segment end, by the next segment or by LOCK."""
        following = self._headers.get(number + 1)
        if following is not None and following.log_id == self._log_id:
            return following.previous_length
        position = self._bounds.position or self._bounds.vanished
        return position.offset if position is not None and position.segment == number else None

    def _write_segments(self, segments: Sequence[_ScannedSegment], last: int) -> list[LogFileName]:
        """Write each segment, and an empty one at the end: what its lines say of their batches need not be right."""
        names: list[LogFileName] = []
        size, time, next_seq = None, 0.0, self._last_seq + 1

        def rewrite(segment: _ScannedSegment, stop: int) -> Iterator[bytes]:
            nonlocal next_seq, time
            generation = self._generation if segment.header is None else segment.header.generation
            yield header_line(Header(self._log_id, segment.number, generation, next_seq, size))
            for seq in range(next_seq, stop):
                if seq in segment.lines:
                    offset, time = segment.lines[seq]
                    yield self._log.line_at(segment.number, offset)
                else:
                    yield _make_lost_line(seq, time)
            next_seq = max(next_seq, stop)

        for segment in [*segments, _ScannedSegment(segments[-1].number + 1)]:
            name = LogFileName(SEGMENT_PREFIX, segment.number, self._generation)
            stop = last if segment.number == segments[-1].number else max(segment.lines, default=0)
            size = write_version(self._files, self._log, name, rewrite(segment, stop + 1))
            names.append(name)
        return names

    def _write_base(self, segments: Sequence[_ScannedSegment]) -> tuple[LogFileName | None, list[Finding]]:
        """Write a damaged base again from its good lines; return the name of the base to use, if there is one."""
        number = self._base
        if number is None:
            return None, []
        good, bad = list[int](), list[bytes]()
        expected, rows = None, 0
        start = self._log.base_header(number)[1] if self._base_header is not None else 0
        for line in self._log.lines(number, start, self._log.size(number)):
            part = line.base_line
            if part is not None and part.changes is not None:
                good.append(line.offset)
                rows += len(part.changes)
            elif part is not None and part.knowhub_base_end is not None:
                expected = part.rows
            elif part is None or line.offset:
                # A header that is good is written again.
                bad.append(line.data)
        if self._base_header is not None and not bad and rows == expected:
            return self._log.name(number), []
        done = self._quarantine_lines(number, bad)
        if self._base_header is None:
            following = next((seq for segment in segments if (seq := segment.first_seq) is not None), 1)
            self._base_header = BaseHeader(
                self._log_id, number ^ BASE, self._generation, following - 1, "", 0.0, following - 1
            )
        name = LogFileName(BASE_PREFIX, number ^ BASE, self._generation)
        texts = (self._log.line_at(number, offset) for offset in good)
        write_version(self._files, self._log, name, [header_line(self._base_header), *texts, end_line(rows)])
        kept = f"{rows} rows of it are kept; by its end it held {expected or 'an unknown number'}"
        return name, [*done, _note(self._log.path(number), kept)]

    def _quarantine_lines(self, number: int, bad: Sequence[bytes]) -> list[Finding]:
        """Store lines of a file in the quarantine."""
        path, data = self._log.path(number), b"".join(bad)
        if not bad:
            return []
        kept = quarantine_bytes(self._files, self._directory.quarantine, f"{path.stem}-damaged", data)
        detail = f"{format_size(len(data))} that are no good lines lie in quarantine/{kept.name}"
        if rows := list(dict.fromkeys(_ROW_ID.findall(data))):
            names = [f"{name.decode()} {row_id.decode(errors='replace')}" for name, row_id in rows]
            detail += f"; they told of {format_names(names)}"
        return [_note(path, detail)]


class _ZeroIds:
    """Makes the ids of lost operations: nobody knows their real ids."""

    def hex(self, digits: int) -> str:
        return "0" * digits


def _make_lost_line(seq: int, time: float = 0.0) -> bytes:
    """Return the line that replaces a lost operation. It changes no row."""
    return encode_operation(
        Operation(seq, operation_id(seq, _ZeroIds()), LOST_OPERATION, "default", _ACTOR, time, []), [], 0
    )


def _count_operations(line: bytes) -> int:
    """Return how many operations a damaged line may have held: a run of NUL bytes may have replaced line ends."""
    return max(1, len(line) // len(_make_lost_line(1)) if b"\0" in line else line.count(b'{"seq":'))


def _note(path: Path, detail: str) -> Finding:
    return Finding(Severity.NOTE, str(path), detail)
