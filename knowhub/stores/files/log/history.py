"""The log as history: where each operation stands."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Iterator
from itertools import groupby

import orjson

from knowhub.core.ids import seq_of
from knowhub.core.operation import Operation
from knowhub.core.pace import Pace
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_line import is_sealed, line_checksum
from knowhub.stores.files.log.recovery import Damage

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_LINES_PER_TURN = 200


class History:
    """Finds operations by id, by group and by row. In memory: eight bytes an operation."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self.damage: list[Damage] = []
        # The operation after the base has the first place; those in the base are not known any more.
        self._places = array("Q")
        self._groups: dict[str, list[int]] = {}
        self.base_seq = 0
        self._base_checksum = ""

    @property
    def last_seq(self) -> int:
        return self.base_seq + len(self._places)

    def begin_after(self, base_seq: int, checksum: str) -> None:
        """Forget the operations up to `base_seq`, whose line carried `checksum`: a base stands in their place."""
        del self._places[: base_seq - self.base_seq]
        self.base_seq, self._base_checksum = base_seq, checksum
        self._groups = {group_id: seqs for group_id, seqs in self._groups.items() if seqs[-1] > base_seq}

    def remember(self, seq: int, group_id: str | None, segment: int, offset: int) -> None:
        # A damaged line leaves a hole in the sequence: nothing stands there.
        self._places.extend([0] * (seq - self.last_seq - 1))
        self._places.append(segment << _OFFSET_BITS | offset)
        if group_id is not None:
            self._groups.setdefault(group_id, []).append(seq)

    def line(self, seq: int) -> bytes | None:
        """Return the line of an operation as it stands in the log; None when there is none."""
        place = self._place(seq)
        return self._log.line_at(place >> _OFFSET_BITS, place & _OFFSET_MASK) if place else None

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line, also of the last one in the base; empty when there is none."""
        return self._base_checksum if seq == self.base_seq else line_checksum(self.line(seq) or b"")

    def base_lines(self) -> Iterator[bytes]:
        """Yield the lines of the base that hold rows; none where the log begins with its first operation."""
        for number in reversed(self._log.bases()):
            header, start = self._log.base_header(number)
            if header is not None and header.last_seq == self.base_seq:
                for line in self._log.lines(number, start, self._log.size(number)):
                    if line.record is not None and "changes" in line.record:
                        yield line.data
                return

    def at(self, seq: int) -> Operation | None:
        line = self.line(seq)
        return self._read(seq, line) if line is not None else None

    def find(self, account: str, operation_id: str) -> Operation | None:
        seq = seq_of(operation_id)
        operation = self.at(seq) if seq is not None else None
        if operation is None or operation.operation_id != operation_id or operation.account != account:
            return None
        return operation

    async def group(self, account: str, group_id: str) -> list[Operation]:
        found: list[Operation | None] = []
        pace = Pace()
        for seq in tuple(self._groups.get(group_id, ())):
            found.append(self.at(seq))
            # Of an import or a slimming each line is long: other requests go on between.
            await pace.pause()
        return [operation for operation in found if operation is not None and operation.account == account]

    async def siblings(self, operation: Operation) -> list[Operation]:
        """Return all operations of an operation's group, or the operation alone."""
        return await self.group(operation.account, operation.group.id) if operation.group else [operation]

    async def newest_first(self, account: str, before_seq: int | None) -> AsyncIterator[Operation]:
        start = self.last_seq if before_seq is None else min(before_seq - 1, self.last_seq)
        async for operation in self._lines_down(start, None):
            if operation.account == account:
                yield operation

    async def touching(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        """Yield what touched a row, newest first. Lines are searched as text and only matches are parsed."""
        async for operation in self._lines_down(self.last_seq, b'"id":' + orjson.dumps(row_id)):
            if operation.account != account:
                continue
            for change in operation.changes:
                if change.id == row_id and collection in (None, change.collection):
                    yield operation
                    break

    async def _lines_down(self, seq: int, needle: bytes | None) -> AsyncIterator[Operation]:
        for count, number in enumerate(range(seq, self.base_seq, -1)):
            if count % _LINES_PER_TURN == _LINES_PER_TURN - 1:
                # A long history is read a little at a time: other requests go on between.
                await asyncio.sleep(0)
            line = self.line(number)
            if line is None or (needle is not None and needle not in line):
                continue
            operation = self._read(number, line)
            if operation is not None:
                yield operation

    def _read(self, seq: int, line: bytes) -> Operation | None:
        """Read a line that told an operation when it was taken in; one that does not any more is named as damage."""
        place = self._place(seq)
        found = Line(place & _OFFSET_MASK, line, is_sealed(line))
        operation = self._log.read_again(place >> _OFFSET_BITS, found).told
        if operation is None and not self._log.is_being_erased:
            path, offset = str(self._log.path(place >> _OFFSET_BITS)), place & _OFFSET_MASK
            if all((known.path, known.offset) != (path, offset) for known in self.damage):
                self.damage.append(Damage(path, offset, "an acknowledged line was damaged since it was read"))
        return operation

    def lines_up(self, after_seq: int, limit: int, limit_bytes: int) -> list[bytes]:
        """Return lines that follow a sequence number, oldest first, with one read a segment.

        Up to `limit` of them, fewer when they begin more than `limit_bytes` behind the first one.
        """
        first_place = after_seq - self.base_seq
        places = [place for place in self._places[first_place : first_place + limit] if place]
        places = [place for place in places if place - places[0] <= limit_bytes]
        lines: list[bytes] = []
        for segment, group in groupby(places, key=lambda place: place >> _OFFSET_BITS):
            offsets = [place & _OFFSET_MASK for place in group]
            first = offsets[0]
            data = self._log.read(segment, first, offsets[-1]) + self._log.line_at(segment, offsets[-1])
            # Each up to its own newline: between two of them a damaged line may stand.
            lines += [data[offset - first : data.find(b"\n", offset - first) + 1] for offset in offsets]
        return lines

    def _place(self, seq: int) -> int:
        return self._places[seq - self.base_seq - 1] if self.base_seq < seq <= self.last_seq else 0
