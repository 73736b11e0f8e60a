"""Check the log and LOCK: torn, damaged, missing and unused files."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from knowhub.stores.files.data_directory import PUT_LOG_BACK, DataDirectory, find_log_trace
from knowhub.stores.files.doctor.findings import REPAIR, RESTORE, Finding, Severity, format_ranges, format_size
from knowhub.stores.files.doctor.log_contents import LogBounds, LogContents, ReadOnlyLock
from knowhub.stores.files.erasing.old_journal import JOURNAL, has_journal
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.change_log import ChangeLog, Header
from knowhub.stores.files.log.log_line import BASE, is_end
from knowhub.stores.files.log.log_manifest import MANIFEST
from knowhub.stores.files.log.recovery import SegmentCheck, check_segment, try_load

_LOCK_TRIES, _LOCK_POLL_S = 1000, 0.001


def check_log_files(
    files: FileSystem, directory: DataDirectory, log: ChangeLog, read: LogContents
) -> Iterator[Finding]:
    """Load the newest base and all segments after it into `read`; yield the findings. Raises OSError."""
    try:
        found, end = check_lock(files, directory, log)
    except ValueError:
        advice = "move files that KnowHub did not make out of change_log/"
        yield Finding(Severity.PROBLEM, "change_log", "holds a segment file whose name is no number", advice)
        return
    yield found
    if not end.segments and end.base is None:
        yield _without_log(files, directory)
        return
    findings = [*_manifest(log, read), *read_log(log, read, end)]
    if not any(finding.severity is Severity.PROBLEM for finding in findings):
        size = format_size(sum(log.size(number) for number in [*end.segments, *([end.base] if end.base else [])]))
        since = f" since operation {read.base_seq}" if read.base_seq else ""
        detail = f"segments: {len(end.segments)}, operations{since}: {read.last_seq - read.base_seq}, {size}; "
        yield Finding(Severity.OK, "change_log", detail + "every checksum is right")
    yield from findings
    if read.lost:
        detail = f"operations {format_ranges(read.lost)} were lost to damage; what was left of them is in quarantine/"
        yield Finding(Severity.NOTE, "change_log", detail)
    yield from _list_unused(files, directory, log)


def read_log(log: ChangeLog, read: LogContents, end: LogBounds | None = None) -> list[Finding]:
    """Read the newest base and every segment behind it into `read`; return what is wrong. Raises OSError."""
    end = end or LogBounds.of(log, None)
    findings = [*_bases(log, end, read)]
    findings += [finding for number in end.segments for finding in _segment(log, number, end, read)]
    return [*findings, *_missing(log, end)]


def _without_log(files: FileSystem, directory: DataDirectory) -> Finding:
    witness = find_log_trace(files, directory)
    if witness is None:
        return Finding(Severity.NOTE, "change_log", "there is none yet; the first start makes it")
    return Finding(Severity.PROBLEM, "change_log", f"the log is gone, and {witness.name} tells of it", PUT_LOG_BACK)


def check_lock(files: FileSystem, directory: DataDirectory, log: ChangeLog) -> tuple[Finding, LogBounds]:
    """Read LOCK while no writer appends, so that all positions are of the same moment.

    Raises ValueError for a file of the log whose name is no number, and OSError.
    """
    try:
        lock = ReadOnlyLock(files, directory.lock)
    except (FileNotFoundError, ValueError):
        detail = "is missing or too short; the next start makes it, and judges the end of the log from the log alone"
        return Finding(Severity.NOTE, "LOCK", detail), LogBounds.of(log, None)
    try:
        if not _try_acquire(lock):
            advice = "if writes hang: `fuser LOCK` names the process; a stopped one must go on or be ended"
            detail = "one process has held it for a second"
            return Finding(Severity.PROBLEM, "LOCK", detail, advice), LogBounds.of(log, None)
        return end_of_log(lock, log)
    finally:
        lock.close()


def _try_acquire(lock: ReadOnlyLock) -> bool:
    for _ in range(_LOCK_TRIES):
        if lock.try_acquire():
            return True
        time.sleep(_LOCK_POLL_S)
    return False


def end_of_log(lock: ReadOnlyLock, log: ChangeLog) -> tuple[Finding, LogBounds]:
    """Return whether a LOCK that nobody else holds is trusted, and the end of the log. Raises ValueError, OSError."""
    published = lock.read()
    position = published[1] if published else None
    alone = LogBounds.of(log, None)
    if position and position.segment not in alone.segments and lock.is_trusted(None):
        detail = f"says that {log.path(position.segment).name} was written, which is not there"
        return Finding(Severity.PROBLEM, "LOCK", detail, RESTORE), replace(alone, vanished=position)
    if not position or position.segment not in alone.segments or not lock.is_trusted(log.inode(position.segment)):
        detail = "is of another boot, another directory or a dead writer; the end of the log is judged from the log"
        return Finding(Severity.NOTE, "LOCK", detail), alone
    detail = f"the log is durable up to offset {position.offset} of {log.path(position.segment).name}"
    if lock.suspect:
        detail += "; a write behind it failed, so the next one begins a fresh segment"
        return Finding(Severity.NOTE, "LOCK", detail), LogBounds.of(log, position)
    return Finding(Severity.OK, "LOCK", detail), LogBounds.of(log, position)


def _bases(log: ChangeLog, end: LogBounds, read: LogContents) -> Iterator[Finding]:
    for number in log.bases():
        if log.base_header(number)[0] is None:
            read.is_damaged = True
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
            read.is_damaged = True
            detail = f"offset {line.offset}: its checksum or its JSON is wrong"
            yield Finding(Severity.PROBLEM, path, detail, RESTORE)
        elif is_end(line.record):
            said = line.record.get("rows", said)
        elif (odd := try_load(Path(path), line, partial(read.load_rows, end.base))) is not None:
            read.is_damaged = True
            yield Finding(Severity.PROBLEM, path, f"offset {odd.offset}: {odd.reason}", RESTORE)
        else:
            rows += len(line.record.get("changes", ()))
    if rows != said and not read.is_damaged:
        read.is_damaged = True
        yield Finding(Severity.PROBLEM, path, f"holds {rows} rows, and by its end it held {said}", RESTORE)


def _segment(log: ChangeLog, number: int, end: LogBounds, read: LogContents) -> Iterator[Finding]:
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
    judged = check_segment(
        Path(path),
        data,
        start,
        read.last_seq + 1,
        durable=durable is not None,
        after_damage=read.is_damaged or bool(wrong),
    )
    odd = [damage for line in judged.lines if (damage := try_load(Path(path), line, partial(read.load, number)))]
    wrong += sorted((damage.offset, damage.reason) for damage in (*judged.damage, *odd))
    if durable is not None and size < durable:
        wrong.append((size, f"the file ends here, {durable - size} acknowledged bytes are gone"))
    read.is_damaged = read.is_damaged or bool(wrong)
    for offset, what in wrong:
        yield Finding(Severity.PROBLEM, path, f"offset {offset}: {what}", RESTORE)
    yield from _behind(path, size, judged, is_last=is_last)


def _header(number: int, header: Header, read: LogContents) -> Iterator[str]:
    if header.segment != number:
        yield f"by its header this is segment {header.segment}"
    if read.log_id and header.log_id != read.log_id:
        yield "by its header it is of another log than the segment before it"
    elif header.first_seq != read.last_seq + 1 and not read.is_damaged:
        yield f"it begins with operation {header.first_seq}, and {read.last_seq + 1} was to follow"
    read.log_id = read.log_id or header.log_id


def _behind(path: str, size: int, judged: SegmentCheck, *, is_last: bool) -> Iterator[Finding]:
    if size > judged.end:
        becomes = "the next opening keeps them in quarantine/" if is_last else "they are never read"
        detail = f"offset {judged.end}: {size - judged.end} bytes of a write that was never acknowledged; {becomes}"
        yield Finding(Severity.NOTE, path, detail)


def _missing(log: ChangeLog, end: LogBounds) -> Iterator[Finding]:
    numbers = missing_segments(end)
    for number in numbers:
        behind = "later segments are there" if end.segments else "the log goes on with it behind its base"
        yield Finding(Severity.PROBLEM, str(log.path(number)), f"is missing; {behind}", RESTORE)
    for path in log.active.missing():
        if path not in map(log.path, numbers):
            yield Finding(Severity.PROBLEM, str(path), "is missing; the manifest names it", RESTORE)


def _manifest(log: ChangeLog, read: LogContents) -> Iterator[Finding]:
    problem = log.active.problem
    read.is_damaged = problem is not None or bool(log.active.missing())
    if problem is not None:
        yield Finding(Severity.PROBLEM, str(log.folder / MANIFEST), problem, RESTORE)


def missing_segments(end: LogBounds) -> list[int]:
    """Return the numbers that are missing between the base, or the beginning, and the newest segment."""
    first = 1 if end.base is None else end.base ^ BASE
    last = end.segments[-1] if end.segments else first
    return sorted(set(range(first, last + 1)) - set(end.segments))


def _list_unused(files: FileSystem, directory: DataDirectory, log: ChangeLog) -> Iterator[Finding]:
    for left in log.active.list_unused():
        detail = "is not in force any more, or never was; the next rewrite of the log removes it"
        yield Finding(Severity.NOTE, str(log.folder / str(left)), detail)
    for name in files.names(directory.change_log):
        if name.endswith(".tmp"):
            detail = "is left over from a write that was broken off; nothing reads it"
            yield Finding(Severity.NOTE, str(directory.change_log / name), detail, REPAIR)
    if has_journal(files, directory):
        detail = "an earlier version was broken off while it erased; the next opening ends that, or takes it back"
        yield Finding(Severity.NOTE, str(directory.change_log / JOURNAL), detail)
