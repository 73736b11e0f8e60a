"""An in-memory store: the same decisions on the same states, without files, locks or waiting."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from knowhub.core.clock import Clock
from knowhub.core.collection import table_schemas
from knowhub.core.ids import Ids
from knowhub.core.operation import Committed, Decide, IdempotencyKey, Operation, Outcome
from knowhub.engine.account import Account
from knowhub.engine.disk_rows import LogLine
from knowhub.engine.view import AccountView
from knowhub.stores.files.batch import Batch, Request
from knowhub.stores.files.replica import IdempotencyKeys, Subscriber
from tests.collections_of_tests import WITH_NOTES
from tests.pure_decisions import run_twice

_A_DAY_S = 24 * 3600.0
_SCHEMAS = table_schemas(WITH_NOTES)


class MemoryStore:
    """Keeps the contract of `core.operation.Commits` (`tests/contract/`), for tests that need no disk."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._accounts: dict[str, Account] = {}
        self._operations: list[Operation] = []
        self._lines: list[bytes] = []
        self._retries = IdempotencyKeys(_A_DAY_S)
        self._subscriptions: list[tuple[Subscriber, frozenset[str] | None]] = []

    def subscribe(self, subscriber: Subscriber, collections: Iterable[str] | None = None) -> None:
        self._subscriptions.append((subscriber, frozenset(collections) if collections else None))

    @property
    def last_seq(self) -> int:
        return len(self._operations)

    @property
    def base_seq(self) -> int:
        return 0

    def account(self, account: str) -> Account:
        return self._accounts.setdefault(account, Account(_SCHEMAS, self._text))

    def view(self, account: str) -> AccountView:
        return AccountView(self.account(account), self._clock.now())

    async def refresh(self, account: str | None = None) -> None:
        await asyncio.sleep(0)

    async def commit(
        self, account: str, actor: str, decide: Decide[Any], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        return (await self.commit_group(account, actor, [decide], idempotency))[0]

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[Any]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        await asyncio.sleep(0)
        now = self._clock.now()
        if idempotency is not None:
            seq = self._retries.find(account, idempotency, now)
            if seq is not None:
                return [Committed(operation, replayed=True) for operation in self._siblings(seq)]
        batch = Batch(self.account, WITH_NOTES, self._ids, now, 0, self.last_seq + 1, run_twice)
        future: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
        await batch.run(Request(account, actor, decides, idempotency, future))
        _, answer = batch.answers[0]
        if isinstance(answer, Exception):
            raise answer
        for item in batch.decided:
            self._operations.append(item.operation)
            if item.operation.idempotency is not None:
                self._retries.remember(item.operation, item.operation.idempotency, now)
            self._lines.append(item.line)
            line = LogLine(item.operation.seq, 0, item.line)
            self.account(account).load(item.operation.seq, item.changes, line)
            if item.operation.undo_of is not None:
                self.account(account).record_undo(item.operation.undo_of, item.operation.operation_id)
            for subscriber, collections in self._subscriptions:
                all_changes = item.operation.changes
                changes = [change for change in all_changes if collections is None or change.collection in collections]
                if changes or collections is None:
                    subscriber.follow(account, item.operation.seq, changes)
        return answer

    async def find_replay(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        await self.refresh()
        seq = self._retries.find(account, idempotency, self._clock.now()) if idempotency is not None else None
        return Committed(self._siblings(seq)[0], replayed=True) if seq is not None else None

    async def operation(self, account: str, operation_id: str) -> Operation | None:
        return next((item for item in self._of(account) if item.operation_id == operation_id), None)

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        return [item for item in self._of(account) if item.group is not None and item.group.id == group_id]

    async def operations(self, account: str, before_seq: int | None = None) -> AsyncIterator[Operation]:
        for item in reversed(self._of(account)):
            if before_seq is None or item.seq < before_seq:
                yield item

    async def operations_on(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        for item in reversed(self._of(account)):
            if any(change.id == row_id and collection in (None, change.collection) for change in item.changes):
                yield item

    def last_seq_of(self, account: str) -> int:
        return max((operation.seq for operation in self._of(account)), default=0)

    def undone_by(self, account: str, operation_id: str) -> str | None:
        return self.view(account).undone_by(operation_id)

    async def close(self) -> None:
        """Nothing is open."""

    def _text(self, segment: int, start: int, end: int) -> bytes:
        return self._lines[segment - 1][start:end]

    def _of(self, account: str) -> list[Operation]:
        return [item for item in self._operations if item.account == account]

    def _siblings(self, seq: int) -> list[Operation]:
        first = self._operations[seq - 1]
        if first.group is None:
            return [first]
        return [item for item in self._of(first.account) if item.group is not None and item.group.id == first.group.id]
