"""Read a log for the doctor. Nothing is created or written."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.core.collection import Collections
from knowhub.core.row_check import RowCheck
from knowhub.engine.view import AccountView
from knowhub.stores.files.doctor.keyring_check import SealedRows
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.log_reader import LogBounds, LogReader
from knowhub.stores.files.replica import Replica

LOST_OPERATION = "lose_operation"
"""The name of the operation that replaces each lost operation. It changes no row."""


class LogContents(Replica):
    """All that reading a log gave: the rows of every account, and the position of each operation.

    It implements `ProjectionLog`, so that derived files can be compared with it.
    """

    def __init__(self, log: ChangeLog, collections: Collections, row_checks: Sequence[RowCheck] = ()) -> None:
        super().__init__(log, collections, retry_key_lifetime_s=0.0)
        self._row_checks = row_checks
        self.log_id = ""
        self.sealed = SealedRows(collections)
        self.lost: list[int] = []
        self.is_damaged = False

    @property
    def last_seq(self) -> int:
        """The number of the last operation."""
        return self.history.last_seq

    def read(self, bounds: LogBounds) -> LogReader:
        """Read all of the log, and return what was found wrong. Raises OSError."""
        reader = LogReader(self._log, self)
        reader.read(bounds)
        self.log_id, self.is_damaged = reader.log_id, bool(reader.damage)
        return reader

    async def refresh(self) -> None:
        """Do nothing: what was read is compared as it is."""

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty where there is none."""
        return self.history.checksum(seq)

    def view(self, account: str) -> AccountView:
        """Return the rows of an account."""
        return AccountView(self.account(account), now=0.0)

    def load_rows(self, number: int, line: Line) -> None:
        """Load a line of the base `number`. Raises one of SHAPE_ERRORS for another line."""
        super().load_rows(number, line)
        record = line.record or {}
        self._note_rows(record.get("account", ""), record.get("changes", ()))

    def load_operation(self, segment: int, line: Line) -> None:
        """Load the line of an operation. Raises one of SHAPE_ERRORS for another line."""
        super().load_operation(segment, line)
        record = line.record or {}
        if record["op"] == LOST_OPERATION:
            self.lost.append(record["seq"])
        self._note_rows(record["account"], record["changes"])

    def _note_rows(self, account: str, changes: Sequence[Mapping[str, Any]]) -> None:
        for change in changes:
            row = (account, change["collection"], change["after"])
            self.sealed.add(*row)
            for check in self._row_checks:
                check.add(*row)
