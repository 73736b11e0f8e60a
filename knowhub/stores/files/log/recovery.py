"""Where a log ends, and what in it is damaged: torn bytes were never acknowledged, damaged ones were."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowhub.core.clock import Clock, iso
from knowhub.core.operation import Group
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.log.change_log import ChangeLog, Line, lines_of

ODD_SHAPE = (KeyError, TypeError, ValueError, AttributeError)
"""What comes of reading rows that are no rows of this KnowHub."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Acknowledged bytes that do not read back: where they stand, and what is wrong."""

    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


@dataclass(slots=True)
class Judged:
    """The lines of one segment that count, where it ends, and what in it is damaged.

    `lines` are read as they are asked for, so that a segment's million rows are never there at once; `damage` is
    complete when they have all been read.
    """

    end: int
    lines: Iterator[Line] = field(default_factory=lambda: iter(()))
    damage: list[Damage] = field(default_factory=list)


def judge(path: Path, data: bytes, start: int, next_seq: int, *, durable: bool, after_damage: bool = False) -> Judged:
    """Read a segment's lines from offset `start`, of which the first should carry `next_seq`.

    With `durable` all of `data` was acknowledged, and every bad line is damage. Without, the log alone decides:
    a bad line that a later batch follows is damage; in the last batch all from its first bad line on is torn.
    With `after_damage` operations before these are lost, so that the first number may be a later one.
    """
    judged = Judged(start + len(data))
    if not durable:
        marks = [_mark(line) for line in _sequenced(lines_of(data, start), next_seq, after_bad=after_damage)]
        judged.end = _durable_end(marks, judged.end)
    judged.lines = _good_lines(judged, path, _sequenced(lines_of(data, start), next_seq, after_bad=after_damage))
    return judged


def _good_lines(judged: Judged, path: Path, lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if line.offset >= judged.end:
            return
        if line.operation is None:
            judged.damage.append(Damage(str(path), line.offset, _reason(line)))
        else:
            yield line


def taken(path: Path, line: Line, take: Callable[[Line], object]) -> Damage | None:
    """Hand on a line that counts; name it where its checksum is right and no KnowHub of this format has written it."""
    try:
        take(line)
    except ODD_SHAPE as problem:
        return Damage(str(path), line.offset, f"it is no line of this KnowHub's log ({problem!r})")
    return None


def quarantine(files: FileSystem, folder: Path, log: ChangeLog, segment: int, start: int, clock: Clock) -> Path:
    """Keep the bytes of a segment from `start` on in a file of their own; return it."""
    data = log.read(segment, start, log.size(segment))
    files.make_folder(folder)
    moment = iso(clock.now()).replace(":", "").replace("-", "").replace(".", "")
    kept = folder / f"{log.path(segment).stem}-at-{start}-{moment}.bytes"
    replace_file(files, kept, data)
    return kept


def _sequenced(lines: Iterator[Line], next_seq: int, *, after_bad: bool) -> Iterator[Line]:
    """Take a line that stands out of sequence for a bad one; a gap is believed only behind a bad line."""
    for line in lines:
        seq = line.operation.seq if line.operation else None
        in_sequence = seq is not None and (seq == next_seq or (after_bad and seq > next_seq))
        if not in_sequence:
            after_bad = True
            yield Line(line.offset, line.data, is_whole=False)
            continue
        after_bad = False
        next_seq = seq + 1 if seq is not None else next_seq
        yield line


@dataclass(frozen=True, slots=True)
class _Mark:
    """What tells where a log ends, of a line whose rows need not be kept for that."""

    offset: int
    is_good: bool
    batch: int
    group: Group | None


def _mark(line: Line) -> _Mark:
    operation = line.operation
    if operation is None:
        return _Mark(line.offset, is_good=False, batch=0, group=None)
    return _Mark(line.offset, is_good=True, batch=operation.batch, group=operation.group)


def _durable_end(marks: Sequence[_Mark], end: int) -> int:
    last_good = next((mark for mark in reversed(marks) if mark.is_good), None)
    batch = last_good.batch if last_good else 0
    for mark in marks:
        if not mark.is_good and mark.offset >= batch:
            end = mark.offset
            break
    return _whole_group_end([mark for mark in marks if mark.offset < end], end)


def _whole_group_end(marks: Sequence[_Mark], end: int) -> int:
    """Cut a group of operations of which the last is missing: they were to be all or none."""
    group = marks[-1].group if marks else None
    if group is None or group.index == group.of - 1:
        return end
    for mark in reversed(marks):
        if not mark.is_good or mark.group is None or mark.group.id != group.id:
            break
        end = mark.offset
    return end


def _reason(line: Line) -> str:
    if not line.data.strip(b"\0"):
        return "a run of NUL bytes"
    if not line.data.endswith(b"\n"):
        return "a line without an end"
    return "its checksum, its JSON or its sequence number is wrong"
