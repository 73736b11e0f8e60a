"""Making a damaged log whole again: every good line stays, damaged bytes go to quarantine, what is lost is named."""

import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knowhub.core.ids import operation_id
from knowhub.core.operation import Operation
from knowhub.stores.files.doctor.inspected_log import LOST
from knowhub.stores.files.filesystem import FileSystem, replace_file
from knowhub.stores.files.log.change_log import Line
from knowhub.stores.files.log.log_line import encode, seal

_ACTOR = "agent:doctor"
_SEAL_FROM = b',"crc":"'
_ID = re.compile(rb'"collection":"([a-z_]+)","id":"([^"\\]{1,512})"')


@dataclass(slots=True)
class Gap:
    """Bytes of a segment that are no good lines, `missing` more that are not even there, and what is lost in them.

    `count` operations from `first_seq` on are lost; what they touched is read out of the bytes, as far as that goes.
    """

    offset: int
    data: bytes
    missing: int = 0
    first_seq: int = 0
    count: int = 0

    @property
    def length(self) -> int:
        return len(self.data) + self.missing

    @property
    def touched(self) -> list[str]:
        """Return what the bytes still tell of the rows that were changed in them."""
        return list(
            dict.fromkeys(
                f"{found[1].decode()} {found[2].decode(errors='replace')}" for found in _ID.finditer(self.data)
            )
        )


@dataclass(slots=True)
class Part:
    """What stands between two offsets of a segment: good lines, and gaps between them."""

    pieces: list["Line | Gap"] = field(default_factory=list)

    @property
    def gaps(self) -> list[Gap]:
        return [piece for piece in self.pieces if isinstance(piece, Gap)]

    @property
    def begins_with_gap(self) -> bool:
        """Whether there is no good header either."""
        return bool(self.gaps) and self.pieces[0] is self.gaps[0] and self.gaps[0].offset == 0

    def put_first(self, gap: Gap) -> None:
        """Put what stands in the place of a header before the rest, as one with a gap that follows it."""
        if self.pieces and isinstance(self.pieces[0], Gap):
            first = self.pieces.pop(0)
            gap = Gap(gap.offset, gap.data + first.data, first.missing) if isinstance(first, Gap) else gap
        self.pieces.insert(0, gap)

    @property
    def first_seq(self) -> int | None:
        """The number of the first good operation; None when there is none."""
        return next((seq_of_line(piece) for piece in self.pieces if isinstance(piece, Line)), None)


class NoDigits:
    """Operations that are lost have no id that anybody knows: theirs ends in nothing but zeros."""

    def hex(self, digits: int) -> str:
        return "0" * digits


def seq_of_line(line: Line) -> int:
    """Return the number of a good line's operation."""
    return seq_told(line) or 0


def seq_told(line: Line) -> int | None:
    """Return the number of a line's operation; None for a line that tells none, whole or not."""
    told = line.told
    return told.seq if told is not None else None


def part_of(lines: Iterator[Line], after_seq: int, start: int, end: int) -> Part:
    """Sort the lines of a segment, which begin at `start`, into good ones and gaps; what lacks up to `end` is a gap.

    Good are lines with a right checksum whose numbers rise. Where they do not, as after a line was moved by hand, those
    stay that are the most.
    """
    read = list(lines)
    rising = _rising([seq_told(line) for line in read], after_seq)
    pieces: list[Line | Gap] = []
    last, at = after_seq, start
    for index, line in enumerate(read):
        is_good = index in rising
        if is_good and seq_of_line(line) != last + 1 and not (pieces and isinstance(pieces[-1], Gap)):
            # Lines were taken out whole: nothing is left of them, not even their place.
            pieces.append(Gap(line.offset, b""))
        if is_good:
            pieces.append(line)
            last = seq_of_line(line)
        elif pieces and isinstance(pieces[-1], Gap):
            pieces[-1].data += line.data
        else:
            pieces.append(Gap(line.offset, line.data))
        at = line.offset + len(line.data)
    if at < end:
        gap = pieces[-1] if pieces else None
        if not isinstance(gap, Gap):
            gap = Gap(at, b"")
            pieces.append(gap)
        gap.missing = end - at
    return Part(pieces)


