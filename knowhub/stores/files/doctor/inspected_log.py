"""What an inspection reads of a log and of LOCK: nothing is made, nothing is written."""

import mmap
import os
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowhub.core.erasing import ERASING
from knowhub.stores.files.derived.record_rows import record_file, record_of
from knowhub.stores.files.doctor.inspected_context import ContextRead
from knowhub.stores.files.doctor.inspected_keys import SealedRead
from knowhub.stores.files.doctor.inspected_tree import TreeRead
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LOCK_BYTES, LockFile, Position, boot_words
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_base import BASE, BaseHeader
from knowhub.stores.files.log.log_line import line_checksum

LOST = "lose_operation"
"""The name of what stands in the log where operations were lost to damage: it changes no row."""


@dataclass(slots=True)
class LogRead:
    """What reading the whole log told: its id, a checksum for each sequence number, the rows for the record files."""

    rows_up_to: int
    log_id: str = ""
    base_seq: int = 0
    checksums: "array[int]" = field(default_factory=lambda: array("I"))
    rows: dict[str, int] = field(default_factory=dict)
    trees: dict[str, TreeRead] = field(default_factory=dict)
    context: ContextRead = field(default_factory=ContextRead)
    sealed: SealedRead = field(default_factory=SealedRead)
    lost: list[int] = field(default_factory=list)
    erasings: set[tuple[str, str]] = field(default_factory=set)
    erases: int = 0
    damaged: bool = False
    base_checksum: str = ""

    @property
    def last_seq(self) -> int:
        return self.base_seq + len(self.checksums)

    def begin_after(self, base: BaseHeader) -> None:
        """Begin with a base: the operations up to its last one are known no more."""
        self.log_id, self.base_seq, self.erases = base.log_id, base.last_seq, base.erases
        self.base_checksum = base.checksum

    def take_rows(self, line: Line) -> None:
        """Take in a line of a base. Raises one of ODD_SHAPE where it is none."""
        record = line.record or {}
        self._take(record.get("account", ""), record.get("changes", ()), self.base_seq)

    def take(self, line: Line) -> None:
        """Take in the line of an operation. Raises one of ODD_SHAPE where it tells none."""
        record, data = line.record or {}, line.data
        seq = record["seq"]
        # A damaged line leaves a hole in the sequence: nothing stands there.
        self.checksums.extend([0] * (seq - self.last_seq - 1))
        self.checksums.append(int(line_checksum(data), 16))
        if record["op"] == LOST:
            self.lost.append(seq)
        if record["op"].startswith(ERASING):
            self.erases = seq
            self.erasings.add((record["account"], record["operation_id"]))
        self._take(record["account"], record["changes"], seq)

    def holds(self, log_id: str, seq: int, checksum: str) -> bool:
        """Tell whether something derived that says it stands on this line does."""
        if log_id != self.log_id or not self.base_seq <= seq <= self.last_seq:
            return False
        if seq == self.base_seq:
            return checksum == self.base_checksum
        return checksum == f"{self.checksums[seq - self.base_seq - 1]:08x}"

    def _take(self, account: str, changes: Sequence[Mapping[str, Any]], seq: int) -> None:
        tree = self.trees.setdefault(account, TreeRead())
        for change in changes:
            collection, row = change["collection"], change["after"]
            tree.take(collection, row)
            self.context.take(account, collection, row, seq)
            self.sealed.take(account, collection, row)
            if seq <= self.rows_up_to:
                name, text = record_file(account, collection), record_of(collection, row) + b"\n"
                self.rows[name] = zlib.crc32(text, self.rows.get(name, 0))


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the log ended at one moment. `position` is the durable end as LOCK tells it, where that is believed.

    `vanished` is that end where the segment that it lies in is not there.
    """

    segments: Sequence[int]
    base: int | None
    size: int
    position: Position | None
    vanished: Position | None = None

    @classmethod
    def of(cls, log: ChangeLog, position: Position | None) -> "LogEnd":
        """Look at the files on disk. Raises ValueError for one whose name is no number."""
        base = next((number for number in reversed(log.bases()) if log.base_header(number)[0] is not None), None)
        first = 0 if base is None else base ^ BASE
        segments = [segment for segment in log.segments() if segment >= first]
        return cls(segments, base, log.size(segments[-1]) if segments else 0, position)

    def durable(self, log: ChangeLog, segment: int, header_length: int) -> int | None:
        """Return where the acknowledged bytes of a segment end; None when only the log itself can tell."""
        if segment != self.segments[-1]:
            following, _ = log.header(self.segments[self.segments.index(segment) + 1])
            return following.previous_length if following else None
        if self.position is None:
            return None
        # A segment that was begun and not yet written to when its maker died holds nothing but its header.
        return self.position.offset if self.position.segment == segment else header_length


class ReadOnlyLock(LockFile):
    """LOCK mapped for reading: it is neither made nor written. Raises OSError, and ValueError when it is too short."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        self._files = files
        self._path = path
        self._descriptor = files.open(path, os.O_RDONLY)
        try:
            self._map = mmap.mmap(self._descriptor, LOCK_BYTES, access=mmap.ACCESS_READ)
        except ValueError:
            files.close(self._descriptor)
            raise
        self._words = memoryview(self._map).cast("Q")
        self._inode = os.fstat(self._descriptor).st_ino
        self._boot = boot_words(files)
