"""`knowhub doctor --repair`: repair the log, remove wrong derived files, and keep what is removed in the quarantine."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from knowhub.core.collection import Collections
from knowhub.core.errors import Conflict, Unavailable
from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import DataDirectory, check_format, check_log
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.doctor.log_contents import LogContents, ProjectionsOf, check_projections
from knowhub.stores.files.doctor.log_repair import repair_log
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LOCK_BYTES, LockFile, try_flock
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_reader import LogBounds
from knowhub.stores.files.projections.plain_files import remove_partial_files

_IN_USE = "{} is open in a running KnowHub; stop every server and command on this directory, then repair"


def repair(
    files: FileSystem, directory: DataDirectory, ids: Ids, collections: Collections, projections: ProjectionsOf
) -> list[Finding]:
    """Repair a directory that nobody has open; return what was done.

    Doing it again does no more. Raises Conflict while another process has the directory open, Unavailable for another
    format or a log that is gone, and OSError; a repair that was broken off is finished by the next.
    """
    check_format(files, directory)
    check_log(files, directory)
    if not files.names(directory.change_log):
        return []
    with _alone(files, directory) as lock:
        done: list[Finding] = []
        try:
            with _read_whole(files, directory, lock, collections) as (end, read):
                is_damaged = read.is_damaged or end.vanished is not None
        except ValueError:
            raise Unavailable("change_log/ holds a file whose name is no number; move it out of there") from None
        if is_damaged:
            done += [*_move_records(files, directory), *repair_log(files, directory, end, ids)]
        done += _list_unused(files, directory)
        done += _rebuild(files, directory, lock, collections, projections)
    return done


@contextmanager
def _alone(files: FileSystem, directory: DataDirectory) -> Iterator[LockFile]:
    """Hold everything that a running process locks: KEEPER, LOCK, and a segment."""
    with ExitStack() as stack:
        _hold(files, stack, directory.leader_lock, os.O_RDWR | os.O_CREAT)
        _lengthen(files, stack, directory.lock)
        lock = LockFile(files, directory.lock, is_read_only=True)
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
    """Replace a missing or too short LOCK by an empty one, which is not trusted."""
    descriptor = files.open(lock, os.O_RDWR | os.O_CREAT)
    stack.callback(files.close, descriptor)
    if files.size(descriptor) < LOCK_BYTES:
        files.truncate(descriptor, 0)
        files.truncate(descriptor, LOCK_BYTES)


@contextmanager
def _read_whole(
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
        yield Finding(Severity.NOTE, str(path), detail)


def _list_unused(files: FileSystem, directory: DataDirectory) -> Iterator[Finding]:
    for folder in (directory.change_log, directory.snapshots):
        for name in remove_partial_files(files, folder):
            yield Finding(Severity.NOTE, str(folder / name), "was left over from a write that was broken off; removed")


def _rebuild(
    files: FileSystem,
    directory: DataDirectory,
    lock: LockFile,
    collections: Collections,
    projections: ProjectionsOf,
) -> Iterator[Finding]:
    """Remove derived files that differ from the log. The next leader builds them again."""
    with _read_whole(files, directory, lock, collections) as (_, read):
        for projection, finding, is_right in check_projections(projections(read), read):
            if not is_right:
                projection.discard()
                detail = f"{finding.detail.partition(';')[0]}: removed, and the next leader builds it again"
                yield Finding(Severity.NOTE, finding.subject, detail)
