"""`doctor --repair` on the log: a damaged base and damaged segments are written anew, from the newest to the oldest.

The order makes it crash-safe: a segment that follows says how long the one before it is to be, and is there first. What
is taken out is in quarantine before anything is replaced, and doing it twice is the same as doing it once.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.findings import Finding, Severity, ranges_text, size_text, some_of
from knowhub.stores.files.doctor.inspected_log import LogEnd
from knowhub.stores.files.doctor.mended_log import (
    Gap,
    Part,
    count_lost,
    keep_aside,
    mended,
    part_of,
    seq_of_line,
    seq_told,
)
from knowhub.stores.files.filesystem import FileSystem, replace_file, write_all
from knowhub.stores.files.lock import LOCK_BYTES, disown
from knowhub.stores.files.log.change_log import ChangeLog, Header, Line, header_text, lines_of
from knowhub.stores.files.log.log_base import BASE, BaseHeader, end_line, header_line
from knowhub.stores.files.log.recovery import judge
from knowhub.stores.files.log.sliced_line import SlicedBaseLine

_LOG_ID_DIGITS = 32


@dataclass(slots=True)
class _Segment:
    """A segment as it was read: what counts in it ends at `stop`, and in the end it must be `least` bytes long.

    Of one without a gap only the number of its last operation is held: a log may be larger than memory.
    """

    number: int
    header: Header | None
    header_bytes: bytes
    part: Part
    stop: int
    least: int | None
    whole_up_to: int | None = None


def mend_log(files: FileSystem, directory: DataDirectory, end: LogEnd, ids: Ids) -> list[Finding]:
    """Write anew what of the log is damaged; return what was done, which is nothing for a whole log.

    For whoever holds KEEPER and LOCK. Raises OSError; then it can be tried again.
    """
    if end.vanished is not None:
        disown(files, directory.lock)
    log = ChangeLog(files, directory.change_log)
    try:
        mending = _Mending(files, directory, log, ids)
        done = [*mending.bases(), *mending.beginning(), *mending.segments(end)]
    finally:
        log.close()
    if done:
        # It may name a file that was replaced; without it the end is judged from the log, which is whole now.
        _blank(files, directory.lock)
    return done


class _Mending:
    def __init__(self, files: FileSystem, directory: DataDirectory, log: ChangeLog, ids: Ids) -> None:
        self._files = files
        self._directory = directory
        self._log = log
        bases = [base for number in reversed(log.bases()) if (base := log.base_header(number)[0])]
        headers = [header for number in log.segments() if (header := log.header(number)[0])]
        known = [
            *((base.log_id, base.generation) for base in bases),
            *((one.log_id, one.generation) for one in headers),
        ]
        self._log_id = known[0][0] if known else ids.hex(_LOG_ID_DIGITS)
        self._generation = max([1, *(generation for _, generation in known)])

    def bases(self) -> list[Finding]:
        """Write a damaged base anew from its good lines, or put it aside where older files say all that it says."""
        done: list[Finding] = []
        for number in self._log.bases()[-1:]:
            if self._is_whole(number):
                continue
            lines = list(self._log.lines(number, 0, self._log.size(number)))
            header, _ = self._log.base_header(number)
            told = [(line, _told(line)) for line in lines]
            rows = [(line.data, one.changes) for line, one in told if one and one.changes is not None]
            said = next((one.rows for _, one in reversed(told) if one and one.knowhub_base_end is not None), None)
            count = sum(len(changes) for _, changes in rows)
            gaps = [Gap(line.offset, line.data) for line, one in told if one is None]
            if self._is_superfluous(number):
                done.append(self._put_aside(number))
                continue
            path = self._log.path(number)
            done += [self._kept(path, gap) for gap in gaps]
            done.append(_did(path, f"{count} rows of it are kept; by its end it held {said or 'an unknown number'}"))
            pieces = [header_line(header or self._base_header(number)), *(data for data, _ in rows), end_line(count)]
            replace_file(self._files, path, b"".join(pieces))
            self._log.forget(number)
        return done

    def beginning(self) -> list[Finding]:
        """Begin the log with an empty base where its first files are gone."""
        segments = self._log.segments()
        if self._log.bases() or segments[0] == 1:
            return []
        number = BASE | segments[0]
        header = self._base_header(number)
        replace_file(self._files, self._log.path(number), header_line(header) + end_line(0))
        lost = f"operations 1-{header.last_seq} are lost" if header.last_seq else "no operation is lost"
        return [_did(self._log.path(number), f"stands for what was before {self._log.path(segments[0]).name}; {lost}")]

    def segments(self, end: LogEnd) -> list[Finding]:
        """Write every segment anew that is damaged, missing, or does not fit its neighbour any more."""
        done: list[Finding] = []
        written: list[tuple[int, bytes]] = []
        now = LogEnd.of(self._log, end.position)
        last, length = self._base_seq(now), None
        read = self._read(now, end)
        for index, segment in enumerate(read):
            header_bytes = self._header_bytes(segment, last + 1, length, is_first=index == 0)
            if segment.whole_up_to is not None:
                if header_bytes == segment.header_bytes:
                    last, length = segment.whole_up_to, segment.stop
                    continue
                segment.part = self._segment(segment.number, segment.least, last, now).part
            if segment.part.begins_with_gap:
                # Of the bytes in the place of a damaged header, the new one takes its part.
                segment.part.gaps[0].missing -= len(header_bytes)
            last = count_lost(segment.part, last, _following(read[index + 1 :]))
            data = mended(header_bytes, segment.part, segment.least)
            if data != self._bytes(segment):
                written.append((segment.number, data))
                done += [self._kept(self._log.path(segment.number), gap) for gap in segment.part.gaps]
                done += self._kept_tail(segment)
                if not segment.part.gaps:
                    done.append(_did(self._log.path(segment.number), "its header did not fit, and was written anew"))
            length = len(data)
        for number, data in reversed(written):
            replace_file(self._files, self._log.path(number), data)
            self._log.forget(number)
        return done

    def _base_seq(self, now: LogEnd) -> int:
        header = self._log.base_header(now.base)[0] if now.base is not None else None
        return header.last_seq if header else 0

    def _read(self, now: LogEnd, before: LogEnd) -> list[_Segment]:
        first = now.base ^ BASE if now.base is not None else 1
        newest = max([first, *now.segments, before.vanished.segment if before.vanished else 0])
        read: list[_Segment] = []
        last = self._base_seq(now)
        for number in range(first, newest + 1):
            least = self._least(number, now, before)
            if number in now.segments:
                segment = self._segment(number, least, last, now)
            else:
                segment = _Segment(number, None, b"", Part([Gap(0, b"", least or 0)]), 0, least)
            last = max([last, *(seq_of_line(piece) for piece in segment.part.pieces if isinstance(piece, Line))])
            if not segment.part.gaps:
                segment.whole_up_to, segment.part = last, Part()
            read.append(segment)
        return read

    def _least(self, number: int, now: LogEnd, before: LogEnd) -> int | None:
        """Return how long a segment must be: as its follower says, or as LOCK says of one that has vanished."""
        if number + 1 in now.segments:
            following, _ = self._log.header(number + 1)
            return following.previous_length if following and following.log_id == self._log_id else None
        vanished = before.vanished
        return vanished.offset if vanished is not None and vanished.segment == number else None

    def _segment(self, number: int, least: int | None, last: int, now: LogEnd) -> _Segment:
        log, size = self._log, self._log.size(number)
        header, start = log.header(number)
        if header is not None and header.log_id != self._log_id:
            # Lines of another log may have numbers that fit: none of them counts.
            return _Segment(number, None, b"", Part([Gap(0, log.read(number, 0, size))]), size, least)
        stop = least
        if stop is None and now.position is not None and now.position.segment == number:
            stop = now.position.offset
        if stop is None:
            rest = log.read(number, start, size)
            stop = judge(log.path(number), rest, start, last + 1, durable=False, after_damage=True).end
        part = part_of(lines_of(log.read(number, start, min(size, stop)), start), last, start, stop)
        if part.gaps and stop < size:
            # Bytes that somebody put in have moved others on, behind the end.
            stop = max(stop, self._moved_end(number, start, now))
            part = part_of(lines_of(log.read(number, start, stop), start), last, start, stop)
        header_bytes = log.read(number, 0, start)
        if header is None:
            part.put_first(Gap(0, header_bytes))
        return _Segment(number, header, header_bytes, part, stop, least)

    def _moved_end(self, number: int, start: int, now: LogEnd) -> int:
        """Return where the last whole line of a segment ends that the next segment does not hold."""
        following = self._log.header(number + 1)[0] if number + 1 in now.segments else None
        ends = [0]
        for line in lines_of(self._log.read(number, start, self._log.size(number)), start):
            seq = seq_told(line)
            if seq is not None and (following is None or seq < following.first_seq):
                ends.append(line.offset + len(line.data))
        return ends[-1]

    def _header_bytes(self, segment: _Segment, first_seq: int, length: int | None, *, is_first: bool) -> bytes:
        header, number = segment.header, segment.number
        # What stood before the first one is in a base, or never was.
        wanted = (number, first_seq, header.previous_length if header is not None and is_first else length)
        if header is not None and (header.segment, header.first_seq, header.previous_length) == wanted:
            return segment.header_bytes
        return header_text(Header(self._log_id, number, self._generation, first_seq, length))

    def _bytes(self, segment: _Segment) -> bytes:
        if segment.number not in self._log.segments():
            return b""
        return self._log.read(segment.number, 0, segment.stop)

    def _is_whole(self, base: int) -> bool:
        """Tell whether a base reads back to its end, a line in memory at a time."""
        rows, said = 0, None
        for line in self._log.lines(base, 0, self._log.size(base)):
            told = _told(line)
            if told is None:
                return False
            rows += len(told.changes or ())
            said = told.rows if told.knowhub_base_end is not None else said
        return rows == said and self._log.base_header(base)[0] is not None

    def _is_superfluous(self, base: int) -> bool:
        """Tell whether an older base, or none, and all segments from there on are still there."""
        older = [number for number in self._log.bases() if number < base and self._log.base_header(number)[0]]
        first = older[-1] ^ BASE if older else 1
        return set(range(first, (base ^ BASE) + 1)) <= set(self._log.segments())

    def _put_aside(self, base: int) -> Finding:
        path, data = self._log.path(base), self._log.read(base, 0, self._log.size(base))
        kept = keep_aside(self._files, self._directory.quarantine, f"{path.stem}-at-0-damaged", data)
        self._log.forget(base)
        self._files.remove(path)
        self._files.sync_folder(path.parent)
        where = f" and lies in quarantine/{kept.name}" if kept else ""
        return _did(path, f"was damaged{where}; all that it said stands in older files, and nothing is lost")

    def _base_header(self, base: int) -> BaseHeader:
        """Make the header of a base from what follows it. What is derived is built anew from there."""
        first_seq = 1
        for number in [number for number in self._log.segments() if number >= base ^ BASE]:
            header, start = self._log.header(number)
            lines = self._log.lines(number, start, self._log.size(number))
            seqs = [seq for line in lines if (seq := seq_told(line)) is not None]
            if header is not None or seqs:
                first_seq = header.first_seq if header is not None else seqs[0]
                break
        return BaseHeader(self._log_id, base ^ BASE, self._generation, first_seq - 1, "", 0.0, first_seq - 1)

    def _kept(self, path: Path, gap: Gap) -> Finding:
        kept = keep_aside(self._files, self._directory.quarantine, f"{path.stem}-at-{gap.offset}-damaged", gap.data)
        parts = [f"offset {gap.offset}"]
        if kept is not None:
            parts.append(f"{size_text(len(gap.data))} were damaged and lie in quarantine/{kept.name}")
        elif gap.missing > 0:
            parts.append(f"{size_text(gap.missing)} are gone")
        if gap.count:
            numbers = list(range(gap.first_seq, gap.first_seq + gap.count))
            parts.append(f"operations {ranges_text(numbers)} are lost")
        elif not path.name.startswith("base-"):
            parts.append("no operation is lost")
        if gap.touched:
            parts.append(f"they told of {some_of(gap.touched)}")
        return _did(path, "; ".join(parts))

    def _kept_tail(self, segment: _Segment) -> list[Finding]:
        if segment.number not in self._log.segments():
            return []
        path, size = self._log.path(segment.number), self._log.size(segment.number)
        tail = self._log.read(segment.number, segment.stop, size)
        kept = keep_aside(self._files, self._directory.quarantine, f"{path.stem}-at-{segment.stop}-torn", tail)
        if kept is None:
            return []
        detail = (
            f"offset {segment.stop}: {size_text(len(tail))} that were never acknowledged lie in quarantine/{kept.name}"
        )
        return [_did(path, detail)]


def _told(line: Line) -> SlicedBaseLine | None:
    """Return what a line of a base tells; None where it is not whole, or is no such line."""
    return line.base_line if line.record is not None else None


def _following(later: Sequence[_Segment]) -> int | None:
    """Return the number with which the log goes on in later segments; None when none of them tells."""
    for segment in later:
        if segment.header is not None:
            return segment.header.first_seq
        if segment.part.first_seq is not None:
            return segment.part.first_seq
    return None


def _blank(files: FileSystem, lock: Path) -> None:
    descriptor = files.open(lock, os.O_WRONLY)
    try:
        write_all(files, descriptor, bytes(LOCK_BYTES), 0)
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def _did(path: Path, detail: str) -> Finding:
    return Finding(Severity.NOTE, str(path), detail)
