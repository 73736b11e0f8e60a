"""What memory holds of the log: rows, history and retry keys; and the subscribers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from knowhub.core.collection import Collections, table_schemas
from knowhub.core.erasing import ERASING
from knowhub.core.operation import Change, Operation
from knowhub.engine.account import Account
from knowhub.engine.disk_rows import LogLine, PlacedRows
from knowhub.stores.files.batch import Batch, DecidedOperation
from knowhub.stores.files.log.change_log import ChangeLog, Line
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.log_line import BaseHeader
from knowhub.stores.files.log.partial_line import decode_base_line, decode_operation, summarize
from knowhub.stores.files.retries import RetryKeys


class Subscriber(Protocol):
    """Something derived from the log. It is called in the order of the operations, before the acknowledgement."""

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None: ...


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber and the collections that it follows; None means every operation."""

    subscriber: Subscriber
    collections: frozenset[str] | None = None

    def tell(self, operation: Operation) -> None:
        """Tell the subscriber of an operation, if it changed a row of the collections."""
        changes = operation.changes
        if self.collections is not None:
            changes = [change for change in changes if change.collection in self.collections]
        if changes or self.collections is None:
            self.subscriber.follow(operation.account, operation.seq, changes)


@dataclass(frozen=True, slots=True)
class PlacedOperation:
    """An operation that was decided and written here: its line, and its rows that stay on disk, by collection."""

    decided: DecidedOperation
    line: LogLine
    rows: Mapping[str, PlacedRows[Any]]


class Replica:
    """All acknowledged operations as memory holds them. It belongs to the event loop's thread."""

    def __init__(self, log: ChangeLog, collections: Collections, retry_key_lifetime_s: float) -> None:
        self._log = log
        self.collections = collections
        self.schemas = table_schemas(collections)
        self.accounts: dict[str, Account] = {}
        self.history = History(log)
        self.retries = RetryKeys(retry_key_lifetime_s)
        self.subscriptions: list[Subscription] = []
        self.last_time = 0.0
        self.erases = 0

    def account(self, account: str) -> Account:
        """Return the rows of an account; no rows, and nothing remembered, for an account that never wrote."""
        return self.accounts.get(account) or Account(self.schemas, self._log.read)

    def begin_after(self, base: BaseHeader) -> None:
        """Forget the operations in a base: only their rows are left."""
        self.history.begin_after(base.last_seq, base.checksum)
        self.last_time = max(self.last_time, base.last_time)
        self.erases = max(self.erases, base.erases)

    def load_rows(self, number: int, line: Line) -> None:
        """Take in the rows in a line of the base `number`."""
        read = line.base_line or decode_base_line(line.data)
        self._get_or_create(read.account or "").load(0, read.changes or (), LogLine(number, line.offset, line.data))

    def move_rows(self, number: int, line: Line) -> None:
        """Read the rows that stay on disk from a line of the base `number` from now on, if they are still the same."""
        read = line.base_line
        if read is not None and read.account is not None and read.changes is not None:
            self._get_or_create(read.account).move(read.changes, LogLine(number, line.offset, line.data))

    def load_operation(self, segment: int, line: Line) -> None:
        """Take in an operation that was read back.

        Raises one of SHAPE_ERRORS for a line that holds no operation, or a row of another shape.
        """
        read, placed = line.operation or decode_operation(line.data), LogLine(segment, line.offset, line.data)
        # At start there are no subscribers and millions of rows, so no change objects are made.
        operation = line.full_operation if self.subscriptions else summarize(read)
        if operation is None:
            raise ValueError("its rows cannot be read")
        # Rows first: if they cannot be loaded, the history must not know the operation.
        self._get_or_create(operation.account).load(operation.seq, read.changes, placed)
        self._note(operation, placed)
        self._notify(operation)

    def place(self, batch: Batch, segment: int) -> list[PlacedOperation]:
        """Find where the rows of a batch are in its lines, for `apply`; it may run in a thread."""
        placed: list[PlacedOperation] = []
        offset = batch.offset
        for decided in batch.decided:
            line = LogLine(segment, offset, decided.line)
            rows = self.account(decided.operation.account).place(decided.changes, line)
            placed.append(PlacedOperation(decided, line, rows))
            offset += len(decided.line)
        return placed

    def apply(self, batch: Batch, placed: Sequence[PlacedOperation]) -> None:
        """Take in what was decided and written here."""
        for item in placed:
            self.apply_operation(batch, item)

    def apply_operation(self, batch: Batch, item: PlacedOperation) -> None:
        """Take in one operation of a batch; they come in their order."""
        operation, changes = item.decided.operation, item.decided.changes
        self._note(operation, item.line)
        self._get_or_create(operation.account).apply(
            operation.seq, changes, item.rows, batch.overlay(operation.account).find_decided
        )
        self._notify(operation)

    def _note(self, operation: Operation, line: LogLine) -> None:
        self.last_time = max(self.last_time, operation.timestamp)
        self.history.remember(operation, line)
        self.retries.remember(operation, self.last_time)
        self._get_or_create(operation.account).note_undo(operation.undo_of, operation.operation_id)
        if operation.op.startswith(ERASING):
            self.erases = operation.seq

    def _get_or_create(self, account: str) -> Account:
        """Return the state of an account that writes, remembered from now on."""
        state = self.accounts.get(account)
        if state is None:
            state = self.accounts[account] = self.account(account)
        return state

    def _notify(self, operation: Operation) -> None:
        for subscription in self.subscriptions:
            subscription.tell(operation)
