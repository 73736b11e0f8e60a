"""The history of operations: finds the line of each operation in the log."""

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterator

import orjson

from knowhub.core.clock import CooperativePause
from knowhub.core.ids import seq_of
from knowhub.core.operation import Operation
from knowhub.engine.disk_rows import LogLine
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_line import (
    CHECKSUM_BYTES,
    PartialOperation,
    decode_operation,
    has_valid_checksum,
    line_checksum,
)
from knowhub.stores.files.log.log_reader import Damage

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_LINES_PER_TURN = 200
# Bytes; a longer line is parsed in a thread.
_READ_AT_ONCE = 256 * 1024


class History:
    """Finds operations by id, by group, by account and by row. In memory: 24 bytes an operation."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self.damage: list[Damage] = []
        # The first item is the operation after the base.
        self._addresses = array("Q")
        # A line keeps its length: an erase fills it up with spaces.
        self._lengths = array("Q")
        self._groups: dict[str, list[int]] = {}
        self._seqs_by_account: dict[str, array[int]] = {}
        self.base_seq = 0
        self._base_checksum = ""

    @property
    def last_seq(self) -> int:
        return self.base_seq + len(self._addresses)

    def begin_after(self, base_seq: int, checksum: str) -> None:
        """Forget the operations up to `base_seq`, whose line had this `checksum`: they are in a base now."""
        del self._addresses[: base_seq - self.base_seq]
        del self._lengths[: base_seq - self.base_seq]
        self.base_seq, self._base_checksum = base_seq, checksum
        self._groups = {group_id: seqs for group_id, seqs in self._groups.items() if seqs[-1] > base_seq}
        for seqs in self._seqs_by_account.values():
            del seqs[: bisect_right(seqs, base_seq)]

    def last_seq_of(self, account: str) -> int:
        """Return the number of the newest operation of an account; 0 if all are in the base."""
        seqs = self._seqs_by_account.get(account)
        return seqs[-1] if seqs else 0

    def remember(self, operation: Operation, line: LogLine) -> None:
        """Note where the line of an operation is."""
        seq = operation.seq
        # Damaged lines leave a hole in the sequence.
        hole = [0] * (seq - self.last_seq - 1)
        self._lengths.extend([*hole, len(line.data)])
        self._addresses.extend([*hole, line.segment << _OFFSET_BITS | line.offset])
        self._seqs_by_account.setdefault(operation.account, array("Q")).append(seq)
        if operation.group is not None:
            self._groups.setdefault(operation.group.id, []).append(seq)

    def line(self, seq: int) -> bytes | None:
        """Return the line of an operation; None if there is none. It is shorter if the file is."""
        span = self._find_span(seq)
        return None if span is None else self._log.read(*span)

    async def line_async(self, seq: int) -> bytes | None:
        """Return the same as `line`; a thread reads a long one."""
        span = self._find_span(seq)
        if span is None:
            return None
        is_short = span[2] - span[1] <= _READ_AT_ONCE
        return self._log.read(*span) if is_short else await self._log.read_async(*span)

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line, also of the last one in the base; empty when there is none."""
        if seq == self.base_seq:
            return self._base_checksum
        span = self._find_span(seq)
        if span is None:
            return ""
        segment, start, end = span
        return line_checksum(self._log.read(segment, max(start, end - CHECKSUM_BYTES), end))

    def base_lines(self) -> Iterator[bytes]:
        """Yield the lines of the base that hold rows; none where the log begins with its first operation."""
        number = self._log.base
        header, start = self._log.base_header(number) if number is not None else (None, 0)
        if number is not None and header is not None and header.last_seq == self.base_seq:
            for line in self._log.lines(number, start, self._log.size(number)):
                if line.record is not None and "changes" in line.record:
                    yield line.data

    def at(self, seq: int) -> Operation | None:
        line = self.line(seq)
        return self._read(seq, line) if line is not None else None

    async def at_async(self, seq: int) -> Operation | None:
        """Return the same as `at`; a long line is parsed in a thread."""
        line = await self.line_async(seq)
        return await self._read_async(seq, line) if line is not None else None

    async def find(self, account: str, operation_id: str) -> Operation | None:
        seq = seq_of(operation_id)
        operation = await self.at_async(seq) if seq is not None else None
        is_found = operation is not None and (operation.operation_id, operation.account) == (operation_id, account)
        return operation if is_found else None

    async def group(self, account: str, group_id: str) -> list[Operation]:
        found: list[Operation | None] = []
        pace = CooperativePause()
        for seq in tuple(self._groups.get(group_id, ())):
            found.append(await self.at_async(seq))
            # The lines of an import are long: other requests are answered meanwhile.
            await pace.pause()
        return [operation for operation in found if operation is not None and operation.account == account]

    def newest_first(self, account: str, before_seq: int | None) -> AsyncIterator[Operation]:
        """Yield the operations of an account below a number, newest first."""
        return self._scan_back(account, self.last_seq + 1 if before_seq is None else before_seq, None)

    async def find_by_row(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        """Yield the operations on a row, newest first. Lines are searched as text; only matches are parsed."""
        async for operation in self._scan_back(account, self.last_seq + 1, b'"id":' + orjson.dumps(row_id)):
            if any(change.id == row_id and collection in (None, change.collection) for change in operation.changes):
                yield operation

    async def _scan_back(self, account: str, below: int, needle: bytes | None) -> AsyncIterator[Operation]:
        seqs = self._seqs_by_account.get(account, array("Q"))
        count = 0
        # Operations are added and go into a base meanwhile: the next one is looked up each time.
        while position := bisect_left(seqs, below):
            below, count = seqs[position - 1], count + 1
            if count % _LINES_PER_TURN == 0:
                # A long history is read in parts, so that other requests are answered meanwhile.
                await asyncio.sleep(0)
            line = await self.line_async(below)
            if line is None or (needle is not None and needle not in line):
                continue
            operation = await self._read_async(below, line)
            if operation is not None:
                yield operation

    async def _read_async(self, seq: int, line: bytes) -> Operation | None:
        return self._read(seq, line) if len(line) <= _READ_AT_ONCE else await asyncio.to_thread(self._read, seq, line)

    def _read(self, seq: int, line: bytes) -> Operation | None:
        """Parse a line. If it could be parsed when it was loaded and cannot any more, report damage."""
        segment, offset, _ = self._find_span(seq) or (0, 0, 0)
        operation = Line(segment, offset, line, has_valid_checksum(line)).full_operation
        if operation is None:
            path = str(self._log.path(segment))
            if all((known.path, known.offset) != (path, offset) for known in self.damage):
                self.damage.append(Damage(path, offset, "an acknowledged line was damaged since it was read"))
        return operation

    def operations(self, after_seq: int, last_seq: int) -> Iterator[PartialOperation]:
        """Yield the operations between two sequence numbers, with their rows as text."""
        return map(decode_operation, filter(None, map(self.line, range(after_seq + 1, last_seq + 1))))

    async def read_lines(self, after_seq: int, limit: int, limit_bytes: int) -> list[bytes]:
        """Return lines that follow a sequence number, oldest first: up to `limit`, fewer beyond `limit_bytes`."""
        lines: list[bytes] = []
        size = 0
        for seq in range(after_seq + 1, min(after_seq + limit, self.last_seq) + 1):
            if size <= limit_bytes and (line := await self.line_async(seq)) is not None:
                lines.append(line)
                size += len(line)
        return lines

    def _find_span(self, seq: int) -> tuple[int, int, int] | None:
        """Return the segment of an operation's line and the offsets of its beginning and end; None if there is none."""
        index = seq - self.base_seq - 1
        address = self._addresses[index] if 0 <= index < len(self._addresses) else 0
        if not address:
            return None
        offset = address & _OFFSET_MASK
        return address >> _OFFSET_BITS, offset, offset + self._lengths[index]
