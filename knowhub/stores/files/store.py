"""The file store: one log, group commit, and several processes on one directory.

All memory belongs to the event loop's thread. Only writes and syncs leave it, so a read is never between two rows of
one operation, and needs no lock.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
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
from knowhub.stores.files.compacting.compaction import Compaction
from knowhub.stores.files.cursor import LogCursor
from knowhub.stores.files.data_directory import DataDirectory, check_format, check_log
from knowhub.stores.files.erasing import old_journal
from knowhub.stores.files.erasing.eraser import Eraser
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.group_commit import CATCH_UP_BYTES, GroupCommit, StoreOptions
from knowhub.stores.files.lock import LockFile, Position
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.history import History
from knowhub.stores.files.log.loader import StoreContext, load
from knowhub.stores.files.log.recovery import Damage
from knowhub.stores.files.replica import Replica, Subscriber, Subscription
from knowhub.stores.files.subprocess_runner import SubprocessRunner

__all__ = ["FileStore", "LogState", "StoreOptions", "StoreStatus"]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Whether writes are taken, and what was found wrong with the log."""

    writable: bool
    reason: str | None
    damage: Sequence[Damage]
    quarantined: Sequence[Path]
    last_seq: int


@dataclass(frozen=True, slots=True)
class LogState:
    """A moment of the log: the numbers of its base, if it has one, and its segments, and where it then ended."""

    numbers: Sequence[int]
    end: Position
    last_seq: int
    log_id: str
    erases: int


class FileStore:
    """Operations of every account in one data directory. Make it with an event loop running; close it."""

    def __init__(self, opening: StoreContext, collections: Collections, options: StoreOptions) -> None:
        self._log = opening.log
        self._lock = opening.lock
        self._clock = opening.clock
        self._replica = replica = Replica(opening.log, collections, options.retry_key_lifetime_s)
        old_journal.finish(opening.files, opening.directory, opening.lock)
        loaded = load(opening, replica)
        self._log_id = loaded.log_id
        self._quarantined = loaded.quarantined
        self._cursor = LogCursor(opening, replica, loaded)
        self._commits = GroupCommit(opening, options, self._log_id, replica, self._cursor)
        self._compaction = Compaction(opening, self._log_id, replica, self._cursor, self._commits)
        self._eraser = Eraser(opening, replica, self._cursor, self._commits, self._compaction.finish_remap)
        if not loaded.damage:
            opening.log.lock_manifest()

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
    def open_files(self) -> Eraser:
        """Whether another process still has files open that held what was erased; see `Eraser.erase_seq`."""
        return self._eraser

    def checksum(self, seq: int) -> str:
        """Return the checksum of an operation's line; empty when there is none."""
        return self._replica.history.checksum(seq)

    def subscribe(self, subscriber: Subscriber, collections: Iterable[str] | None = None) -> None:
        """Tell `subscriber` from now on of the changes to rows of these collections, or of every operation."""
        self._replica.subscriptions.append(Subscription(subscriber, frozenset(collections) if collections else None))

    @property
    def accounts(self) -> Sequence[str]:
        return list(self._replica.accounts)

    def status(self) -> StoreStatus:
        reason = self._commits.refusal_reason()
        return StoreStatus(reason is None, reason, self._commits.damage, self._quarantined, self.last_seq)

    def state(self, account: str) -> Account:
        """Return the acknowledged rows of an account; no rows for an account that never wrote."""
        return self._replica.account(account)

    def read_rows(self, names: Iterable[str]) -> Iterator[tuple[str, str, Row]]:
        """Yield every row of these collections, with its account and its collection."""
        for account, name in product(self.accounts, names):
            for _, row in self.state(account).read_rows(name):
                yield account, name, row

    def view(self, account: str) -> AccountView:
        return AccountView(self.state(account), self._clock.now())

    async def refresh(self, account: str | None = None) -> None:
        """Apply what other processes have acknowledged. Costs one memory read if there is nothing.

        Waits for a large group of this account, or of any, that is being taken in.
        """
        if self._commits.applying:
            await self._commits.wait_applied(account)
        while self._cursor.is_behind:
            if self._cursor.is_publishing:
                if not await self._commits.recover():
                    self._cursor.catch_up_publishing(CATCH_UP_BYTES)
                    return
            elif self._cursor.catch_up(CATCH_UP_BYTES):
                break
            else:
                await asyncio.sleep(0)
        # What was taken in before a write may have been a rewrite too.
        self._compaction.follow()

    async def resume(self) -> None:
        """Begin to write again where the disk was full and has room; does nothing otherwise."""
        await self._commits.resume()

    async def place(self) -> LogState:
        """Return the files and the end of the log while nobody writes. Raises Unavailable."""
        async with self._commits.lock_log():
            return LogState(self._log.numbers(), self._cursor.position, self.last_seq, self._log_id, self.erases)

    async def is_compaction_due(self, retention_s: float) -> bool:
        """Tell whether a compaction would make the log much smaller."""
        return await self._compaction.is_due(retention_s)

    async def compact(self, retention_s: float, run_subprocess: SubprocessRunner) -> CompactionResult:
        """Forget the operations older than `retention_s` seconds; see `Compaction.run`."""
        await self.refresh()
        return await self._compaction.run(retention_s, run_subprocess)

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

    async def erase(self, wanted: EraseRequest) -> Outcome:
        """Erase a row; see `Eraser.commit`."""
        return await self._eraser.commit(wanted)

    async def end_erasing(self) -> None:
        """Remove what another process had open while its row was erased; does nothing otherwise."""
        await self._eraser.end()

    async def find_replay(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        await self.refresh()
        retries = self._replica.retries
        return next(iter(await retries.answers(self.history, account, idempotency, self._clock.now())), None)

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
        await self._commits.finish()
        await self._compaction.close()
        self._eraser.close()
        self._log.close()
        self._lock.close()


_LOCK_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Environment:
    """What a store needs from outside: the collections that it stores, and access to the machine.

    `wait(seconds)` sleeps while another process holds the lock at opening.
    """

    files: FileSystem
    clock: Clock
    ids: Ids
    wait: Callable[[float], None]
    collections: Collections


def open_store(root: Path, world: Environment, options: StoreOptions | None = None) -> FileStore:
    """Open a data directory, making it if there is none.

    Raises Unavailable for a newer format, a log that is gone or a lock that a stopped process holds, and OSError.
    """
    directory = DataDirectory(root)
    check_format(world.files, directory)
    check_log(world.files, directory)
    world.files.make_folder(root)
    options = options or StoreOptions()
    lock = LockFile(world.files, directory.lock)
    log = ChangeLog(world.files, directory.change_log)
    try:
        _wait_for(lock, directory, options, world)
        store = FileStore(
            StoreContext(world.files, directory, log, lock, world.clock, world.ids),
            world.collections,
            options,
        )
    except (KnowHubError, OSError):
        # Closing releases the lock too.
        log.close()
        lock.close()
        raise
    lock.release()
    return store


def _wait_for(lock: LockFile, directory: DataDirectory, options: StoreOptions, world: Environment) -> None:
    waited = 0.0
    while not lock.try_acquire():
        if waited >= options.lock_timeout_s:
            raise Unavailable(f"another process has held {directory.lock} for {options.lock_timeout_s:g} s")
        world.wait(_LOCK_POLL_S)
        waited += _LOCK_POLL_S
