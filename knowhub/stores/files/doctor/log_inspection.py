"""Looking at the log and at LOCK: what is torn, what is damaged, what is missing, what is left over."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from knowhub.stores.files.data_directory import PUT_LOG_BACK, DataDirectory, log_witness
from knowhub.stores.files.doctor.findings import REPAIR, RESTORE, Finding, Severity, ranges_text, size_text
from knowhub.stores.files.doctor.inspected_log import LogEnd, LogRead, ReadOnlyLock
from knowhub.stores.files.erasing import erasing
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.change_log import JOURNAL, ChangeLog, Header
from knowhub.stores.files.log.log_base import BASE, is_end
from knowhub.stores.files.log.recovery import Judged, judge, taken

_LOCK_TRIES, _LOCK_POLL_S = 1000, 0.001


def log_findings(files: FileSystem, directory: DataDirectory, log: ChangeLog, read: LogRead) -> Iterator[Finding]:
    """Read the newest base and every segment behind it into `read`, and tell what was found. Raises OSError."""
    try:
        found, end = lock_finding(files, directory, log)
    except ValueError:
        advice = "move files that KnowHub did not make out of change_log/"
        yield Finding(Severity.PROBLEM, "change_log", "holds a segment file whose name is no number", advice)
        return
    yield found
    if not end.segments and end.base is None:
        yield _without_log(files, directory)
        return
    findings = read_log(log, read, end)
    if not any(finding.severity is Severity.PROBLEM for finding in findings):
        size = size_text(sum(log.size(number) for number in [*end.segments, *([end.base] if end.base else [])]))
        since = f" since operation {read.base_seq}" if read.base_seq else ""
        detail = f"segments: {len(end.segments)}, operations{since}: {len(read.checksums)}, {size}; "
        yield Finding(Severity.OK, "change_log", detail + "every checksum is right")
    yield from findings
    if read.lost:
        detail = f"operations {ranges_text(read.lost)} were lost to damage; what was left of them is in quarantine/"
        yield Finding(Severity.NOTE, "change_log", detail)
    yield from _left_over(files, directory, log, end)


def read_log(log: ChangeLog, read: LogRead, end: LogEnd | None = None) -> list[Finding]:
    """Read the newest base and every segment behind it into `read`; return what is wrong. Raises OSError."""
    end = end or LogEnd.of(log, None)
    findings = [*_bases(log, end, read)]
    findings += [finding for number in end.segments for finding in _segment(log, number, end, read)]
    return [*findings, *_missing(log, end)]


def _without_log(files: FileSystem, directory: DataDirectory) -> Finding:
    witness = log_witness(files, directory)
    if witness is None:
        return Finding(Severity.NOTE, "change_log", "there is none yet; the first start makes it")
    return Finding(Severity.PROBLEM, "change_log", f"the log is gone, and {witness.name} tells of it", PUT_LOG_BACK)


def lock_finding(files: FileSystem, directory: DataDirectory, log: ChangeLog) -> tuple[Finding, LogEnd]:
    """Read LOCK while no writer is within a batch, so that all that is told of the log's end is of one moment.

    Raises ValueError for a file of the log whose name is no number, and OSError.
    """
    try:
        lock = ReadOnlyLock(files, directory.lock)
    except (FileNotFoundError, ValueError):
        detail = "is missing or too short; the next start makes it, and judges the end of the log from the log alone"
        return Finding(Severity.NOTE, "LOCK", detail), LogEnd.of(log, None)
    try:
        if not _acquired(lock):
            advice = "if writes hang: `fuser LOCK` names the process; a stopped one must go on or be ended"
            detail = "one process has held it for a second"
            return Finding(Severity.PROBLEM, "LOCK", detail, advice), LogEnd.of(log, None)
        return end_of_log(lock, log)
    finally:
        lock.close()


def _acquired(lock: ReadOnlyLock) -> bool:
    for _ in range(_LOCK_TRIES):
        if lock.try_acquire():
            return True
        time.sleep(_LOCK_POLL_S)
    return False


def end_of_log(lock: ReadOnlyLock, log: ChangeLog) -> tuple[Finding, LogEnd]:
    """Tell whether a LOCK that nobody else holds is believed, and where the log ends. Raises ValueError and OSError."""
    published = lock.read()
    position = published[1] if published else None
    alone = LogEnd.of(log, None)
    if position and position.segment not in alone.segments and lock.believed(None):
        detail = f"says that {log.path(position.segment).name} was written, which is not there"
        return Finding(Severity.PROBLEM, "LOCK", detail, RESTORE), replace(alone, vanished=position)
    if not position or position.segment not in alone.segments or not lock.believed(log.inode(position.segment)):
        detail = "is of another boot, another directory or a dead writer; the end of the log is judged from the log"
        return Finding(Severity.NOTE, "LOCK", detail), alone
    detail = f"the log is durable up to offset {position.offset} of {log.path(position.segment).name}"
    if lock.suspect:
        detail += "; a write behind it failed, so the next one begins a fresh segment"
        return Finding(Severity.NOTE, "LOCK", detail), LogEnd.of(log, position)
    return Finding(Severity.OK, "LOCK", detail), LogEnd.of(log, position)


def _bases(log: ChangeLog, end: LogEnd, read: LogRead) -> Iterator[Finding]:
    for number in log.bases():
        if log.base_header(number)[0] is None:
            read.damaged = True
            yield Finding(
                Severity.PROBLEM, str(log.path(number)), "the base is damaged: its header or its end", RESTORE
            )
    header, start = log.base_header(end.base) if end.base is not None else (None, 0)
    if end.base is None or header is None:
        return
    read.begin_after(header)
    path, rows, said = str(log.path(end.base)), 0, 0
    for line in log.lines(end.base, start, log.size(end.base)):
        if line.record is None:
            read.damaged = True
            detail = f"offset {line.offset}: its checksum or its JSON is wrong"
            yield Finding(Severity.PROBLEM, path, detail, RESTORE)
        elif is_end(line.record):
            said = line.record.get("rows", said)
        elif (odd := taken(Path(path), line, read.take_rows)) is not None:
            read.damaged = True
            yield Finding(Severity.PROBLEM, path, f"offset {odd.offset}: {odd.reason}", RESTORE)
        else:
            rows += len(line.record.get("changes", ()))
    if rows != said and not read.damaged:
        read.damaged = True
        yield Finding(Severity.PROBLEM, path, f"holds {rows} rows, and by its end it held {said}", RESTORE)


def _segment(log: ChangeLog, number: int, end: LogEnd, read: LogRead) -> Iterator[Finding]:
    path, is_last = str(log.path(number)), number == end.segments[-1]
    wrong: list[tuple[int, str]] = []
    header, start = log.header(number)
    if header is None:
        wrong.append((0, "the segment's header is damaged"))
    else:
        wrong += ((0, what) for what in _header(number, header, read))
    size = end.size if is_last else log.size(number)
    durable = end.durable(log, number, start)
    data = log.read(number, start, size if durable is None else min(size, durable))
    judged = judge(
        Path(path),
        data,
        start,
        read.last_seq + 1,
        durable=durable is not None,
        after_damage=read.damaged or bool(wrong),
    )
    odd = [damage for line in judged.lines if (damage := taken(Path(path), line, read.take))]
    wrong += sorted((damage.offset, damage.reason) for damage in (*judged.damage, *odd))
    if durable is not None and size < durable:
        wrong.append((size, f"the file ends here, {durable - size} acknowledged bytes are gone"))
    read.damaged = read.damaged or bool(wrong)
    for offset, what in wrong:
        yield Finding(Severity.PROBLEM, path, f"offset {offset}: {what}", RESTORE)
    yield from _behind(path, size, judged, is_last=is_last)


def _header(number: int, header: Header, read: LogRead) -> Iterator[str]:
    if header.segment != number:
        yield f"by its header this is segment {header.segment}"
    if read.log_id and header.log_id != read.log_id:
        yield "by its header it is of another log than the segment before it"
    elif header.first_seq != read.last_seq + 1 and not read.damaged:
        yield f"it begins with operation {header.first_seq}, and {read.last_seq + 1} was to follow"
    read.log_id = read.log_id or header.log_id


def _behind(path: str, size: int, judged: Judged, *, is_last: bool) -> Iterator[Finding]:
    if size > judged.end:
        becomes = "the next opening keeps them in quarantine/" if is_last else "they are never read"
        detail = f"offset {judged.end}: {size - judged.end} bytes of a write that was never acknowledged; {becomes}"
        yield Finding(Severity.NOTE, path, detail)


def _missing(log: ChangeLog, end: LogEnd) -> Iterator[Finding]:
    for number in missing_segments(end):
        behind = "later segments are there" if end.segments else "the log goes on with it behind its base"
        yield Finding(Severity.PROBLEM, str(log.path(number)), f"is missing; {behind}", RESTORE)


def missing_segments(end: LogEnd) -> list[int]:
    """Return the numbers that are missing between the base, or the beginning, and the newest segment."""
    first = 1 if end.base is None else end.base ^ BASE
    last = end.segments[-1] if end.segments else first
    return sorted(set(range(first, last + 1)) - set(end.segments))


def _left_over(files: FileSystem, directory: DataDirectory, log: ChangeLog, end: LogEnd) -> Iterator[Finding]:
    old: Sequence[int] = []
    if end.base is not None:
        old = [number for number in log.segments() if number < end.base ^ BASE]
        old = [*old, *(number for number in log.bases() if number < end.base)]
    for number in old:
        detail = "stands in the base that came after it, and is not read any more; the next compaction removes it"
        yield Finding(Severity.NOTE, str(log.path(number)), detail)
    for name in files.names(directory.change_log):
        if name.endswith(".tmp"):
            detail = "is left over from a write that was broken off; nothing reads it"
            yield Finding(Severity.NOTE, str(directory.change_log / name), detail, REPAIR)
    if erasing.is_noted(files, directory):
        detail = "an erasing was broken off, or goes on now; the next opening carries it out or throws it away"
        yield Finding(Severity.NOTE, str(directory.change_log / JOURNAL), detail)
