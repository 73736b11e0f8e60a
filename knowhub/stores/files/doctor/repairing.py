"""`knowhub doctor --repair`: what is derived is removed, to be written anew; the rest goes to quarantine, not away."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from knowhub.core.errors import Conflict, Unavailable
from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import DataDirectory, check_format, check_log
from knowhub.stores.files.directories.node_way import remove
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.doctor.inspected_derived import DerivedNotes, derived_judgements
from knowhub.stores.files.doctor.inspected_log import LogRead, ReadOnlyLock
from knowhub.stores.files.doctor.log_inspection import end_of_log, read_log
from knowhub.stores.files.doctor.log_mending import mend_log
from knowhub.stores.files.doctor.mended_log import keep_aside
from knowhub.stores.files.erasing import erasing
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LOCK_BYTES, try_flock
from knowhub.stores.files.log.change_log import JOURNAL, ChangeLog

_IN_USE = "{} is open in a running KnowHub; stop every server and command on this directory, then repair"


def repair(files: FileSystem, directory: DataDirectory, ids: Ids) -> list[Finding]:
    """Mend a directory that nobody has open; return what was done.

    Doing it again does no more. Raises Conflict while another process has the directory open, Unavailable for another
    format or a log that is gone, and OSError; a repair that was broken off is finished by the next.
    """
    check_format(files, directory)
    check_log(files, directory)
    if not files.names(directory.change_log):
        return []
    with _alone(files, directory) as lock:
        done = [*_erasing(files, directory)]
        log = ChangeLog(files, directory.change_log)
        try:
            _, end = end_of_log(lock, log)
        except ValueError:
            raise Unavailable("change_log/ holds a file whose name is no number; move it out of there") from None
        finally:
            log.close()
        done += _records_aside(files, directory)
        done += mend_log(files, directory, end, ids)
        done += _left_over(files, directory)
        done += _derived(files, directory, lock)
    return done


@contextmanager
def _alone(files: FileSystem, directory: DataDirectory) -> Iterator[ReadOnlyLock]:
    """Hold everything that a running process holds: KEEPER, LOCK, and the segment that it stands in."""
    with ExitStack() as stack:
        _hold(files, stack, directory.keeper, os.O_RDWR | os.O_CREAT)
        _lengthen(files, stack, directory.lock)
        lock = ReadOnlyLock(files, directory.lock)
        stack.callback(lock.close)
        if not lock.try_acquire():
            raise Conflict(_IN_USE.format(directory.root))
        for name in files.names(directory.change_log):
            if name.startswith("segment-"):
                # Only asked, not held: a process that opens the directory waits for LOCK first.
                with ExitStack() as once:
                    _hold(files, once, directory.change_log / name, os.O_RDONLY)
        yield lock


def _hold(files: FileSystem, stack: ExitStack, path: Path, flags: int) -> None:
    descriptor = files.open(path, flags)
    stack.callback(files.close, descriptor)
    if not try_flock(descriptor):
        raise Conflict(_IN_USE.format(path.parent if path.parent.name != "change_log" else path.parent.parent))


def _lengthen(files: FileSystem, stack: ExitStack, lock: Path) -> None:
    """Make a LOCK that is missing or too short one that nobody believes."""
    descriptor = files.open(lock, os.O_RDWR | os.O_CREAT)
    stack.callback(files.close, descriptor)
    if files.size(descriptor) < LOCK_BYTES:
        files.truncate(descriptor, 0)
        files.truncate(descriptor, LOCK_BYTES)


def _erasing(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    """Carry out an erasing that was broken off, or throw it away, as the next opening would."""
    if not erasing.is_noted(files, directory):
        return
    path = directory.change_log / JOURNAL
    read = _read_whole(files, directory)
    try:
        erasing.carry_out(files, directory, lambda account, operation_id: (account, operation_id) in read.erasings)
    except Unavailable:
        kept = keep_aside(files, directory.quarantine, "erase.journal-damaged", files.read(path))
        files.remove(path)
        files.sync_folder(path.parent)
        where = f"; it lies in quarantine/{kept.name}" if kept else ""
        detail = f"was damaged, so that the erasing could not be finished: erase the record again{where}"
        yield Finding(Severity.PROBLEM, str(path), detail)
        return
    yield Finding(Severity.NOTE, str(path), "an erasing that was broken off was carried out, or thrown away")


def _read_whole(files: FileSystem, directory: DataDirectory) -> LogRead:
    log, read = ChangeLog(files, directory.change_log), LogRead(0)
    try:
        read_log(log, read)
    finally:
        log.close()
    return read


def _records_aside(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    """Keep the record files of a damaged log: they may tell of rows that it tells of no more."""
    read = _read_whole(files, directory)
    standing = sorted(directory.records.rglob("*.jsonl")) if read.damaged else []
    for path in standing:
        files.make_folder(directory.quarantine)
        name = str(path.relative_to(directory.records)).replace("/", "%2F")
        number = 1
        while files.inode_at(directory.quarantine / f"records-{number}-{name}") is not None:
            number += 1
        files.rename(path, directory.quarantine / f"records-{number}-{name}")
        detail = f"may tell of what is lost: it lies in quarantine/records-{number}-{name}, and is written anew"
        yield Finding(Severity.NOTE, str(path), detail)
    if standing:
        files.sync_folder(directory.quarantine)


def _left_over(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    for folder in (directory.change_log, directory.snapshots):
        for name in files.names(folder):
            if name.endswith(".tmp"):
                files.remove(folder / name)
                yield Finding(
                    Severity.NOTE, str(folder / name), "was left over from a write that was broken off; removed"
                )


def _derived(files: FileSystem, directory: DataDirectory, lock: ReadOnlyLock) -> Iterator[Finding]:
    """Remove what does not say what the log says, the notes first: the next keeper writes it anew."""
    notes = DerivedNotes.of(files, directory)
    log, read = ChangeLog(files, directory.change_log), LogRead(notes.rows_up_to)
    try:
        _, end = end_of_log(lock, log)
        read_log(log, read, end)
    finally:
        log.close()
    for one in derived_judgements(files, directory, notes, read):
        standing = [path for path in one.unfit if files.inode_at(path) is not None]
        for path in sorted(standing, key=lambda path: path.suffix != ".json"):
            files.remove(path)
        gone = [path for path in one.folders if path.is_symlink() or path.exists()]
        for path in gone:
            remove(files, path)
        if standing or gone:
            detail = f"{one.finding.detail.partition(';')[0]}: removed, and the next keeper writes it anew from the log"
            yield Finding(Severity.NOTE, one.finding.subject, detail)
