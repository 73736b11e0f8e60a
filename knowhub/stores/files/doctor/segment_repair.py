"""The parts of a damaged segment: good lines stay, damaged bytes are replaced by a line for each lost operation."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from knowhub.core.ids import operation_id
from knowhub.core.operation import Operation
from knowhub.stores.files.doctor.log_contents import LOST_OPERATION
from knowhub.stores.files.log.change_log import Header
from knowhub.stores.files.log.log_line import SEAL_BYTES, encode, seal

_ACTOR: Final = "agent:doctor"
_ROW_ID: Final = re.compile(rb'"collection":"([a-z_]+)","id":"([^"\\]{1,512})"')


class _ZeroIds:
    """Makes the ids of lost operations: nobody knows their real ids."""

    def hex(self, digits: int) -> str:
        return "0" * digits


class Entry(NamedTuple):
    """A line of a segment; `seq` is None for a damaged line."""

    offset: int
    end: int
    seq: int | None
    time: float


@dataclass(slots=True)
class Run:
    """Good lines with consecutive numbers. `time` is that of the last operation."""

    offset: int
    end: int
    first_seq: int
    last_seq: int
    time: float


@dataclass(slots=True)
class Gap:
    """Bytes between two offsets that are no good lines, and `missing` bytes that the file should have after them.

    `count` operations from `first_seq` on are lost here.
    """

    offset: int
    end: int
    missing: int = 0
    first_seq: int = 0
    count: int = 0

    @property
    def room(self) -> int:
        """How many bytes new lines can take without moving later lines."""
        return self.end - self.offset + self.missing


Piece: TypeAlias = Run | Gap
"""A part of a segment."""


@dataclass(slots=True)
class SegmentParts:
    """What was read of a segment. Its lines end at `stop`. The next segment needs it to have `min_size` bytes."""

    number: int
    header: Header | None
    header_bytes: bytes
    pieces: list[Piece]
    stop: int
    min_size: int | None

    @property
    def gaps(self) -> list[Gap]:
        return [piece for piece in self.pieces if isinstance(piece, Gap)]

    @property
    def first_seq(self) -> int | None:
        """The number of the first operation, from the header or a good line; None if neither is there."""
        if self.header is not None:
            return self.header.first_seq
        return next((piece.first_seq for piece in self.pieces if isinstance(piece, Run)), None)


def find_pieces(entries: Sequence[Entry], last_seq: int, start: int, end: int) -> list[Piece]:
    """Divide the lines of a segment, from `start` to `end`, into runs of good lines and gaps.

    Lines are good if their numbers rise. If some do not, because somebody moved lines, the most lines that do are good.
    """
    good = _longest_rising([entry.seq for entry in entries], last_seq)
    pieces: list[Piece] = []
    at = entries[-1].end if entries else start
    for index, (offset, line_end, seq, time) in enumerate(entries):
        last = pieces[-1] if pieces else None
        if seq is None or index not in good:
            if isinstance(last, Gap):
                last.end = line_end
            else:
                pieces.append(Gap(offset, line_end))
            continue
        if isinstance(last, Run) and seq == last.last_seq + 1:
            last.end, last.last_seq, last.time = line_end, seq, time
        else:
            if not isinstance(last, Gap) and seq != last_seq + 1:
                # Somebody removed complete lines: nothing is left of them.
                pieces.append(Gap(offset, offset))
            pieces.append(Run(offset, line_end, seq, seq, time))
        last_seq = seq
    if at < end:
        if not (pieces and isinstance(pieces[-1], Gap)):
            pieces.append(Gap(at, at))
        gap = pieces[-1]
        if isinstance(gap, Gap):
            gap.missing = end - at
    return pieces


def estimate_lost(gap: Gap, data: bytes) -> int:
    """Return how many operations a gap may have held at most, where nothing else says that."""
    shortest = len(lost_line(gap.first_seq, 0, 0.0))
    parts = [part for part in data.split(b"\n") if part]
    # A run of NUL bytes may have replaced line ends, and so may missing bytes have held some.
    found = sum(max(1, len(part) // shortest) if b"\0" in part else max(1, part.count(b'{"seq":')) for part in parts)
    return max(found, 1 if gap.room > 0 else 0) + max(0, gap.missing) // shortest


def find_row_ids(data: bytes) -> list[str]:
    """Return the rows that damaged bytes still name."""
    found = _ROW_ID.finditer(data)
    return list(dict.fromkeys(f"{match[1].decode()} {match[2].decode(errors='replace')}" for match in found))


def lost_line(seq: int, offset: int, time: float) -> bytes:
    """Return the line that replaces a lost operation. It changes no row."""
    lost = Operation(seq, operation_id(seq, _ZeroIds()), LOST_OPERATION, "default", _ACTOR, time, [])
    return encode(lost, [], offset)


def pad_line(line: bytes, count: int) -> bytes:
    """Return a line that is longer by some spaces before its checksum."""
    return seal(line[:-SEAL_BYTES] + b" " * count)


def _longest_rising(seqs: Sequence[int | None], after_seq: int) -> set[int]:
    """Return the indexes of a longest run of rising numbers above `after_seq`."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for index, seq in enumerate(seqs):
        if seq is None or seq <= after_seq:
            continue
        at = bisect_left(tails, seq)
        before[index] = ends[at - 1] if at else None
        tails[at : at + 1] = [seq]
        ends[at : at + 1] = [index]
    chosen: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        chosen.add(last)
        last = before[last]
    return chosen
