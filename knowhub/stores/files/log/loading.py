"""Opening a log: read what counts, cut what was never acknowledged, name what is damaged."""

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
from knowhub.stores.files.lock import LockFile, Position
from knowhub.stores.files.log.change_log import ChangeLog, Header, Line
from knowhub.stores.files.log.log_base import BaseHeader
from knowhub.stores.files.log.recovery import Damage, Judged, judge, quarantine, taken

_LOG_ID_DIGITS = 32


@dataclass(slots=True)
class Loaded:
    """What opening found: where the log ends, what is damaged, what was cut and kept elsewhere."""

    header: Header
    position: Position
    stamp: int
    damage: list[Damage] = field(default_factory=list)
    quarantined: list[Path] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Opening:
    """The parts that opening works on."""

    files: FileSystem
    directory: DataDirectory
    log: ChangeLog
    lock: LockFile
    clock: Clock
    ids: Ids


class Taker(Protocol):
    """Where what is read goes: first a base's header and its lines, then the lines of the segments behind it."""

    def begin_after(self, base: BaseHeader) -> None: ...
    def take_rows(self, number: int, line: Line) -> None: ...
    def take_in(self, segment: int, line: Line) -> None: ...


def load(opening: Opening, taker: Taker, next_seq: Callable[[], int]) -> Loaded:
    """Read the newest base and the log behind it under the writers' lock, handing each good line to `taker`.

    Idempotent: opening twice writes nothing the second time. Raises OSError and Unavailable.
    """
    log, lock = opening.log, opening.lock
    _make(opening)
    loaded = Loaded(Header("", 0, 1, 1, None), Position(1, 0, 0), 0)
    base = _load_base(opening, taker, loaded)
    segments = [segment for segment in log.segments() if base is None or segment >= base.segment]
    if base is not None and segments[:1] != [base.segment]:
        path = log.path(base.segment)
        raise Unavailable(f"{path} is missing, with which the log goes on behind its base. {PUT_LOG_BACK}")
    headers = {segment: _header(opening, segment, loaded) for segment in segments}
    trusted = _trusted_length(opening, segments, headers[segments[-1]][1])
    end = 0
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        length = headers[following][0].previous_length if following else trusted
        part = (segment, headers[segment][1], length)
        judged, missing = _judge(opening, part, next_seq(), after_damage=bool(loaded.damage))
        path, take = log.path(segment), partial(taker.take_in, segment)
        odd = [damage for line in judged.lines if (damage := taken(path, line, take))]
        # Both are told in the order in which they stand.
        loaded.damage += sorted([*judged.damage, *odd, *missing], key=lambda damage: damage.offset)
        end = judged.end
    loaded.damage += _vanished(opening, segments)
    loaded.header = headers[segments[-1]][0]
    generation = max(loaded.header.generation, base.generation if base else 1)
    loaded.position = Position(generation, segments[-1], end)
    loaded.stamp = lock.stamp
    # A segment that a failed write has spoilt stays as it is: the first write goes to a fresh one.
    spoilt = trusted is not None and lock.suspect and lock.segment == segments[-1]
    if not loaded.damage and not spoilt:
        _settle_tail(opening, loaded, lock_fits=trusted is not None and lock.segment == segments[-1])
        loaded.stamp = lock.publish(loaded.position, log.inode(segments[-1]))
    return loaded


def start_segment(opening: Opening, previous: Position, log_id: str, first_seq: int) -> Position:
    """Begin a fresh segment whose header says where the one before it ends. Raises OSError."""
    segment = previous.segment + 1
    header = Header(log_id, segment, previous.generation, first_seq, previous.offset)
    length = opening.log.create(header)
    return Position(previous.generation, segment, length)


