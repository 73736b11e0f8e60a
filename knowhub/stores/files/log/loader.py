"""Open a log: load all good lines, remove what was never acknowledged, and report damage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from knowhub.core.clock import Clock
from knowhub.core.errors import Unavailable
from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import PUT_LOG_BACK, DataDirectory, write_format
from knowhub.stores.files.filesystem import NO_ROOM, FileSystem
from knowhub.stores.files.lock import LockFile, Position, try_lock_folder
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import BASE, Header
from knowhub.stores.files.log.log_reader import Damage, LogBounds, LogReader, LogSink, quarantine_bytes
from knowhub.stores.files.log.rewrite import remove_unused_files, write_first_manifest

_LOG_ID_DIGITS = 32


@dataclass(slots=True)
class Loaded:
    """The result of opening: the end of the log, the damage, and the files in the quarantine."""

    log_id: str
    position: Position
    stamp: int
    damage: list[Damage]
    quarantined: list[Path] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The files of an open store, and its clock and ids."""

    files: FileSystem
    directory: DataDirectory
    log: ChangeLog
    lock: LockFile
    clock: Clock
    ids: Ids


def load(context: StoreContext, sink: LogSink) -> Loaded:
    """Read the base and the log after it under the writers' lock, and pass each good line to `sink`.

    Idempotent: opening twice writes nothing the second time. Raises OSError and Unavailable.
    """
    log, lock = context.log, context.lock
    _create_log(context)
    bounds = LogBounds.of(log, lock)
    if bounds.base is not None and bounds.missing[:1] == [bounds.base ^ BASE]:
        path = log.path(bounds.base ^ BASE)
        raise Unavailable(f"{path} is missing, with which the log goes on behind its base. {PUT_LOG_BACK}")
    reader = LogReader(log, sink)
    reader.read(bounds)
    if not bounds.segments:
        raise Unavailable(f"{reader.damage[0]}. {PUT_LOG_BACK}")
    last = bounds.segments[-1]
    if bounds.vanished is not None:
        # Its operations were acknowledged.
        reader.report(log.path(bounds.vanished.segment), 0, "LOCK says that it was written, and it is missing")
    position = Position(log.generation or reader.generation, last, reader.ends[last])
    loaded = Loaded(reader.log_id, position, lock.stamp, reader.damage)
    # After a failed write the segment stays as it is: the next write starts a new segment.
    lock_fits = bounds.position is not None and bounds.position.segment == last
    if not loaded.damage and not (lock_fits and lock.is_suspect):
        _sync_tail(context, loaded, lock_fits=lock_fits)
        _clean_files(context, loaded)
        loaded.stamp = lock.publish(loaded.position, log.inode(last))
    return loaded


def start_segment(context: StoreContext, previous: Position, log_id: str, first_seq: int) -> Position:
    """Start a segment. Its header says where the segment before it ends. Raises OSError."""
    segment = previous.segment + 1
    header = Header(log_id, segment, previous.generation, first_seq, previous.offset)
    length = context.log.create(header)
    return Position(previous.generation, segment, length)


def _create_log(context: StoreContext) -> None:
    folder = context.directory.change_log
    context.files.make_folder(folder)
    write_format(context.files, context.directory)
    if not context.log.segments() and context.log.base is None:
        context.log.create(Header(context.ids.hex(_LOG_ID_DIGITS), 1, 1, 1, None))
        context.files.sync_folder(folder.parent)


def _clean_files(context: StoreContext, loaded: Loaded) -> None:
    """Write a manifest if there is none, and remove the files of rewrites that died."""
    files, log, position = context.files, context.log, loaded.position
    with _tolerate_full_disk():
        # Without a manifest all files are used.
        write_first_manifest(files, log, position.generation)
        with try_lock_folder(files, context.directory.change_log) as is_claimed:
            if is_claimed:
                remove_unused_files(files, log)
    loaded.position = Position(log.generation or position.generation, position.segment, position.offset)


def _sync_tail(context: StoreContext, loaded: Loaded, *, lock_fits: bool) -> None:
    """Make durable what was read, and move torn bytes at the end of the log to the quarantine."""
    log, segment, end = context.log, loaded.position.segment, loaded.position.offset
    if not lock_fits:
        # What can be read may not be on the disk yet. It must be, before anything is written after it.
        log.sync(segment)
        context.files.sync_folder(context.directory.change_log)
        context.files.sync_folder(context.directory.root)
    if log.size(segment) > end:
        with _tolerate_full_disk():
            # Torn bytes that stay are never read: the next write starts a new segment.
            name, data = f"{log.path(segment).stem}-at-{end}", log.read(segment, end, log.size(segment))
            loaded.quarantined.append(quarantine_bytes(context.files, context.directory.quarantine, name, data))
            context.log.truncate(segment, end)


@contextmanager
def _tolerate_full_disk() -> Iterator[None]:
    """Go on where the disk is full: it must not stop reading."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