def _rising(seqs: Sequence[int | None], after_seq: int) -> set[int]:
    """Return the indexes of a longest run of rising numbers above `after_seq`."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for index, seq in enumerate(seqs):
        if seq is None or seq <= after_seq:
            continue
        place = bisect_left(tails, seq)
        before[index] = ends[place - 1] if place else None
        tails[place : place + 1] = [seq]
        ends[place : place + 1] = [index]
    chosen: set[int] = set()
    index_or_none = ends[-1] if ends else None
    while index_or_none is not None:
        chosen.add(index_or_none)
        index_or_none = before[index_or_none]
    return chosen


def count_lost(part: Part, after_seq: int, following: int | None) -> int:
    """Say of each gap which operations are lost in it; return the last number that is taken, lost or not.

    `following` is the number with which the log goes on behind the segment; None when nothing tells, so that the bytes
    themselves must: as many as lines may have stood there, so that no number is given twice.
    """
    last = after_seq
    for index, piece in enumerate(part.pieces):
        if isinstance(piece, Line):
            last = seq_of_line(piece)
            continue
        later = [one for one in part.pieces[index + 1 :] if isinstance(one, Line)]
        upcoming = seq_of_line(later[0]) if later else following
        piece.first_seq = last + 1
        piece.count = _fitting(piece) if upcoming is None else max(0, upcoming - last - 1)
        last += piece.count
    return last


def _fitting(gap: Gap) -> int:
    shortest = len(_lost_line(gap.first_seq, 0, 0.0))
    pieces = [piece for piece in gap.data.split(b"\n") if piece]
    # A run of NUL bytes may have taken line ends with it, and so may what is gone.
    seen = sum(
        max(1, len(piece) // shortest) if b"\0" in piece else max(1, piece.count(b'{"seq":')) for piece in pieces
    )
    return max(seen, 1 if gap.length > 0 else 0) + max(0, gap.missing) // shortest


def mended(header: bytes, part: Part, least: int | None) -> bytes:
    """Write a segment anew: header and good lines as they were, in each gap a line for every operation that is lost.

    No line moves where the gaps have room for that, as they nearly always have. `least` is the length that the segment
    must reach, and None for the last one.
    """
    lines, size, stamp = [header], len(header), 0.0
    for piece in part.pieces:
        if isinstance(piece, Line):
            lines.append(piece.data)
            stamp = piece.operation.timestamp if piece.operation else stamp
            size += len(piece.data)
            continue
        room = piece.length if least is not None or piece is not part.pieces[-1] else 0
        for seq in range(piece.first_seq, piece.first_seq + piece.count):
            lines.append(_lost_line(seq, size, stamp))
            size += len(lines[-1])
            room -= len(lines[-1])
        if room > 0:
            # The line before it, lost or good, is closed so much later: its object is the same.
            lines[-1] = padded(lines[-1], room)
            size += room
    if least is not None and size < least:
        lines[-1] = padded(lines[-1], least - size)
    return b"".join(lines)


def _lost_line(seq: int, offset: int, stamp: float) -> bytes:
    lost = Operation(seq, operation_id(seq, NoDigits()), LOST, "default", _ACTOR, stamp, [])
    return encode(lost, [], offset)


def padded(line: bytes, more: int) -> bytes:
    """Make a whole line longer by so many spaces, which stand before its checksum."""
    body = line[: line.rindex(_SEAL_FROM)]
    return seal(body + b" " * more)


def keep_aside(files: FileSystem, folder: Path, name: str, data: bytes) -> Path | None:
    """Keep bytes in a file of their own, durable; the same bytes go to the same file. Raises OSError."""
    if not data:
        return None
    files.make_folder(folder)
    kept = folder / f"{name}-{zlib.crc32(data):08x}.bytes"
    if files.inode_at(kept) is None:
        replace_file(files, kept, data)
        files.sync_folder(folder.parent)
    return kept
