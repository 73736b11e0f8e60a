"""Read the lines of a segment out of bytes, as a store reads them out of a file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowhub.stores.files.log.change_log import ChangeLog, Line, split_lines
from knowhub.stores.files.log.log_line import BaseHeader
from knowhub.stores.files.log.log_reader import Damage, LogReader


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """The good lines of a segment, its damage, and its end."""

    lines: Sequence[Line]
    damage: Sequence[Damage]
    end: int


def read_segment(data: bytes, start: int, next_seq: int, *, durable: bool) -> SegmentRead:
    """Read bytes that begin at offset `start` with the operation `next_seq`."""
    lines = _Lines()
    reader = LogReader(_SegmentBytes(data, start), lines, next_seq - 1)
    size = start + len(data)
    end = reader.read_lines(1, start, size, size if durable else None)
    return SegmentRead(lines.good, reader.damage, end)


class _SegmentBytes(ChangeLog):
    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start

    def path(self, number: int) -> Path:
        return Path("segment")

    def lines(self, number: int, start: int, end: int) -> Iterator[Line]:
        return split_lines(0, self._data[start - self._start : end - self._start], start)


class _Lines:
    def __init__(self) -> None:
        self.good: list[Line] = []

    def begin_after(self, base: BaseHeader) -> None:
        raise NotImplementedError

    def load_rows(self, line: Line) -> None:
        raise NotImplementedError

    def load_operation(self, line: Line) -> None:
        self.good.append(line)
