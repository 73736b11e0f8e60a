"""The file store: one log, group commit, and several processes on one directory.

All memory belongs to the event loop's thread. Only writes and syncs leave it, so a read is never between two rows of
one operation, and needs no lock.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowhub.core.erasing import Erasing
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Operation, Outcome
from knowhub.operations.model import Compacted
from knowhub.stores.files.apart import Apart
from knowhub.stores.files.compacting.compaction import Compaction
from knowhub.stores.files.erasing import erasing
from knowhub.stores.files.erasing.erase_commit import Erasures
from knowhub.stores.files.group_commit import CATCH_UP_BYTES, GroupCommit, StoreOptions
from knowhub.stores.files.lock import Position
from knowhub.stores.files.log.cursor import LogCursor
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.loading import Opening, load
from knowhub.stores.files.log.recovery import Damage
from knowhub.stores.files.replica import Follower, Replica
from knowhub.stores.files.rows.state import AccountState
from knowhub.stores.files.rows.state_view import StateView

__all__ = ["FileStore", "LogPlace", "StoreOptions", "StoreStatus"]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Whether writes are taken, and what was found wrong with the log."""

    writable: bool
    reason: str | None
    damage: Sequence[Damage]
    quarantined: Sequence[Path]
    last_seq: int


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A moment of the log: the numbers of its base, if it has one, and of its segments, and where it then ended."""

    base: int | None
    segments: Sequence[int]
    end: Position
    last_seq: int
    log_id: str
    erases: int


class FileStore:
    """Operations of every account in one data directory. Make it with an event loop running; close it."""

    def __init__(self, opening: Opening, options: StoreOptions) -> None:
        self._log = opening.log
        self._lock = opening.lock
        self._clock = opening.clock
        self._replica = replica = Replica(opening.log, options.retry_key_lifetime_s)
        erasing.resume(opening.files, opening.directory)
        loaded = load(opening, replica, lambda: replica.history.last_seq + 1)
        self._log_id = loaded.header.log_id
        self._quarantined = loaded.quarantined
        start = (loaded.position, loaded.stamp)
        self._cursor = LogCursor(opening.log, opening.lock, replica.take_in, lambda: replica.history.last_seq, start)
        self._cursor.damage += loaded.damage
        self._commits = GroupCommit(opening, options, self._log_id, replica, self._cursor)
        self._compaction = Compaction(opening, self._log_id, replica, self._cursor, self._commits)
        self._erasures = Erasures(opening, replica, self._commits)
        if not loaded.damage:
            self._erasures.finish()

    @property
    def log_id(self) -> str:
        return self._log_id

    @property
    def history(self) -> History:
        return self._replica.history

    @property
    def last_seq(self) -> int:
        return self._replica.history.last_seq

    @property
    def base_seq(self) -> int:
        """The number up to which operations are forgotten; 0 where none is."""
        return self._replica.history.base_seq

    @property
    def erases(self) -> int:
        """The number of the newest operation that erased something; 0 where there is none."""
        return self._replica.erases

    @property
    def is_erasing(self) -> bool:
        """Whether an erasing is going on: what is read from the log now may still tell of what goes."""
        return self._erasures.is_going_on

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty when there is none."""
        return self._replica.history.checksum(seq)

    def subscribe(self, follower: Follower) -> None:
        """Have `follower` told of every operation from now on, in order."""
        self._replica.followers.append(follower)

    @property
    def accounts(self) -> Sequence[str]:
        return list(self._replica.states)

    def status(self) -> StoreStatus:
        reason = self._commits.why_not()
        return StoreStatus(reason is None, reason, self._commits.damage, self._quarantined, self.last_seq)

    def state(self, account: str) -> AccountState:
        """Return the acknowledged rows of an account. One that never wrote has none, and is not remembered."""
        return self._replica.state(account)

    def view(self, account: str) -> StateView:
        return StateView(self.state(account), self._clock.now())

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged; costs one memory read when there is nothing."""
        while self._cursor.is_behind:
            if self._cursor.is_torn:
                if not await self._commits.settle():
                    self._cursor.catch_up_torn(CATCH_UP_BYTES)
                    return
            elif self._cursor.catch_up(CATCH_UP_BYTES):
                self._compaction.follow()
                return
            else:
                await asyncio.sleep(0)

    async def resume(self) -> None:
        """Begin to write again where the disk was full and has room; does nothing otherwise."""
        await self._commits.resume()

    async def place(self) -> LogPlace:
        """Return where the log stands at a moment at which nobody writes. Raises Unavailable."""
        await self._erasures.end()
        async with self._commits.alone():
            base, segments = self._compaction.files()
            return LogPlace(base, segments, self._cursor.position, self.last_seq, self._log_id, self.erases)

    def is_compaction_worth_it(self, retention_s: float) -> bool:
        """Tell whether a compaction would make the log much smaller."""
        return self._compaction.is_worth_it(retention_s)

    async def compact(self, retention_s: float, apart: Apart) -> Compacted:
        """Forget the operations older than `retention_s` seconds; see `Compaction.run`."""
        await self.refresh()
        await self._erasures.end()
        return await self._compaction.run(retention_s, apart)

    async def commit(
        self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        """Run `decide` on the newest state and make its draft durable; see `core.operation.Commits`."""
        return (await self._commits.commit_group(account, actor, [decide], idempotency))[0]

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[Any]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        """Run decisions with nothing between them; all are durable, or none is."""
        return await self._commits.commit_group(account, actor, decides, idempotency)

    async def erase(self, wanted: Erasing) -> Outcome:
        """Erase a row; see `Erasures.commit`."""
        return await self._erasures.commit(wanted)

    async def end_erasing(self) -> None:
        """End what a process has begun to erase that died; does nothing otherwise."""
        await self._erasures.end()

    async def replayed(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        await self.refresh()
        retries = self._replica.retries
        return next(iter(await retries.answers(self.history, account, idempotency, self._clock.now())), None)

    async def operation(self, account: str, operation_id: str) -> Operation | None:
        return self.history.find(account, operation_id)

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        return await self.history.group(account, group_id)

    def operations(self, account: str, before_seq: int | None = None) -> AsyncIterator[Operation]:
        return self.history.newest_first(account, before_seq)

    def operations_on(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        return self.history.touching(account, collection, row_id)

    def undone_by(self, account: str, operation_id: str) -> str | None:
        return self.view(account).undone_by(operation_id)

    async def close(self) -> None:
        """Finish what is queued, then let go of every file."""
        await self._commits.finish()
        await self._compaction.close()
        self._log.close()
        self._lock.close()
