"""`doctor --repair` on the log: write every file again from its good lines, and publish all of them together.

Good lines come in the order of their numbers, and a line that says so takes the place of each lost operation. Removed
bytes are in quarantine before the new files are published. So a repair that dies changes nothing, and the next repair
does the same again.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from knowhub.core.ids import Ids, operation_id
from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.findings import Finding, Severity, format_names, format_ranges, format_size
from knowhub.stores.files.doctor.log_contents import LOST_OPERATION
from knowhub.stores.files.filesystem import FileSystem, write_all
from knowhub.stores.files.lock import LOCK_BYTES, clear_segment
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import BASE, BaseHeader, Header, encode, end_line, header_line
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

_LOG_ID_DIGITS: Final = 32
_ACTOR: Final = "agent:doctor"
_ROW_ID: Final = re.compile(rb'"collection":"([a-z_]+)","id":"([^"\\]{1,512})"')


def repair_log(files: FileSystem, directory: DataDirectory, end: LogBounds, ids: Ids) -> list[Finding]:
    """Repair a damaged log; return what was done.

    The caller holds the leader lock and LOCK. Raises OSError; then the repair can be started again.
    """
    if end.vanished is not None:
        clear_segment(files, directory.lock)
    with closing(ChangeLog(files, directory.change_log)) as log:
        repair = _LogRepair(files, directory, log, end, ids)
        done = repair.run()
        log.reload()
        remove_unused_files(files, log)
    # LOCK may name a file that was replaced. Without it the end of the log is found in the log, which is good now.
    descriptor = files.open(directory.lock, os.O_RDWR | os.O_CREAT)
    try:
        write_all(files, descriptor, bytes(LOCK_BYTES), 0)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    return done


@dataclass(slots=True)
class _ScannedSegment:
    """What a segment holds: the offset and the time of its good lines by their numbers, and the ranges of other bytes.

    The acknowledged bytes end at `end`; None if nobody can tell. `size` is 0 for a segment that is missing.
    """

    number: int
    header: Header | None = None
    size: int = 0
    end: int | None = None
    lines: dict[int, tuple[int, float]] = field(default_factory=dict)
    bad: list[tuple[int, int]] = field(default_factory=list)
    good_end: int = 0

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
        last_seq = self._last_seq
        done += [*findings, *(finding for segment in segments for finding in self._quarantine(segment))]
        last = max([last_seq, *(seq for segment in segments for seq in segment.lines)])
        known = {seq for segment in segments for seq in segment.lines}
        lost = [seq for seq in range(last_seq + 1, last + self._estimate_lost(segments) + 1) if seq not in known]
        names = self._write_segments(segments, last_seq, lost)
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
        segment = _ScannedSegment(number, end=self._find_end(number))
        if number not in self._headers:
            return segment
        segment.size = self._log.size(number)
        header, start = self._headers[number], self._log.header(number)[1]
        if header is not None and header.log_id != self._log_id:
            # The numbers in lines of another log may fit by chance: none of them counts.
            segment.bad.append((0, segment.size))
            return segment
        if header is not None:
            segment.header, segment.good_end = header, start
        elif start:
            _extend(segment.bad, 0, start)
        for line in self._log.lines(number, start, segment.size):
            end = line.offset + len(line.data)
            operation = line.full_operation
            # If somebody inserted bytes, good lines are behind the end now.
            is_torn = segment.end is not None and line.offset >= segment.end and not segment.bad
            if operation is not None and not is_torn and self._is_expected(operation.seq, segment, limit):
                segment.lines[operation.seq], segment.good_end = (line.offset, operation.timestamp), end
            else:
                _extend(segment.bad, line.offset, end)
        return segment

    def _is_expected(self, seq: int, segment: _ScannedSegment, limit: int | None) -> bool:
        first = segment.header.first_seq if segment.header is not None else self._last_seq + 1
        return first <= seq and (limit is None or seq < limit) and seq not in segment.lines

    def _find_end(self, number: int) -> int | None:
        """Return where the acknowledged bytes of a segment end, by the next segment or by LOCK."""
        following = self._headers.get(number + 1)
        if following is not None and following.log_id == self._log_id:
            return following.previous_length
        position = self._bounds.position or self._bounds.vanished
        return position.offset if position is not None and position.segment == number else None

    def _estimate_lost(self, segments: Sequence[_ScannedSegment]) -> int:
        """Return how many operations may be lost behind the last good line, so that no number is given twice."""
        count, shortest = 0, len(_lost_line(1))
        for segment in reversed(segments):
            end = segment.end or 0
            missing = max(0, end - segment.size)
            behind = [(start, stop) for start, stop in segment.bad if max(segment.good_end, 1) <= start < end]
            found = sum(_count_lines(self._log.read(segment.number, *place), shortest) for place in behind)
            count += max(found, 1 if missing else 0) + missing // shortest
            if segment.lines:
                break
        return count

    def _write_segments(
        self, segments: Sequence[_ScannedSegment], last_seq: int, lost: Sequence[int]
    ) -> list[LogFileName]:
        """Write each segment, and an empty one at the end: what its lines say of their batches need not be right."""
        names: list[LogFileName] = []
        size, time = None, 0.0
        due = iter(lost)
        next_lost = next(due, None)

        def rewrite(segment: _ScannedSegment, *, is_last: bool) -> Iterator[bytes]:
            nonlocal last_seq, next_lost, time
            generation = self._generation if segment.header is None else segment.header.generation
            yield header_line(Header(self._log_id, segment.number, generation, last_seq + 1, size))
            for seq in [*sorted(segment.lines), *([None] if is_last else [])]:
                while next_lost is not None and (seq is None or next_lost < seq):
                    yield _lost_line(next_lost, time)
                    last_seq, next_lost = next_lost, next(due, None)
                if seq is not None:
                    offset, time = segment.lines[seq]
                    yield self._log.line_at(segment.number, offset)
                    last_seq = seq

        for segment in [*segments, _ScannedSegment(segments[-1].number + 1)]:
            name = LogFileName(SEGMENT_PREFIX, segment.number, self._generation)
            is_last = segment.number == segments[-1].number
            size = write_version(self._files, self._log, name, rewrite(segment, is_last=is_last))
            names.append(name)
        return names

    def _write_base(self, segments: Sequence[_ScannedSegment]) -> tuple[LogFileName | None, list[Finding]]:
        """Write a damaged base again from its good lines; return the name of the base to use, if there is one."""
        number = self._base
        if number is None:
            return None, []
        lines, expected, rows = list[int](), None, 0
        bad: list[tuple[int, int]] = []
        start = self._log.base_header(number)[1] if self._base_header is not None else 0
        for line in self._log.lines(number, start, self._log.size(number)):
            part = line.base_line if line.record is not None else None
            if part is None:
                _extend(bad, line.offset, line.offset + len(line.data))
            elif part.changes is not None:
                lines.append(line.offset)
                rows += len(part.changes)
            elif part.knowhub_base_end is not None:
                expected = part.rows
        if self._base_header is not None and not bad and rows == expected:
            return self._log.name(number), []
        done = [self._quarantine_range(number, *place, "damaged") for place in bad]
        if self._base_header is None:
            following = next((seq for segment in segments if (seq := segment.first_seq) is not None), 1)
            self._base_header = BaseHeader(
                self._log_id, number ^ BASE, self._generation, following - 1, "", 0.0, following - 1
            )
        name = LogFileName(BASE_PREFIX, number ^ BASE, self._generation)
        texts = (self._log.line_at(number, offset) for offset in lines)
        write_version(self._files, self._log, name, [header_line(self._base_header), *texts, end_line(rows)])
        kept = f"{rows} rows of it are kept; by its end it held {expected or 'an unknown number'}"
        return name, [*done, _note(self._log.path(number), kept)]

    def _quarantine(self, segment: _ScannedSegment) -> Iterator[Finding]:
        if segment.end is not None and segment.size < segment.end:
            gone = format_size(segment.end - segment.size)
            yield _note(self._log.path(segment.number), f"offset {segment.size}: {gone} are gone")
        for start, end in segment.bad:
            is_torn = start >= segment.good_end and start >= (segment.good_end if segment.end is None else segment.end)
            yield self._quarantine_range(segment.number, start, end, "torn" if is_torn and start else "damaged")

    def _quarantine_range(self, number: int, start: int, end: int, kind: str) -> Finding:
        path, data = self._log.path(number), self._log.read(number, start, end)
        kept = quarantine_bytes(self._files, self._directory.quarantine, f"{path.stem}-at-{start}-{kind}", data)
        what = "were damaged and" if kind == "damaged" else "that were never acknowledged"
        detail = f"offset {start}: {format_size(len(data))} {what} lie in quarantine/{kept.name}"
        if rows := _find_row_ids(data):
            detail += f"; they told of {format_names(rows)}"
        return _note(path, detail)


class _ZeroIds:
    """Makes the ids of lost operations: nobody knows their real ids."""

    def hex(self, digits: int) -> str:
        return "0" * digits


def _lost_line(seq: int, time: float = 0.0) -> bytes:
    """Return the line that replaces a lost operation. It changes no row."""
    return encode(Operation(seq, operation_id(seq, _ZeroIds()), LOST_OPERATION, "default", _ACTOR, time, []), [], 0)


def _count_lines(data: bytes, shortest: int) -> int:
    """Return how many operations damaged bytes may have held at most."""
    parts = [part for part in data.split(b"\n") if part]
    # A run of NUL bytes may have replaced line ends.
    return sum(max(1, len(part) // shortest if b"\0" in part else part.count(b'{"seq":')) for part in parts)


def _find_row_ids(data: bytes) -> list[str]:
    """Return the rows that damaged bytes still name."""
    found = _ROW_ID.finditer(data)
    return list(dict.fromkeys(f"{match[1].decode()} {match[2].decode(errors='replace')}" for match in found))


def _extend(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range, as a part of the one before it if that ends here. The range of a header stays alone."""
    if ranges and ranges[-1][1] == start and ranges[-1][0]:
        ranges[-1] = ranges[-1][0], end
    else:
        ranges.append((start, end))


def _note(path: Path, detail: str) -> Finding:
    return Finding(Severity.NOTE, str(path), detail)
