"""Find the end of a log and its damage. Torn bytes were never acknowledged; damaged bytes were."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.operation import Group
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.log.change_log import Line

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


def check_sequence(lines: Iterable[Line], next_seq: int, *, after_bad: bool) -> Iterator[Line]:
    """Mark lines with a wrong number as bad. The first should have the number `next_seq`.

    A gap in the numbers is accepted only after a bad line, or at the beginning with `after_bad`.
    """
    for line in lines:
        operation = line.operation
        seq = operation.seq if operation is not None else -1
        if seq == next_seq or (after_bad and seq > next_seq):
            after_bad, next_seq = False, seq + 1
            yield line
        else:
            after_bad = True
            yield Line(line.offset, line.data, is_whole=False)


def find_durable_end(lines: Iterable[Line], end: int) -> int:
    """Return where the acknowledged lines of a segment end, by the log alone; `lines` come from `check_sequence`.

    A bad line that a later batch follows is damage; in the last batch all from its first bad line on is torn.
    """
    marks = [_mark(line) for line in lines]
    last_good = next((mark for mark in reversed(marks) if mark.is_good), None)
    batch = last_good.batch if last_good else 0
    for mark in marks:
        if not mark.is_good and mark.offset >= batch:
            end = mark.offset
            break
    return _group_end([mark for mark in marks if mark.offset < end], end)


def describe_damage(line: Line) -> str:
    """Say what is wrong with a bad line."""
    if not line.data.strip(b"\0"):
        return "a run of NUL bytes"
    if not line.data.endswith(b"\n"):
        return "a line without an end"
    return "its checksum, its JSON or its sequence number is wrong"


def quarantine_bytes(files: FileSystem, folder: Path, name: str, data: bytes) -> Path:
    """Store bytes in a file of their own, durably; the same bytes go to the same file. Raises OSError."""
    files.make_folder(folder)
    path = folder / f"{name}-{zlib.crc32(data):08x}.bytes"
    if files.inode(path) is None:
        replace_file(files, path, data)
        files.sync_folder(folder.parent)
    return path


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
