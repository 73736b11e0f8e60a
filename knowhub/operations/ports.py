"""What history and undo need from the store."""

from collections.abc import AsyncIterator
from typing import Protocol

from knowhub.core.operation import HistoryStore, Operation


class OperationStore(HistoryStore, Protocol):
    """The log as history."""

    @property
    def last_seq(self) -> int:
        """The number of the newest acknowledged operation, of any account."""

    @property
    def base_seq(self) -> int:
        """The number up to which operations are forgotten; 0 where none is."""

    def last_seq_of(self, account: str) -> int:
        """Return the number of the newest acknowledged operation of an account."""

    async def operation(self, account: str, operation_id: str) -> Operation | None:
        """Return an acknowledged operation of this account; None when there is none."""

    def operations(self, account: str, before_seq: int | None = None) -> AsyncIterator[Operation]:
        """Yield the operations of this account, newest first, below `before_seq`."""

    def undone_by(self, account: str, operation_id: str) -> str | None:
        """Return the operation that undid this one."""
