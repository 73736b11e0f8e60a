"""Find the end of a log and its damage. Torn bytes were never acknowledged; damaged bytes were."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowhub.core.clock import Clock, iso
from knowhub.core.operation import Group
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.log.change_log import ChangeLog, Line

SHAPE_ERRORS = (KeyError, TypeError, ValueError, AttributeError)
"""The errors of reading a line that another program wrote."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Acknowledged bytes that cannot be read: their position, and what is wrong."""

    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


@dataclass(slots=True)
class SegmentCheck:
    """The good lines of a segment, its end, and its damage.

    `lines` is an iterator, so that the rows of a segment are never in memory at once. `damage` is complete after the
    last line.
    """

    end: int
    lines: Iterator[Line] = field(default_factory=lambda: iter(()))
    damage: list[Damage] = field(default_factory=list)


def check_segment(
    path: Path,
    read: Callable[[], Iterator[Line]],
    end: int,
    next_seq: int,
    *,
    durable: bool,
    after_damage: bool = False,
) -> SegmentCheck:
    """Check the lines of a segment that `read()` yields up to `end`. The first should have the number `next_seq`.

    With `durable` all of them were acknowledged, and every bad line is damage. Without, the log alone decides:
    a bad line that a later batch follows is damage; in the last batch all from its first bad line on is torn.
    With `after_damage` operations before these are lost, so that the first number may be a later one.
    """
    judged = SegmentCheck(end)
    if not durable:
        marks = [_mark(line) for line in _check_sequence(read(), next_seq, after_bad=after_damage)]
        judged.end = _durable_end(marks, judged.end)
    judged.lines = _valid_lines(judged, path, _check_sequence(read(), next_seq, after_bad=after_damage))
    return judged


def _valid_lines(judged: SegmentCheck, path: Path, lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if line.offset >= judged.end:
            return
        if not line.is_whole:
            judged.damage.append(Damage(str(path), line.offset, _reason(line)))
        else:
            yield line


def try_load(path: Path, line: Line, take: Callable[[Line], object]) -> Damage | None:
    """Load a line; return damage if its checksum is right but another program wrote it."""
    try:
        take(line)
    except SHAPE_ERRORS as problem:
        return Damage(str(path), line.offset, f"it is no line of this KnowHub's log ({problem!r})")
    return None


def quarantine(files: FileSystem, folder: Path, log: ChangeLog, segment: int, start: int, clock: Clock) -> Path:
    """Store the bytes of a segment from `start` on in a file of their own; return its path."""
    data = log.read(segment, start, log.size(segment))
    files.make_folder(folder)
    moment = iso(clock.now()).replace(":", "").replace("-", "").replace(".", "")
    kept = folder / f"{log.path(segment).stem}-at-{start}-{moment}.bytes"
    replace_file(files, kept, data)
    return kept


def _check_sequence(lines: Iterator[Line], next_seq: int, *, after_bad: bool) -> Iterator[Line]:
    """Mark lines with a wrong number as bad. A gap in the numbers is accepted only after a bad line."""
    for line in lines:
        operation = line.operation
        seq = operation.seq if operation is not None else -1
        if seq == next_seq or (after_bad and seq > next_seq):
            after_bad, next_seq = False, seq + 1
            yield line
        else:
            after_bad = True
            yield Line(line.offset, line.data, is_whole=False)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is needed of a line to find the end of the log."""

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
    return _group_end([mark for mark in marks if mark.offset < end], end)


def _group_end(marks: Sequence[_Mark], end: int) -> int:
    """Remove a group of operations whose last operation is missing: all of a group counts, or nothing."""
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
