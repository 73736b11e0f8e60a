"""Snapshots of the whole directory, and the return of one account to one of them (KT-252)."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict, KnowHubError, NotFound
from knowhub.core.ids import Ids
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    Group,
    IdempotencyKey,
    Operation,
    Row,
    Unchanged,
    Write,
    is_live,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import RowRules
from knowhub.operations.model import Restored, SnapshotEntry, SnapshotReason
from knowhub.operations.ports import HistoryView, OperationStore
from knowhub.operations.restore import RESTORE_OP, Key, Wanted, attached, restored_row, unquoting

ROWS_PER_OPERATION = 1000

# The first operation takes in what was written while the restore was prepared as well.
_ROWS_OF_FIRST = ROWS_PER_OPERATION // 2
_ROWS_A_TURN = 200
_TRIES = 10
_ERASED_NAMED = 1000

Progress = Callable[[int, int], None]


class Prepared(Protocol):
    """A snapshot that was checked and held against the log, up to operation `last_seq`, for one account."""

    @property
    def last_seq(self) -> int:
        """Return up to which operation the log was read."""

    def differences(self) -> AsyncIterator[Wanted]:
        """Yield each row that the snapshot and the log have otherwise, in the order in which they are to be written."""

    def touched(self, after_seq: int, view: Any) -> Iterable[tuple[Key, Row | None]]:  # noqa: ANN401 -- the store's own
        """Return the rows that were written after an operation and before this decision, each as it was before."""

    async def keep_what_stands(self) -> SnapshotEntry:
        """Make a snapshot of what is to be overwritten."""


class SnapshotArchives(Protocol):
    """The folder of snapshots. All but `entries` wait for one another, in other processes too."""

    async def entries(self) -> Sequence[SnapshotEntry]:
        """Return every snapshot, newest first."""

    async def create(self, reason: SnapshotReason) -> SnapshotEntry:
        """Make a snapshot. Raises StorageFull, Unavailable and Conflict."""

    async def delete(self, ts: str) -> None:
        """Remove a snapshot. Raises NotFound."""

    def prepared(self, ts: str, account: str) -> AbstractAsyncContextManager[Prepared]:
        """Check a snapshot and find what differs. Raises NotFound, InvalidInput naming the member, StorageFull."""


class Snapshots:
    """Makes, lists, deletes and restores snapshots; `rules` has one entry a collection.

    A snapshot holds all accounts, a restore is of the caller's. `make_fixed` makes the rows that every account has.
    """

    def __init__(
        self,
        archives: SnapshotArchives,
        store: OperationStore,
        ids: Ids,
        rules: Mapping[str, RowRules],
        make_fixed: Callable[[RequestContext], Awaitable[None]],
    ) -> None:
        self._archives = archives
        self._store = store
        self._ids = ids
        self._rules = rules
        self._make_fixed = make_fixed

    async def create(self) -> SnapshotEntry:
        """Make a snapshot of everything that is acknowledged. Raises StorageFull, Unavailable and Conflict."""
        await self._store.refresh()
        return await self._archives.create(SnapshotReason.DEMAND)

    async def entries(self) -> Sequence[SnapshotEntry]:
        """Return every snapshot, newest first."""
        return await self._archives.entries()

    async def entry(self, ts: str) -> SnapshotEntry:
        """Return one snapshot. Raises NotFound."""
        for entry in await self._archives.entries():
            if entry.ts == ts:
                return entry
        raise NotFound.of("snapshot", ts)

    async def delete(self, ts: str) -> None:
        """Remove a snapshot. Raises NotFound."""
        await self._archives.delete(ts)

    async def restore(
        self,
        ctx: RequestContext,
        ts: str,
        key: IdempotencyKey | None = None,
        progress: Progress = lambda _done, _total: None,
    ) -> Restored:
        """Bring the caller's account back to a snapshot, as operations that are undone together.

        What stands is kept in another snapshot before. Rows that were erased since stay erased and are named. Raises
        NotFound, InvalidInput naming what is wrong with the snapshot, StorageFull, Unavailable, and Conflict where
        writing never pauses; then nothing was changed.
        """
        replayed = await self._store.replayed(ctx.account, key)
        if replayed is not None:
            return await self._answer(ctx, ts, [replayed.operation])
        async with self._archives.prepared(ts, ctx.account) as prepared:
            plan = _Plan(ctx, ts, self._store, self._rules, prepared)
            await plan.read()
            if plan.misses_fixed():
                await self._make_fixed(ctx)
            await plan.catch_up(progress)
            if not plan.chunks:
                return Restored(ts, erased=plan.erased)
            kept = await prepared.keep_what_stands()
            for _ in range(_TRIES):
                await plan.catch_up(progress)
                if not plan.chunks:
                    return Restored(ts, erased=plan.erased, safety_snapshot=kept.ts)
                try:
                    decides = plan.decides(f"restore-{self._ids.hex(32)}", kept.ts)
                    outcomes = await self._store.commit_group(ctx.account, ctx.actor, decides, key)
                except _Moved:
                    continue
                return await self._answer(ctx, ts, [one.operation for one in outcomes if isinstance(one, Committed)])
        raise Conflict("this account is being written to without a pause; nothing was restored, try it again")

    async def _answer(self, ctx: RequestContext, ts: str, operations: Sequence[Operation]) -> Restored:
        if not operations:
            return Restored(ts)
        group = operations[-1].group
        if group is not None:
            operations = await self._store.group(ctx.account, group.id)
        reply = operations[-1].reply or {}
        return Restored(
            ts=reply["ts"],
            restored=reply["restored"],
            removed=reply["removed"],
            erased=[(collection, row_id) for collection, row_id in reply["erased"]],
            safety_snapshot=reply["safety_snapshot"],
            restore_id=group.id if group else None,
            operation_ids=[operation.operation_id for operation in operations],
        )


class _Plan:
    """What a restore is to write, kept right while others go on writing."""

    def __init__(
        self,
        ctx: RequestContext,
        ts: str,
        store: OperationStore,
        rules: Mapping[str, RowRules],
        prepared: Prepared,
    ) -> None:
        self._ctx = ctx
        self._ts = ts
        self._store = store
        self._rules = rules
        self._prepared = prepared
        self._seq = prepared.last_seq
        self._wanted: dict[Key, Wanted] = {}
        self._quoted: dict[Key, list[Key]] = defaultdict(list)
        self._erased: dict[Key, None] = {}
        self.chunks: list[list[Key]] = []

    @property
    def erased(self) -> list[Key]:
        return list(self._erased)[:_ERASED_NAMED]

    async def read(self) -> None:
        """Read what differs, a little at a time."""
        async for wanted in self._prepared.differences():
            self._want(wanted)
            if len(self._wanted) % _ROWS_A_TURN == 0:
                await asyncio.sleep(0)

    def misses_fixed(self) -> bool:
        """Tell whether a row that every account has is in the snapshot and was never made here."""
        view = self._store.view(self._ctx.account)
        return any(
            wanted.row is not None and wanted.id in self._rules[wanted.collection].fixed and view.get(*key) is None
            for key, wanted in self._wanted.items()
        )

    async def catch_up(self, progress: Progress) -> None:
        """Take in what was written since, and part what has to be written into operations."""
        await self._store.refresh()
        newest = self._store.last_seq
        self._take_touched(self._store.view(self._ctx.account))
        self._seq = newest
        due: list[Key] = []
        self._erased.clear()
        for count, key in enumerate(self._wanted):
            if count % _ROWS_A_TURN == 0:
                progress(count, len(self._wanted))
                await asyncio.sleep(0)
            if self._row(self._store.view(self._ctx.account), key) is not None:
                due.append(key)
        rest = due[_ROWS_OF_FIRST:]
        parts = [rest[start : start + ROWS_PER_OPERATION] for start in range(0, len(rest), ROWS_PER_OPERATION)]
        self.chunks = [due[:_ROWS_OF_FIRST], *parts] if due else []

    def decides(self, restore_id: str, kept: str) -> list[Decide[HistoryView]]:
        """Return the decisions that write it all; the first raises _Moved where too much was written meanwhile."""
        tally: Counter[str] = Counter()

        def deciding(index: int, keys: Sequence[Key]) -> Decide[HistoryView]:
            is_last = index == len(self.chunks) - 1

            def decide(view: HistoryView) -> Draft | Unchanged:
                all_keys = [*keys, *self._late(view)] if index == 0 else keys
                writes = self._writes(view, all_keys, tally)
                if not writes and is_last:
                    # It speaks for all of them, and what has no rows could not be undone: part the rest anew.
                    raise _Moved
                if not writes:
                    return Unchanged()
                reply = self._reply(tally, kept) if is_last else None
                return Draft(RESTORE_OP, writes, reply=reply, group=Group(restore_id, index, len(self.chunks)))

            return decide

        return [deciding(index, keys) for index, keys in enumerate(self.chunks)]

    def _late(self, view: HistoryView) -> list[Key]:
        """Return what was written after the last look, and is not among what is to be written anyway."""
        known = {key for keys in self.chunks for key in keys}
        late = [key for key in self._take_touched(view) if key not in known]
        if len(late) > ROWS_PER_OPERATION - _ROWS_OF_FIRST:
            raise _Moved
        return late

    def _take_touched(self, view: HistoryView) -> list[Key]:
        touched: dict[Key, None] = {}
        for key, before in self._prepared.touched(self._seq, view):
            if key[0] not in self._rules:
                # What a search notes for itself, such as what it showed, is no part of what is restored.
                continue
            touched[key] = None
            if key not in self._wanted:
                # It did not differ before it was touched: what it was then is what the snapshot has.
                self._want(Wanted(*key, before if is_live(before) else None))
        return list(touched)

    def _want(self, wanted: Wanted) -> None:
        self._wanted[wanted.key] = wanted
        now = self._store.view(self._ctx.account).get(*wanted.key)
        # Of what was erased the stub says still what it hung on, which may quote it in the snapshot.
        refers = wanted.row if wanted.row is not None else now if is_erased(now) else None
        for end in self._rules[wanted.collection].references(refers) if refers is not None else ():
            if self._rules[end[0]].quoting:
                self._quoted[end].append(wanted.key)

    def _writes(self, view: HistoryView, keys: Sequence[Key], tally: "Counter[str]") -> list[Write]:
        writes = []
        for key in keys:
            row = self._row(view, key)
            if row is not None:
                writes.append(Write(*key, row))
                tally["restored" if is_live(row) else "removed"] += 1
        return writes

    def _row(self, view: HistoryView, key: Key) -> Row | None:
        rules, now = self._rules[key[0]], view.get(*key)
        wanted = attached(self._wanted[key], self._wanted, view.get, rules)
        if self._wanted[key].row is not None and (is_erased(now) or wanted.row is None):
            self._erased[key] = None
        if wanted.row is None and key[1] in rules.fixed:
            return None
        if any(is_erased(view.get(*one)) for one in self._quoted.get(key, ())):
            # It may quote what is gone for good, even where it was erased itself and something stands there anew.
            wanted = unquoting(wanted, rules)
        return restored_row(wanted.row, now, view.now)

    def _reply(self, tally: "Counter[str]", kept: str) -> dict[str, Any]:
        return {
            "ts": self._ts,
            "restored": tally["restored"],
            "removed": tally["removed"],
            "erased": [list(key) for key in self.erased],
            "safety_snapshot": kept,
        }


class _Moved(KnowHubError):
    """Raised by a decision, so that nothing is written, where more was written than it can take in."""

    def __init__(self) -> None:
        super().__init__("the log has moved on")
