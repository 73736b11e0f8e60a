"""Read a log and LOCK for the doctor. Nothing is created or written."""

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowhub.core.collection import Collections
from knowhub.core.erasing import ERASING
from knowhub.core.row_check import RowCheck
from knowhub.engine.view import AccountView
from knowhub.stores.files.doctor.keyring_check import SealedRows
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LOCK_BYTES, LockFile, Position, read_boot_id
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import BASE, BaseHeader
from knowhub.stores.files.replica import Replica

LOST_OPERATION = "lose_operation"
"""The name of the operation that replaces each lost operation. It changes no row."""


class LogContents:
    """All that reading a log gave: the rows of every account, and the position of each operation.

    It implements `ProjectionLog`, so that derived files can be compared with it.
    """

    def __init__(self, log: ChangeLog, collections: Collections, row_checks: Sequence[RowCheck] = ()) -> None:
        self._replica = Replica(log, collections, retry_key_lifetime_s=0.0)
        self._row_checks = row_checks
        self.log_id = ""
        self.sealed = SealedRows(collections)
        self.lost: list[int] = []
        self.erases_found: set[tuple[str, str]] = set()
        self.is_damaged = False

    @property
    def history(self) -> History:
        """Where each operation is."""
        return self._replica.history

    @property
    def erases(self) -> int:
        """The number of the newest erase."""
        return self._replica.erases

    @property
    def accounts(self) -> Sequence[str]:
        """Every account that has rows."""
        return list(self._replica.accounts)

    @property
    def base_seq(self) -> int:
        """The number of the last operation of the base; 0 where there is no base."""
        return self.history.base_seq

    @property
    def last_seq(self) -> int:
        """The number of the last operation."""
        return self.history.last_seq

    async def refresh(self) -> None:
        """Do nothing: what was read is compared as it is."""

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty where there is none."""
        return self.history.checksum(seq)

    def view(self, account: str) -> AccountView:
        """Return the rows of an account."""
        return AccountView(self._replica.account(account), now=0.0)

    def begin_after(self, base: BaseHeader) -> None:
        """Begin with a base: the operations up to its last one are known no more."""
        self.log_id = base.log_id
        self._replica.begin_after(base)

    def load_rows(self, number: int, line: Line) -> None:
        """Load a line of the base `number`. Raises one of SHAPE_ERRORS for another line."""
        record = line.record or {}
        self._replica.load_rows(number, line)
        self._note_rows(record.get("account", ""), record.get("changes", ()))

    def load(self, segment: int, line: Line) -> None:
        """Load the line of an operation. Raises one of SHAPE_ERRORS for another line."""
        record = line.record or {}
        self._replica.load_operation(segment, line)
        if record["op"] == LOST_OPERATION:
            self.lost.append(record["seq"])
        if record["op"].startswith(ERASING):
            self.erases_found.add((record["account"], record["operation_id"]))
        self._note_rows(record["account"], record["changes"])

    def _note_rows(self, account: str, changes: Sequence[Mapping[str, Any]]) -> None:
        for change in changes:
            row = (account, change["collection"], change["after"])
            self.sealed.add(*row)
            for check in self._row_checks:
                check.add(*row)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Where the log ended at one moment. `position` is the durable end as LOCK tells it, where that is believed.

    `vanished` is that end where the segment that it lies in is not there.
    """

    segments: Sequence[int]
    base: int | None
    size: int
    position: Position | None
    vanished: Position | None = None

    @classmethod
    def of(cls, log: ChangeLog, position: Position | None) -> "LogBounds":
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
        # If the process that started this segment died before it published, it contains only its header.
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
        self._boot = read_boot_id(files)
