"""Check the log and LOCK: torn, damaged, missing and unused files."""

import time
from collections.abc import Iterator

from knowhub.stores.files.data_directory import PUT_LOG_BACK, DataDirectory, find_log_trace
from knowhub.stores.files.doctor.findings import REPAIR, RESTORE, Finding, Severity, format_ranges, format_size
from knowhub.stores.files.doctor.log_contents import LogContents
from knowhub.stores.files.erasing.old_journal import JOURNAL, has_journal
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_reader import LogBounds

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
    findings = list(check_log_lines(log, read, end))
    if not any(finding.severity is Severity.PROBLEM for finding in findings):
        size = format_size(sum(log.size(number) for number in [*end.segments, *([end.base] if end.base else [])]))
        since = f" since operation {read.history.base_seq}" if read.history.base_seq else ""
        detail = f"segments: {len(end.segments)}, operations{since}: {read.last_seq - read.history.base_seq}, {size}; "
        yield Finding(Severity.OK, "change_log", detail + "every checksum is right")
    yield from findings
    if read.lost:
        detail = f"operations {format_ranges(read.lost)} were lost to damage; what was left of them is in quarantine/"
        yield Finding(Severity.NOTE, "change_log", detail)
    yield from _list_unused(files, directory, log)


def check_log_lines(log: ChangeLog, read: LogContents, bounds: LogBounds) -> Iterator[Finding]:
    """Read the base and every segment behind it into `read`; yield what is wrong. Raises OSError."""
    reader = read.read(bounds)
    for damage in reader.damage:
        # All of a file that is missing, or has another place, is meant.
        where = f"offset {damage.offset}: " if damage.offset else ""
        yield Finding(Severity.PROBLEM, damage.path, f"{where}{damage.reason}", RESTORE)
    for number, end in reader.ends.items():
        is_last = number == bounds.segments[-1]
        size = bounds.size if is_last else log.size(number)
        if size > end:
            becomes = "the next opening keeps them in quarantine/" if is_last else "they are never read"
            detail = f"offset {end}: {size - end} bytes of a write that was never acknowledged; {becomes}"
            yield Finding(Severity.NOTE, str(log.path(number)), detail)


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
        lock = LockFile(files, directory.lock, is_read_only=True)
    except (FileNotFoundError, ValueError):
        detail = "is missing or too short; the next start makes it, and judges the end of the log from the log alone"
        return Finding(Severity.NOTE, "LOCK", detail), LogBounds.of(log)
    try:
        if not _try_acquire(lock):
            advice = "if writes hang: `fuser LOCK` names the process; a stopped one must go on or be ended"
            detail = "one process has held it for a second"
            return Finding(Severity.PROBLEM, "LOCK", detail, advice), LogBounds.of(log)
        return end_of_log(lock, log)
    finally:
        lock.close()


def _try_acquire(lock: LockFile) -> bool:
    for _ in range(_LOCK_TRIES):
        if lock.try_acquire():
            return True
        time.sleep(_LOCK_POLL_S)
    return False


def end_of_log(lock: LockFile, log: ChangeLog) -> tuple[Finding, LogBounds]:
    """Return whether a LOCK that nobody else holds is trusted, and the end of the log. Raises ValueError, OSError."""
    bounds = LogBounds.of(log, lock)
    if bounds.vanished is not None:
        detail = f"says that {log.path(bounds.vanished.segment).name} was written, which is not there"
        return Finding(Severity.PROBLEM, "LOCK", detail, RESTORE), bounds
    if bounds.position is None:
        detail = "is of another boot, another directory or a dead writer; the end of the log is judged from the log"
        return Finding(Severity.NOTE, "LOCK", detail), bounds
    detail = f"the log is durable up to offset {bounds.position.offset} of {log.path(bounds.position.segment).name}"
    if lock.suspect:
        detail += "; a write behind it failed, so the next one begins a fresh segment"
        return Finding(Severity.NOTE, "LOCK", detail), bounds
    return Finding(Severity.OK, "LOCK", detail), bounds


def _list_unused(files: FileSystem, directory: DataDirectory, log: ChangeLog) -> Iterator[Finding]:
    for left in log.list_unused():
        detail = "is not in force any more, or never was; the next rewrite of the log removes it"
        yield Finding(Severity.NOTE, str(log.folder / str(left)), detail)
    for name in files.names(directory.change_log):
        if name.endswith(".tmp"):
            detail = "is left over from a write that was broken off; nothing reads it"
            yield Finding(Severity.NOTE, str(directory.change_log / name), detail, REPAIR)
    if has_journal(files, directory):
        detail = "an earlier version was broken off while it erased; the next opening ends that, or takes it back"
        yield Finding(Severity.NOTE, str(directory.change_log / JOURNAL), detail)
