"""What this process knows of the log: rows, history, retry keys; and those who follow it."""

from collections.abc import Sequence
from typing import Any, Protocol

from knowhub.core.erasing import ERASING
from knowhub.core.operation import Operation
from knowhub.stores.files.batch import Batch
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_base import BaseHeader
from knowhub.stores.files.log.log_line import RawChange
from knowhub.stores.files.log.raw_changes import raw_changes
from knowhub.stores.files.log.sliced_line import outline, sliced_operation
from knowhub.stores.files.retries import RetryKeys
from knowhub.stores.files.rows.state import AccountState, PlacedLine


class Follower(Protocol):
    """Something derived that follows the log: called in order, once for each operation, before its acknowledgement."""

    def follow(self, account: str, seq: int, changes: Sequence[RawChange]) -> None: ...


class Replica:
    """All acknowledged operations as memory holds them. It belongs to the event loop's thread."""

    def __init__(self, log: ChangeLog, retry_key_lifetime_s: float) -> None:
        self._log = log
        self.states: dict[str, AccountState] = {}
        self.history = History(log)
        self.retries = RetryKeys(retry_key_lifetime_s)
        self.followers: list[Follower] = []
        self.last_time = 0.0
        self.erases = 0

    def state(self, account: str) -> AccountState:
        """Return the rows of an account. One that never wrote has none, and is not remembered."""
        return self.states.get(account) or AccountState(self._log.read)

    def begin_after(self, base: BaseHeader) -> None:
        """Forget the operations of a base, of which only the rows are left."""
        self.history.begin_after(base.last_seq, base.checksum)
        self.last_time = max(self.last_time, base.last_time)
        self.erases = max(self.erases, base.erases)

    def take_rows(self, number: int, line: Line) -> None:
        """Take in a line of the base `number`."""
        read = line.base_line
        if read is not None and read.account is not None and read.changes is not None:
            self._state_of(read.account).load(0, read.changes, PlacedLine(number, line.offset, line.data))

    def move_rows(self, number: int, line: Line) -> None:
        """Read the rows that stay on disk from a line of the base `number` from now on, if they are still the same."""
        read = line.base_line
        if read is not None and read.account is not None and read.changes is not None:
            self._state_of(read.account).move(read.changes, PlacedLine(number, line.offset, line.data))

    def take_in(self, segment: int, line: Line) -> None:
        """Take in an operation that was read back.

        Raises one of ODD_SHAPE for a line that tells none, or of which a row has not the shape of one.
        """
        read, placed = line.operation or sliced_operation(line.data), PlacedLine(segment, line.offset, line.data)
        # While a log is loaded nobody follows it, and a million rows are taken in: no object is made that nobody needs.
        operation = line.told if self.followers else outline(read)
        if operation is None:
            raise ValueError("its rows cannot be read")
        # The rows first: of a line that nothing can be made of, history knows nothing.
        self._state_of(operation.account).load(operation.seq, read.changes, placed)
        self._note(operation, placed)
        if self.followers:
            self._tell(operation, raw_changes(operation))

    def apply(self, batch: Batch, segment: int) -> None:
        """Take in what was decided and written here."""
        offset = batch.offset
        for one in batch.decided:
            operation, line = one.operation, PlacedLine(segment, offset, one.line)
            self._note(operation, line)
            self._state_of(operation.account).apply(operation.seq, one.changes, line, batch.pending(operation.account))
            self._tell(operation, one.changes)
            offset += len(one.line)

    def _note(self, operation: Operation, line: PlacedLine) -> None:
        self.last_time = max(self.last_time, operation.timestamp)
        group_id = operation.group.id if operation.group else None
        self.history.remember(operation.seq, group_id, line.segment, line.offset)
        self.retries.remember(operation, self.last_time)
        self._state_of(operation.account).note_undo(operation.undo_of, operation.operation_id)
        if operation.op.startswith(ERASING):
            self.erases = operation.seq

    def _state_of(self, account: str) -> AccountState:
        """Return the state of an account that writes, remembered from now on."""
        state = self.states.get(account)
        if state is None:
            state = self.states[account] = self.state(account)
        return state

    def _tell(self, operation: Operation, changes: Sequence[Any]) -> None:
        for follower in self.followers:
            follower.follow(operation.account, operation.seq, changes)
