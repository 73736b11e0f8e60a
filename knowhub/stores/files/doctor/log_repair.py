"""`doctor --repair` on the log: write damaged files again from their good lines, and publish all of them together.

Removed bytes are in quarantine before the new files are published. So a repair that dies changes nothing, and the next
repair does the same again. About a megabyte of a segment is in memory at once.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.findings import Finding, Severity, format_names, format_ranges, format_size
from knowhub.stores.files.doctor.segment_repair import (
    Entry,
    Gap,
    Run,
    SegmentParts,
    estimate_lost,
    find_pieces,
    find_row_ids,
    lost_line,
    pad_line,
)
from knowhub.stores.files.filesystem import FileSystem, replace_file, write_all
from knowhub.stores.files.lock import LOCK_BYTES, clear_segment
from knowhub.stores.files.log.change_log import ChangeLog, Header, Line, header_text
from knowhub.stores.files.log.log_line import BASE, BaseHeader, end_line, header_line
from knowhub.stores.files.log.log_manifest import (
    BASE_PREFIX,
    MANIFEST,
    LogFileName,
    LogFiles,
    LogManifest,
    newest_files,
    plain_name,
    publish_manifest,
)
from knowhub.stores.files.log.log_reader import LogBounds
from knowhub.stores.files.log.partial_line import PartialBaseLine
from knowhub.stores.files.log.recovery import check_segment
from knowhub.stores.files.log.rewrite import remove_unused_files, write_version

_LOG_ID_DIGITS: Final = 32


def repair_log(files: FileSystem, directory: DataDirectory, end: LogBounds, ids: Ids) -> list[Finding]:
    """Repair what is damaged; return what was done, which is nothing for a log without damage.

    The caller holds the leader lock and LOCK. Raises OSError; then the repair can be started again.
    """
    if end.vanished is not None:
        clear_segment(files, directory.lock)
    log = ChangeLog(files, directory.change_log)
    try:
        repair = _LogRepair(files, directory, log, ids)
        done = [*repair.check_manifest(), *repair.repair_base(), *repair.add_base(), *repair.repair_segments(end)]
        if done:
            publish_manifest(files, log.folder, LogManifest(repair.generation, log.active.files()))
            log.reload()
            remove_unused_files(files, log)
    finally:
        log.close()
    if done:
        # LOCK may name a file that was replaced. Without it the end of the log is found in the log, which is good now.
        descriptor = files.open(directory.lock, os.O_RDWR | os.O_CREAT)
        try:
            write_all(files, descriptor, bytes(LOCK_BYTES), 0)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
    return done


def quarantine_bytes(files: FileSystem, folder: Path, name: str, data: bytes) -> Path | None:
    """Store bytes in a file of their own, durably; the same bytes go to the same file. Raises OSError."""
    if not data:
        return None
    files.make_folder(folder)
    path = folder / f"{name}-{zlib.crc32(data):08x}.bytes"
    if files.inode(path) is None:
        replace_file(files, path, data)
        files.sync_folder(folder.parent)
    return path


class _LogRepair:
    """The steps of one repair. New files are used by `log` as soon as they are written, and published at the end."""

    def __init__(self, files: FileSystem, directory: DataDirectory, log: ChangeLog, ids: Ids) -> None:
        self._files = files
        self._directory = directory
        self._log = log
        bases = [base for number in reversed(log.bases()) if (base := log.base_header(number)[0])]
        headers = [header for number in log.segments() if (header := log.header(number)[0])]
        known = [(base.log_id, base.generation) for base in bases]
        known += [(header.log_id, header.generation) for header in headers]
        self._log_id = known[0][0] if known else ids.hex(_LOG_ID_DIGITS)
        self.generation = max([log.active.newest_generation, *(generation for _, generation in known)]) + 1

    def check_manifest(self) -> list[Finding]:
        """Use the existing files instead of the files that the manifest names."""
        problem, missing = self._log.active.problem, self._log.active.missing()
        if problem is not None:
            self._log.active.use(self._log.active.files())
            return [_note(self._log.folder / MANIFEST, f"{problem}; it was written anew and names the newest files")]
        return [_note(path, "was missing, and the manifest named it") for path in missing]

    def repair_base(self) -> list[Finding]:
        """Write a damaged base again from its good lines, or use older files instead if they are all there."""
        number = next(iter(self._log.bases()[-1:]), None)
        if number is None or self._is_complete(number):
            return []
        older = self._find_older_files(number)
        if older is not None:
            return [self._replace_base(number, older)]
        path, header = self._log.path(number), self._log.base_header(number)[0]
        done: list[Finding] = []
        count, expected = 0, None

        def rewrite() -> Iterator[bytes]:
            nonlocal count, expected
            yield header_line(header or self._make_base_header(number))
            for line in self._log.lines(number, 0, self._log.size(number)):
                part = _base_line(line)
                if part is None:
                    done.append(self._quarantine(number, Gap(line.offset, line.offset + len(line.data))))
                elif part.changes is not None:
                    count += len(part.changes)
                    yield line.data
                elif part.knowhub_base_end is not None:
                    expected = part.rows
            yield end_line(count)

        self._use(self._write(number, rewrite())[0])
        done.append(_note(path, f"{count} rows of it are kept; by its end it held {expected or 'an unknown number'}"))
        return done

    def add_base(self) -> list[Finding]:
        """Begin the log with an empty base if its first segments are gone."""
        segments = self._log.segments()
        if self._log.bases() or segments[0] == 1:
            return []
        number = BASE | segments[0]
        header = self._make_base_header(number)
        self._use(self._write(number, [header_line(header), end_line(0)])[0])
        lost = f"operations 1-{header.last_seq} are lost" if header.last_seq else "no operation is lost"
        return [_note(self._log.path(number), f"stands for what was before {self._log.path(segments[0]).name}; {lost}")]

    def repair_segments(self, end: LogBounds) -> list[Finding]:
        """Write every segment again that is damaged, missing, or does not fit to the segment before it."""
        done: list[Finding] = []
        names: list[LogFileName] = []
        now = replace(LogBounds.of(self._log), position=end.position)
        base = self._log.base_header(now.base)[0] if now.base is not None else None
        last_seq, size = base.last_seq if base else 0, None
        segments = self._read_segments(now, end, last_seq)
        for index, segment in enumerate(segments):
            header_bytes = self._make_header(segment, last_seq + 1, size, is_first=index == 0)
            if segment.gaps and segment.pieces[0] is segment.gaps[0] and segment.gaps[0].offset == 0:
                # The new header takes a part of the room of the damaged one.
                segment.gaps[0].missing -= len(header_bytes)
            following = next((seq for later in segments[index + 1 :] if (seq := later.first_seq) is not None), None)
            last_seq = self._count_lost(segment, last_seq, following)
            if not segment.gaps and header_bytes == segment.header_bytes:
                size = segment.stop
                continue
            name, size = self._write(segment.number, self._rewrite(segment, header_bytes))
            names.append(name)
            done += [self._quarantine(segment.number, gap) for gap in segment.gaps]
            done += self._quarantine_tail(segment)
            if not segment.gaps:
                done.append(_note(self._log.path(segment.number), "its header did not fit, and was written anew"))
        for name in names:
            self._use(name)
        return done

    def _read_segments(self, now: LogBounds, before: LogBounds, last_seq: int) -> list[SegmentParts]:
        first = now.base ^ BASE if now.base is not None else 1
        named = [name.number for name in self._log.active.list_segments()]
        newest = max([first, *now.segments, *named, before.vanished.segment if before.vanished else 0])
        segments: list[SegmentParts] = []
        for number in range(first, newest + 1):
            min_size = self._min_size(number, now, before)
            if number in now.segments:
                segment = self._read_segment(number, min_size, last_seq, now)
            else:
                segment = SegmentParts(number, None, b"", [Gap(0, 0, min_size or 0)], 0, min_size)
            last_seq = max([last_seq, *(piece.last_seq for piece in segment.pieces if isinstance(piece, Run))])
            segments.append(segment)
        return segments

    def _min_size(self, number: int, now: LogBounds, before: LogBounds) -> int | None:
        """Return how long a segment must be, from the next segment, or from LOCK for a segment that has vanished."""
        if number + 1 in now.segments:
            following, _ = self._log.header(number + 1)
            return following.previous_length if following and following.log_id == self._log_id else None
        vanished = before.vanished
        return vanished.offset if vanished is not None and vanished.segment == number else None

    def _read_segment(self, number: int, min_size: int | None, last_seq: int, now: LogBounds) -> SegmentParts:
        log, size = self._log, self._log.size(number)
        header, start = log.header(number)
        if header is not None and header.log_id != self._log_id:
            # The numbers in lines of another log may fit by chance: none of them counts.
            return SegmentParts(number, None, b"", [Gap(0, size)], size, min_size)
        stop = min_size
        if stop is None and now.position is not None and now.position.segment == number:
            stop = now.position.offset
        if stop is None:
            read = partial(log.lines, number, start, size)
            stop = check_segment(log.path(number), read, size, last_seq + 1, durable=False, after_damage=True).end
        pieces = find_pieces(self._scan(number, start, min(size, stop)), last_seq, start, stop)
        if stop < size and any(isinstance(piece, Gap) for piece in pieces):
            # If somebody inserted bytes, good lines are behind the end now. Those of the next segment do not count.
            following = log.header(number + 1)[0] if number + 1 in now.segments else None
            limit = following.first_seq if following is not None else None
            good = (entry for entry in self._scan(number, start, size) if entry.seq is not None)
            stop = max([stop, *(entry.end for entry in good if limit is None or (entry.seq or 0) < limit)])
            pieces = find_pieces(self._scan(number, start, stop), last_seq, start, stop)
        if header is None:
            first = pieces.pop(0) if pieces and isinstance(pieces[0], Gap) else None
            gap = Gap(0, first.end, first.missing) if isinstance(first, Gap) else Gap(0, start)
            pieces.insert(0, gap)
        return SegmentParts(number, header, log.read(number, 0, start), pieces, stop, min_size)

    def _scan(self, number: int, start: int, stop: int) -> list[Entry]:
        entries = []
        for line in self._log.lines(number, start, stop):
            end = line.offset + len(line.data)
            operation = line.full_operation if end <= stop else None
            seq, time = (operation.seq, operation.timestamp) if operation is not None else (None, 0.0)
            entries.append(Entry(line.offset, min(end, stop), seq, time))
        return entries

    def _make_header(self, segment: SegmentParts, first_seq: int, size: int | None, *, is_first: bool) -> bytes:
        """Return the first line of a segment; `size` is the length of the segment before it."""
        header, number = segment.header, segment.number
        # The segment before the first one is in a base, or never was.
        previous = header.previous_length if header is not None and is_first else size
        if header and (header.segment, header.first_seq, header.previous_length) == (number, first_seq, previous):
            return segment.header_bytes
        return header_text(Header(self._log_id, number, self.generation, first_seq, size))

    def _count_lost(self, segment: SegmentParts, last_seq: int, following: int | None) -> int:
        """Count the lost operations of each gap; return the last number that is used or lost.

        `following` is the first number after the segment. If it is None, so many are counted as the bytes may have
        held, so that no number is given twice.
        """
        for index, piece in enumerate(segment.pieces):
            if isinstance(piece, Run):
                last_seq = piece.last_seq
                continue
            later = [run for run in segment.pieces[index + 1 :] if isinstance(run, Run)]
            next_seq = later[0].first_seq if later else following
            piece.first_seq = last_seq + 1
            if next_seq is not None:
                piece.count = max(0, next_seq - last_seq - 1)
            else:
                piece.count = estimate_lost(piece, self._log.read(segment.number, piece.offset, piece.end))
            last_seq += piece.count
        return last_seq

    def _rewrite(self, segment: SegmentParts, header: bytes) -> Iterator[bytes]:
        """Yield header and good lines as they were, and in each gap a line for every operation that is lost.

        If a gap has room for that, as nearly always, spaces fill the rest of it, so that no later line moves.
        """
        size, time, line = len(header), 0.0, header
        for piece in segment.pieces:
            if isinstance(piece, Run):
                for _, chunk in self._log.chunks(segment.number, piece.offset, piece.end):
                    yield line
                    last = chunk.rfind(b"\n", 0, -1) + 1
                    yield chunk[:last]
                    line = chunk[last:]
                size, time = size + piece.end - piece.offset, piece.time
                continue
            room = piece.room if segment.min_size is not None or piece is not segment.pieces[-1] else 0
            for seq in range(piece.first_seq, piece.first_seq + piece.count):
                yield line
                line = lost_line(seq, size, time)
                size, room = size + len(line), room - len(line)
            if room > 0:
                line, size = pad_line(line, room), size + room
        if segment.min_size is not None and size < segment.min_size:
            line = pad_line(line, segment.min_size - size)
        yield line

    def _is_complete(self, base: int) -> bool:
        """Return whether a base can be read up to its end."""
        rows, expected = 0, None
        for line in self._log.lines(base, 0, self._log.size(base)):
            part = _base_line(line)
            if part is None:
                return False
            rows += len(part.changes or ())
            expected = part.rows if part.knowhub_base_end is not None else expected
        return rows == expected and self._log.base_header(base)[0] is not None

    def _find_older_files(self, base: int) -> LogFiles | None:
        """Return an older base, if there is one, and the segments after it; None if they are not all there."""
        names = [name for name in self._log.active.list_unused() if name.number < base ^ BASE]
        older = newest_files(names)
        if older.base is not None and self._log.base_header(BASE | older.base.number)[0] is None:
            older = replace(older, base=None)
        first = older.base.number if older.base is not None else 1
        numbers = {name.number for name in older.segments} | set(self._log.segments())
        return older if set(range(first, (base ^ BASE) + 1)) <= numbers else None

    def _replace_base(self, base: int, older: LogFiles) -> Finding:
        path, now = self._log.path(base), self._log.active.files()
        data = self._log.read(base, 0, self._log.size(base))
        kept = quarantine_bytes(self._files, self._directory.quarantine, f"{path.stem}-at-0-damaged", data)
        self._log.active.use(replace(now, base=older.base, segments=[*older.segments, *now.segments]))
        where = f" and lies in quarantine/{kept.name}" if kept else ""
        return _note(path, f"was damaged{where}; all that it said stands in older files, and nothing is lost")

    def _write(self, number: int, lines: Iterable[bytes]) -> tuple[LogFileName, int]:
        """Write a new version of a file of the log, which `_use` reads from then on; return its name and size."""
        name = replace(plain_name(number), generation=self.generation)
        return name, write_version(self._files, self._log, name, lines)

    def _use(self, name: LogFileName) -> None:
        self._log.forget(name.number | (BASE if name.prefix == BASE_PREFIX else 0))
        self._log.active.use(self._log.active.with_file(name))

    def _make_base_header(self, base: int) -> BaseHeader:
        """Make the header of a base from the segments after it. Derived files do not fit it, and are rebuilt."""
        first_seq = 1
        for number in [number for number in self._log.segments() if number >= base ^ BASE]:
            header, start = self._log.header(number)
            seqs = [entry.seq for entry in self._scan(number, start, self._log.size(number)) if entry.seq is not None]
            if header is not None or seqs:
                first_seq = header.first_seq if header is not None else seqs[0]
                break
        return BaseHeader(self._log_id, base ^ BASE, self.generation, first_seq - 1, "", 0.0, first_seq - 1)

    def _quarantine(self, number: int, gap: Gap) -> Finding:
        path, data = self._log.path(number), self._log.read(number, gap.offset, gap.end)
        name = f"{path.stem}-at-{gap.offset}-damaged"
        kept = quarantine_bytes(self._files, self._directory.quarantine, name, data)
        parts = [f"offset {gap.offset}"]
        if kept is not None:
            parts.append(f"{format_size(len(data))} were damaged and lie in quarantine/{kept.name}")
        elif gap.missing > 0:
            parts.append(f"{format_size(gap.missing)} are gone")
        if gap.count:
            numbers = list(range(gap.first_seq, gap.first_seq + gap.count))
            parts.append(f"operations {format_ranges(numbers)} are lost")
        elif not number & BASE:
            parts.append("no operation is lost")
        if rows := find_row_ids(data):
            parts.append(f"they told of {format_names(rows)}")
        return _note(path, "; ".join(parts))

    def _quarantine_tail(self, segment: SegmentParts) -> list[Finding]:
        """Store the bytes behind the end of a segment."""
        if segment.number not in self._log.segments():
            return []
        path, size = self._log.path(segment.number), self._log.size(segment.number)
        tail, name = self._log.read(segment.number, segment.stop, size), f"{path.stem}-at-{segment.stop}-torn"
        kept = quarantine_bytes(self._files, self._directory.quarantine, name, tail)
        if kept is None:
            return []
        size_text = format_size(len(tail))
        detail = f"offset {segment.stop}: {size_text} that were never acknowledged lie in quarantine/{kept.name}"
        return [_note(path, detail)]


def _base_line(line: Line) -> PartialBaseLine | None:
    """Return what a line of a base says; None for a damaged line."""
    return line.base_line if line.record is not None else None


def _note(path: Path, detail: str) -> Finding:
    return Finding(Severity.NOTE, str(path), detail)
