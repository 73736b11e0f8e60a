"""The file store: one log, group commit, and several processes on one directory.

All memory belongs to the event loop's thread. Only writes and syncs leave it, so a read is never between two rows of
one operation, and needs no lock.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from knowhub.core.clock import Clock
from knowhub.core.collection import Collections
from knowhub.core.erasing import EraseRequest
from knowhub.core.errors import KnowHubError, Unavailable
from knowhub.core.ids import Ids
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Operation, Outcome, Row
from knowhub.core.store_results import CompactionResult
from knowhub.engine.account import Account
from knowhub.engine.view import AccountView
from knowhub.stores.files.compaction import Compaction
from knowhub.stores.files.data_directory import DataDirectory, check_format, check_log
from knowhub.stores.files.erasing.eraser import Eraser
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.group_commit import CATCH_UP_BYTES, GroupCommit, StoreOptions
from knowhub.stores.files.lock import LockFile, Position
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.loader import StoreContext, load
from knowhub.stores.files.log.log_reader import Damage
from knowhub.stores.files.replica import LogFollower, Replica, Subscriber
from knowhub.stores.files.subprocess_runner import SubprocessRunner

__all__ = ["FileStore", "LogEnd", "StoreOptions", "StoreStatus"]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Whether writes are taken, and what was found wrong with the log."""

    writable: bool
    reason: str | None
    damage: Sequence[Damage]
    quarantined: Sequence[Path]
    last_seq: int


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A moment of the log: the numbers of its base, if it has one, and its segments, and where it then ended."""

    numbers: Sequence[int]
    position: Position
    last_seq: int
    log_id: str
    last_erase_seq: int


class FileStore:
    """Operations of every account in one data directory. Make it with an event loop running; close it.

    `commits`, `compaction` and `eraser` are its parts that write to the log.
    """

    def __init__(self, context: StoreContext, collections: Collections, options: StoreOptions) -> None:
        self._log = context.log
        self._lock = context.lock
        self._clock = context.clock
        self._replica = replica = Replica(context.log, collections, options.retry_key_lifetime_s)
        loaded = load(context, replica)
        self._log_id = loaded.log_id
        self._quarantined = loaded.quarantined
        self._follower = LogFollower(context, replica, loaded)
        self.commits = GroupCommit(context, options, self._log_id, replica, self._follower)
        self.compaction = Compaction(context, self._log_id, replica, self._follower, self.commits)
        self.eraser = Eraser(context, replica, self._follower, self.commits, self.compaction.finish_remap)
        if not loaded.damage:
            context.log.lock_manifest()

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
    def last_erase_seq(self) -> int:
        """The number of the newest operation that erased something; 0 where there is none."""
        return self._replica.last_erase_seq

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty when there is none."""
        return self._replica.history.checksum(seq)

    def subscribe(self, subscriber: Subscriber, collections: Iterable[str] | None = None) -> None:
        """Tell `subscriber` from now on of the changes to rows of these collections, or of every operation."""
        self._replica.subscriptions.append((subscriber, frozenset(collections) if collections else None))

    @property
    def accounts(self) -> Sequence[str]:
        return list(self._replica.accounts)

    def status(self) -> StoreStatus:
        reason = self.commits.refusal_reason()
        return StoreStatus(reason is None, reason, self.commits.damage, self._quarantined, self.last_seq)

    def account(self, account: str) -> Account:
        """Return the acknowledged rows of an account; no rows for an account that never wrote."""
        return self._replica.account(account)

    def read_rows(self, names: Iterable[str]) -> Iterator[tuple[str, str, Row]]:
        """Yield every row of these collections, with its account and its collection."""
        for account, name in product(self.accounts, names):
            for _, row in self.account(account).read_rows(name):
                yield account, name, row

    def view(self, account: str) -> AccountView:
        return AccountView(self._replica.account(account), self._clock.now())

    async def refresh(self, account: str | None = None) -> None:
        """Apply what other processes have acknowledged. Costs one memory read if there is nothing.

        Waits for a large group of this account, or of any, that is being applied.
        """
        if self.commits.applying:
            await self.commits.wait_applied(account)
        while self._follower.is_lagging:
            if self._follower.has_open_publication:
                if not await self.commits.wait_for_publication():
                    self._follower.catch_up_during_publication(CATCH_UP_BYTES)
                    return
            elif self._follower.catch_up(CATCH_UP_BYTES):
                break
            else:
                await asyncio.sleep(0)
        # What a write of this process applied first may have been a rewrite, too.
        self.compaction.follow()

    async def get_end(self) -> LogEnd:
        """Return the files and the end of the log while nobody writes. Raises Unavailable."""
        async with self.commits.lock_log():
            return LogEnd(
                self._log.numbers(), self._follower.position, self.last_seq, self._log_id, self.last_erase_seq
            )

    async def compact(self, retention_s: float, run_subprocess: SubprocessRunner) -> CompactionResult:
        """Forget the operations older than `retention_s` seconds; see `Compaction.run`."""
        await self.refresh()
        return await self.compaction.run(retention_s, run_subprocess)

    async def commit(
        self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        """Run `decide` on the newest state and make its draft durable; see `core.operation.Commits`."""
        return (await self.commits.commit_group(account, actor, [decide], idempotency))[0]

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[Any]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        """Run decisions with nothing between them; all are durable, or none is."""
        return await self.commits.commit_group(account, actor, decides, idempotency)

    async def erase(self, wanted: EraseRequest) -> Outcome:
        """Erase a row; see `Eraser.commit`."""
        return await self.eraser.commit(wanted)

    async def find_replay(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        await self.refresh()
        if idempotency is None:
            return None
        keys = self._replica.idempotency_keys
        return next(iter(await keys.find_answers(self.history, account, idempotency, self._clock.now())), None)

    async def operation(self, account: str, operation_id: str) -> Operation | None:
        return await self.history.find(account, operation_id)

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        return await self.history.group(account, group_id)

    def operations(self, account: str, before_seq: int | None = None) -> AsyncIterator[Operation]:
        return self.history.newest_first(account, before_seq)

    def operations_on(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        return self.history.find_by_row(account, collection, row_id)

    def last_seq_of(self, account: str) -> int:
        return self.history.last_seq_of(account)

    def undone_by(self, account: str, operation_id: str) -> str | None:
        return self.view(account).undone_by(operation_id)

    async def close(self) -> None:
        """Write what is queued, then close all files."""
        await self.commits.close()
        await self.compaction.close()
        self.eraser.close()
        self._log.close()
        self._lock.close()


def open_store(
    root: Path, files: FileSystem, clock: Clock, ids: Ids, collections: Collections, options: StoreOptions | None = None
) -> FileStore:
    """Open a data directory, making it if there is none.

    Raises Unavailable for a newer format, a log that is gone or a lock that a stopped process holds, and OSError.
    """
    directory, options = DataDirectory(root), options or StoreOptions()
    check_format(files, directory)
    check_log(files, directory)
    files.make_folder(root)
    lock, log = LockFile(files, directory.lock), ChangeLog(files, directory.change_log)
    try:
        if not lock.acquire(options.lock_timeout_s):
            raise Unavailable(f"another process has held {directory.lock} for {options.lock_timeout_s:g} s")
        store = FileStore(StoreContext(files, directory, log, lock, clock, ids), collections, options)
    except (KnowHubError, OSError):
        # Closing releases the lock too.
        log.close()
        lock.close()
        raise
    lock.release()
    return store
