"""A snapshot folder in which other processes write during a restore."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from knowhub.core.collection import Key
from knowhub.core.operation import Row
from knowhub.core.store_results import SnapshotEntry, SnapshotReason, SnapshotRow
from knowhub.engine.view import AccountView, Overlay
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.snapshots.snapshots import PreparedSnapshot, SnapshotFolder

_AFTER_KEEPING = 2


@dataclass(slots=True)
class ConcurrentPrepared:
    """A snapshot to be restored while others write.

    Each decision finds `rows` more rows changed. `at_last` runs while the other rows are compared for the first time
    after the current rows were saved.
    """

    real: PreparedSnapshot
    rows: int
    at_last: Callable[[], None] | None
    looks: int = 0

    @property
    def last_seq(self) -> int:
        return self.real.last_seq

    def differences(self) -> AsyncIterator[SnapshotRow]:
        return self.real.differences()

    def list_changes(self, after_seq: int, view: AccountView) -> Iterable[tuple[Key, Row | None]]:
        self.looks += 1
        if self.looks == _AFTER_KEEPING and self.at_last is not None:
            self.at_last()
        yield from self.real.list_changes(after_seq, view)
        for number in range(self.rows if isinstance(view.source, Overlay) else 0):
            yield (KNOWLEDGE, f"none-{self.looks}-{number}"), None

    async def snapshot_before_restore(self) -> SnapshotEntry:
        return await self.real.snapshot_before_restore()


@dataclass(frozen=True, slots=True)
class ConcurrentSnapshots:
    """The real folder, with more going on around it."""

    real: SnapshotFolder
    rows: int = 0
    at_last: Callable[[], None] | None = None

    async def entries(self) -> Sequence[SnapshotEntry]:
        return await self.real.entries()

    async def create(self, reason: SnapshotReason) -> SnapshotEntry:
        return await self.real.create(reason)

    async def delete(self, ts: str) -> None:
        await self.real.delete(ts)

    @asynccontextmanager
    async def prepare(self, ts: str, account: str) -> AsyncIterator[ConcurrentPrepared]:
        async with self.real.prepare(ts, account) as prepared:
            yield ConcurrentPrepared(prepared, self.rows, self.at_last)