def _load_base(opening: Opening, taker: Taker, loaded: Loaded) -> BaseHeader | None:
    """Read the newest base that is whole; None where the log begins with its first segment."""
    log = opening.log
    for number in reversed(log.bases()):
        header, start = log.base_header(number)
        if header is None:
            loaded.damage.append(Damage(str(log.path(number)), 0, "the base is damaged: its header or its end"))
            continue
        taker.begin_after(header)
        path, take = log.path(number), partial(taker.take_rows, number)
        for line in log.lines(number, start, log.size(number)):
            if line.base_line is None:
                loaded.damage.append(Damage(str(path), line.offset, "its checksum or its JSON is wrong"))
            elif (damage := taken(path, line, take)) is not None:
                loaded.damage.append(damage)
        return header
    return None


def _make(opening: Opening) -> None:
    folder = opening.directory.change_log
    opening.files.make_folder(folder)
    write_format(opening.files, opening.directory)
    if not opening.log.segments() and not opening.log.bases():
        opening.log.create(Header(opening.ids.hex(_LOG_ID_DIGITS), 1, 1, 1, None))
        opening.files.sync_folder(folder.parent)


def _trusted_length(opening: Opening, segments: Sequence[int], header_length: int) -> int | None:
    """Return the durable length of the last segment as LOCK tells it; None when LOCK is not to be believed."""
    read = opening.lock.read()
    if read is None:
        return None
    position = read[1]
    if position.segment not in segments or not opening.lock.believed(opening.log.inode(position.segment)):
        return None
    # A segment that was begun and not yet written to when its maker died holds nothing but its header.
    return position.offset if position.segment == segments[-1] else header_length


def _vanished(opening: Opening, segments: Sequence[int]) -> list[Damage]:
    """Name the segment that LOCK says was written and that is not there: its operations were acknowledged."""
    read = opening.lock.read()
    # The segment's inode cannot be had: LOCK's own, and the boot, must do.
    if read is None or read[1].segment in segments or not opening.lock.believed(None):
        return []
    return [Damage(str(opening.log.path(read[1].segment)), 0, "LOCK says that it was written, and it is missing")]


def _judge(
    opening: Opening, part: tuple[int, int, int | None], next_seq: int, *, after_damage: bool
) -> tuple[Judged, list[Damage]]:
    """Judge a segment from an offset to its durable length, None where the log alone tells that; name what is gone."""
    log, (segment, start, length) = opening.log, part
    size = log.size(segment)
    end = size if length is None else length
    # A LOCK with a flipped bit may tell of more bytes than there is memory for.
    data, durable = log.read(segment, start, min(end, size)), length is not None
    judged = judge(log.path(segment), data, start, next_seq, durable=durable, after_damage=after_damage)
    if size >= end:
        return judged, []
    judged.end = end
    return judged, [
        Damage(str(log.path(segment)), size, f"the file ends here, {end - size} acknowledged bytes are gone")
    ]


def _header(opening: Opening, segment: int, loaded: Loaded) -> tuple[Header, int]:
    header, length = opening.log.header(segment)
    if header is None:
        loaded.damage.append(Damage(str(opening.log.path(segment)), 0, "the segment's header is damaged"))
        header = Header("", segment, 1, 0, None)
    return header, length


def _settle_tail(opening: Opening, loaded: Loaded, *, lock_fits: bool) -> None:
    segment, end = loaded.position.segment, loaded.position.offset
    if not lock_fits:
        # Nobody vouches that what reads back is on the disk: make it so before anything is built on it.
        opening.log.sync(segment)
        opening.files.sync_folder(opening.directory.change_log)
        opening.files.sync_folder(opening.directory.root)
    if opening.log.size(segment) > end:
        _cut_tail(opening, loaded, segment, end)


def _cut_tail(opening: Opening, loaded: Loaded, segment: int, end: int) -> None:
    try:
        kept = quarantine(opening.files, opening.directory.quarantine, opening.log, segment, end, opening.clock)
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        # A full disk must not stop reading: the torn bytes stay behind the end, and writing leaves the segment.
        return
    loaded.quarantined.append(kept)
    opening.log.cut(segment, end)
