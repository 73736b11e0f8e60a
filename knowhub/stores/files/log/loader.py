"""Open a log: load all good lines, remove what was never acknowledged, and report damage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from knowhub.core.clock import Clock
from knowhub.core.errors import Unavailable
from knowhub.core.ids import Ids
from knowhub.stores.files.data_directory import PUT_LOG_BACK, DataDirectory, write_format
from knowhub.stores.files.filesystem import NO_ROOM, FileSystem
from knowhub.stores.files.lock import LockFile, Position, try_lock_folder
from knowhub.stores.files.log.change_log import ChangeLog, Header, Line
from knowhub.stores.files.log.log_line import BaseHeader
from knowhub.stores.files.log.log_manifest import MANIFEST
from knowhub.stores.files.log.recovery import Damage, SegmentCheck, check_segment, quarantine, try_load
from knowhub.stores.files.log.rewrite import remove_unused_files, write_first_manifest

_LOG_ID_DIGITS = 32


@dataclass(slots=True)
class Loaded:
    """The result of opening: the end of the log, the damage, and the files in the quarantine."""

    header: Header
    position: Position
    stamp: int
    damage: list[Damage] = field(default_factory=list)
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


class LogSink(Protocol):
    """Receives what is read: the header and the lines of the base, then the lines of the segments."""

    def begin_after(self, base: BaseHeader) -> None: ...
    def load_rows(self, number: int, line: Line) -> None: ...
    def load_operation(self, segment: int, line: Line) -> None: ...


def load(context: StoreContext, sink: LogSink, next_seq: Callable[[], int]) -> Loaded:
    """Read the newest base and the log behind it under the writers' lock, handing each good line to `sink`.

    Idempotent: opening twice writes nothing the second time. Raises OSError and Unavailable.
    """
    log, lock = context.log, context.lock
    _make(context)
    loaded = Loaded(Header("", 0, 1, 1, None), Position(1, 0, 0), 0)
    if log.active.problem is not None:
        loaded.damage.append(Damage(str(log.folder / MANIFEST), 0, log.active.problem))
    loaded.damage += [Damage(str(path), 0, "the manifest names it, and it is missing") for path in log.active.missing()]
    base = _load_base(context, sink, loaded)
    segments = [segment for segment in log.segments() if base is None or segment >= base.segment]
    if base is not None and segments[:1] != [base.segment]:
        path = log.path(base.segment)
        raise Unavailable(f"{path} is missing, with which the log goes on behind its base. {PUT_LOG_BACK}")
    if not segments:
        raise Unavailable(f"{loaded.damage[0]}. {PUT_LOG_BACK}")
    headers = {segment: _header(context, segment, loaded) for segment in segments}
    trusted = _read_trusted_length(context, segments, headers[segments[-1]][1])
    end = 0
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        length = headers[following][0].previous_length if following else trusted
        part = (segment, headers[segment][1], length)
        judged, missing = _describe(context, part, next_seq(), after_damage=bool(loaded.damage))
        path, take = log.path(segment), partial(sink.load_operation, segment)
        odd = [damage for line in judged.lines if (damage := try_load(path, line, take))]
        # All damage in the order of the file.
        loaded.damage += sorted([*judged.damage, *odd, *missing], key=lambda damage: damage.offset)
        end = judged.end
    loaded.damage += _find_missing(context, segments)
    loaded.header = headers[segments[-1]][0]
    generation = log.active.generation or max(loaded.header.generation, base.generation if base else 1)
    loaded.position = Position(generation, segments[-1], end)
    loaded.stamp = lock.stamp
    # After a failed write the segment stays as it is: the next write starts a new segment.
    spoilt = trusted is not None and lock.suspect and lock.segment == segments[-1]
    if not loaded.damage and not spoilt:
        _sync_tail(context, loaded, lock_fits=trusted is not None and lock.segment == segments[-1])
        _clean_files(context, loaded)
        loaded.stamp = lock.publish(loaded.position, log.inode(segments[-1]))
    return loaded


def start_segment(context: StoreContext, previous: Position, log_id: str, first_seq: int) -> Position:
    """Start a segment. Its header says where the segment before it ends. Raises OSError."""
    segment = previous.segment + 1
    header = Header(log_id, segment, previous.generation, first_seq, previous.offset)
    length = context.log.create(header)
    return Position(previous.generation, segment, length)


def _load_base(context: StoreContext, sink: LogSink, loaded: Loaded) -> BaseHeader | None:
    """Load the newest complete base; return None if there is no base."""
    log = context.log
    for number in reversed(log.bases()):
        header, start = log.base_header(number)
        if header is None:
            loaded.damage.append(Damage(str(log.path(number)), 0, "the base is damaged: its header or its end"))
            continue
        sink.begin_after(header)
        path, take = log.path(number), partial(sink.load_rows, number)
        for line in log.lines(number, start, log.size(number)):
            if line.base_line is None:
                loaded.damage.append(Damage(str(path), line.offset, "its checksum or its JSON is wrong"))
            elif (damage := try_load(path, line, take)) is not None:
                loaded.damage.append(damage)
        return header
    return None


def _make(context: StoreContext) -> None:
    folder = context.directory.change_log
    context.files.make_folder(folder)
    write_format(context.files, context.directory)
    if not context.log.segments() and not context.log.bases():
        context.log.create(Header(context.ids.hex(_LOG_ID_DIGITS), 1, 1, 1, None))
        context.files.sync_folder(folder.parent)


def _read_trusted_length(context: StoreContext, segments: Sequence[int], header_length: int) -> int | None:
    """Return the durable length of the last segment according to LOCK; None if LOCK is not trusted."""
    read = context.lock.read()
    if read is None:
        return None
    position = read[1]
    if position.segment not in segments or not context.lock.is_trusted(context.log.inode(position.segment)):
        return None
    # If the process that started this segment died before it published, it contains only its header.
    return position.offset if position.segment == segments[-1] else header_length


def _find_missing(context: StoreContext, segments: Sequence[int]) -> list[Damage]:
    """Report a segment that LOCK names and that is missing: its operations were acknowledged."""
    read = context.lock.read()
    # The segment has no inode to compare, so only the inode of LOCK and the boot count.
    if read is None or read[1].segment in segments or not context.lock.is_trusted(None):
        return []
    return [Damage(str(context.log.path(read[1].segment)), 0, "LOCK says that it was written, and it is missing")]


def _describe(
    context: StoreContext, part: tuple[int, int, int | None], next_seq: int, *, after_damage: bool
) -> tuple[SegmentCheck, list[Damage]]:
    """Check a segment up to its durable length, None if only the log itself can tell; report missing bytes."""
    log, (segment, start, length) = context.log, part
    size = log.size(segment)
    end = size if length is None else length
    # A flipped bit in LOCK may name more bytes than fit into memory.
    data, durable = log.read(segment, start, min(end, size)), length is not None
    judged = check_segment(log.path(segment), data, start, next_seq, durable=durable, after_damage=after_damage)
    if size >= end:
        return judged, []
    judged.end = end
    return judged, [
        Damage(str(log.path(segment)), size, f"the file ends here, {end - size} acknowledged bytes are gone")
    ]


def _header(context: StoreContext, segment: int, loaded: Loaded) -> tuple[Header, int]:
    header, length = context.log.header(segment)
    if header is None:
        loaded.damage.append(Damage(str(context.log.path(segment)), 0, "the segment's header is damaged"))
        header = Header("", segment, 1, 0, None)
    return header, length


def _clean_files(context: StoreContext, loaded: Loaded) -> None:
    """Write a manifest if there is none, and remove the files of rewrites that died."""
    files, log, directory = context.files, context.log, context.directory
    try:
        write_first_manifest(files, log, loaded.position.generation)
        with try_lock_folder(files, directory.change_log) as is_claimed:
            if is_claimed:
                remove_unused_files(files, log)
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        # A full disk must not stop reading. Without a manifest all files are used.
    position = loaded.position
    loaded.position = Position(log.active.generation or position.generation, position.segment, position.offset)


def _sync_tail(context: StoreContext, loaded: Loaded, *, lock_fits: bool) -> None:
    segment, end = loaded.position.segment, loaded.position.offset
    if not lock_fits:
        # What can be read may not be on the disk yet. It must be, before anything is written after it.
        context.log.sync(segment)
        context.files.sync_folder(context.directory.change_log)
        context.files.sync_folder(context.directory.root)
    if context.log.size(segment) > end:
        _truncate_tail(context, loaded, segment, end)


def _truncate_tail(context: StoreContext, loaded: Loaded, segment: int, end: int) -> None:
    try:
        kept = quarantine(context.files, context.directory.quarantine, context.log, segment, end, context.clock)
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        # A full disk must not stop reading. The torn bytes stay, and the next write starts a new segment.
        return
    loaded.quarantined.append(kept)
    context.log.truncate(segment, end)
