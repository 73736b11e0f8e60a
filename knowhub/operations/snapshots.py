"""Snapshots of the whole directory, and the return of one account to one of them."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from knowhub.core import clock
from knowhub.core.clock import CooperativePause
from knowhub.core.collection import Collection, Collections, Key, OnDelete
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.ids import Ids
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    Group,
    HistoryStore,
    IdempotencyKey,
    LongDecision,
    Operation,
    Row,
    Unchanged,
    View,
    Write,
    is_live,
    next_version,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.store_results import SnapshotEntry, SnapshotReason, SnapshotRow, differs
from knowhub.operations.model import RestoreResult

RESTORE_SNAPSHOT_OP = "restore_snapshot"


def restore_row(then: Row | None, now: Row | None, moment: float) -> Row | None:
    """Return the row to write in order to restore `then`; None if nothing differs, or if the row was erased.

    Versions keep rising, so a client with a version from in between gets a version conflict.
    """
    if is_erased(now) or not differs(then, now):
        return None
    if then is not None and is_live(then):
        version = max(next_version(then), next_version(now))
        kept: Mapping[str, Any] = {name: value for name, value in then.items() if name != "deleted"}
    else:
        version = next_version(now)
        kept = {**(now or {}), "deleted": True}
    return {**kept, "version": version, "updated_at": clock.iso(moment)}


def reattach_row(
    wanted: SnapshotRow, then: Mapping[Key, SnapshotRow], now: Callable[[str, str], Row | None], collection: Collection
) -> SnapshotRow:
    """Return a row whose required targets can be live: a target of the snapshot may have been erased since.

    A row then refers to the next one above that was live in the snapshot, if its reference says so; else it is not
    wanted any more.
    """
    row = wanted.row
    for reference in collection.references if row is not None else ():
        while row is not None and reference.is_required:
            target = reference.key(row)
            if target is None or not is_erased(now(*target)):
                break
            above = then.get(target)
            if reference.on_delete is not OnDelete.REATTACH or collection.row_id or above is None or above.row is None:
                row = None
            else:
                row = {**row, reference.field: above.row[reference.via]}
    return wanted if row is wanted.row else SnapshotRow(wanted.collection, wanted.id, row)


def clear_quotes(wanted: SnapshotRow, fields: frozenset[str]) -> SnapshotRow:
    """Return a row with empty texts in the fields that may quote an erased row."""
    if wanted.row is None or not fields:
        return wanted
    return SnapshotRow(wanted.collection, wanted.id, {**wanted.row, **dict.fromkeys(sorted(fields), "")})


ROWS_PER_OPERATION = 1000

# The first operation also covers what was written while the restore was prepared.
_ROWS_OF_FIRST = ROWS_PER_OPERATION // 2
_ROWS_A_REPORT = 200
_TRIES = 10
_ERASED_NAMED = 1000

Progress = Callable[[int, int], None]


class Prepared(Protocol):
    """A snapshot that was checked and compared with the log, up to operation `last_seq`, for one account."""

    @property
    def last_seq(self) -> int:
        """Return up to which operation the log was read."""

    def differences(self) -> AsyncIterator[SnapshotRow]:
        """Yield each row that the snapshot and the log have otherwise, in the order in which they are to be written."""

    def list_changes(self, after_seq: int, view: Any) -> Iterable[tuple[Key, Row | None]]:  # noqa: ANN401 -- the store's own
        """Return the rows that were written after an operation and before this decision, each as it was before."""

    async def snapshot_before_restore(self) -> SnapshotEntry:
        """Make a snapshot of the current state, before it is overwritten."""


class SnapshotArchives(Protocol):
    """The folder of snapshots. All but `entries` wait for one another, in other processes too."""

    async def entries(self) -> Sequence[SnapshotEntry]:
        """Return every snapshot, newest first."""

    async def create(self, reason: SnapshotReason) -> SnapshotEntry:
        """Make a snapshot. Raises StorageFull, Unavailable and Conflict."""

    async def delete(self, ts: str) -> None:
        """Remove a snapshot. Raises NotFound."""

    def prepare(self, ts: str, account: str) -> AbstractAsyncContextManager[Prepared]:
        """Check a snapshot and find what differs. Raises NotFound, InvalidInput naming the member, StorageFull."""


class Snapshots:
    """Makes, lists, deletes and restores snapshots; `collections` are all that there are.

    A snapshot holds all accounts, a restore is of the caller's. `make_fixed` makes the rows that every account has.
    """

    def __init__(
        self,
        archives: SnapshotArchives,
        store: HistoryStore,
        ids: Ids,
        collections: Collections,
        make_fixed: Callable[[RequestContext], Awaitable[None]],
    ) -> None:
        self._archives = archives
        self._store = store
        self._ids = ids
        self._collections = collections
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
    ) -> RestoreResult:
        """Bring the caller's account back to a snapshot, as operations that are undone together.

        The current state is kept in another snapshot. Rows that were erased since stay erased and are named. Raises
        NotFound, InvalidInput naming what is wrong with the snapshot, StorageFull, Unavailable, and Conflict where
        writing never pauses; then nothing was changed.
        """
        replayed = await self._store.find_replay(ctx.account, key)
        if replayed is not None:
            return await self._answer(ctx, ts, [replayed.operation])
        async with self._archives.prepare(ts, ctx.account) as prepared:
            plan = _Plan(ctx, ts, self._store, self._collections, prepared)
            await plan.read()
            if plan.needs_fixed_rows():
                await self._make_fixed(ctx)
            await plan.catch_up(progress)
            if not plan.chunks:
                return RestoreResult(ts, erased=plan.erased)
            kept = await prepared.snapshot_before_restore()
            for _ in range(_TRIES):
                await plan.catch_up(progress)
                if not plan.chunks:
                    return RestoreResult(ts, erased=plan.erased, safety_snapshot=kept.ts)
                try:
                    decides = plan.build_decisions(f"restore-{self._ids.hex(32)}", kept.ts)
                    outcomes = await self._store.commit_group(ctx.account, ctx.actor, decides, key)
                except LogChanged:
                    continue
                return await self._answer(
                    ctx, ts, [outcome.operation for outcome in outcomes if isinstance(outcome, Committed)]
                )
        raise Conflict("this account is being written to without a pause; nothing was restored, try it again")

    async def _answer(self, ctx: RequestContext, ts: str, operations: Sequence[Operation]) -> RestoreResult:
        if not operations:
            return RestoreResult(ts)
        group = operations[-1].group
        if group is not None:
            operations = await self._store.group(ctx.account, group.id)
        reply = operations[-1].reply or {}
        erased = [
            (name, row_id) for operation in operations for name, row_id in (operation.reply or {}).get("erased", ())
        ]
        live = [is_live(change.after) for operation in operations for change in operation.changes]
        return RestoreResult(
            ts=reply["ts"],
            restored=live.count(True),
            removed=live.count(False),
            erased=list(dict.fromkeys(erased))[:_ERASED_NAMED],
            safety_snapshot=reply["safety_snapshot"],
            restore_id=group.id if group else None,
            operation_ids=[operation.operation_id for operation in operations],
        )


class _Plan:
    """What a restore is to write, updated while others go on writing."""

    def __init__(
        self,
        ctx: RequestContext,
        ts: str,
        store: HistoryStore,
        collections: Collections,
        prepared: Prepared,
    ) -> None:
        self._ctx = ctx
        self._ts = ts
        self._store = store
        self._collections = collections
        self._prepared = prepared
        self._seq = prepared.last_seq
        self._wanted: dict[Key, SnapshotRow] = {}
        self._quoted: dict[Key, list[Key]] = defaultdict(list)
        self._erased: dict[Key, None] = {}
        self.chunks: list[list[Key]] = []

    @property
    def erased(self) -> list[Key]:
        return list(self._erased)[:_ERASED_NAMED]

    async def read(self) -> None:
        """Read what differs, a little at a time."""
        pace = CooperativePause()
        async for wanted in self._prepared.differences():
            self._add_row(wanted)
            await pace.pause()

    def needs_fixed_rows(self) -> bool:
        """Return whether a row that every account has is in the snapshot and was never made here."""
        view = self._store.view(self._ctx.account)
        return any(
            wanted.row is not None
            and wanted.id in self._collections[wanted.collection].fixed_ids
            and view.get(*key) is None
            for key, wanted in self._wanted.items()
        )

    async def catch_up(self, progress: Progress) -> None:
        """Apply what was written since, and split what has to be written into operations."""
        await self._store.refresh(self._ctx.account)
        newest = self._store.last_seq
        self._update_changed(self._store.view(self._ctx.account))
        self._seq = newest
        due: list[Key] = []
        self._erased.clear()
        pace = CooperativePause()
        for count, key in enumerate(self._wanted):
            if count % _ROWS_A_REPORT == 0:
                progress(count, len(self._wanted))
            await pace.pause()
            view = self._store.view(self._ctx.account)
            if self._row(view, key) is not None:
                due.append(key)
            if self._is_erased(view, key):
                self._erased[key] = None
        rest = due[_ROWS_OF_FIRST:]
        parts = [rest[start : start + ROWS_PER_OPERATION] for start in range(0, len(rest), ROWS_PER_OPERATION)]
        self.chunks = [due[:_ROWS_OF_FIRST], *parts] if due else []

    def build_decisions(self, restore_id: str, kept: str) -> list[Decide[View]]:
        """Return the decisions that write it all; the first raises LogChanged where too much was written meanwhile."""

        def make_decision(index: int, keys: Sequence[Key]) -> Decide[View]:
            is_last = index == len(self.chunks) - 1

            def decide(view: View) -> Draft | Unchanged:
                all_keys = [*keys, *self._find_new_changes(view)] if index == 0 else keys
                rows = ((key, self._row(view, key)) for key in all_keys)
                writes = [Write(*key, row) for key, row in rows if row is not None]
                if not writes and is_last:
                    # It answers for all of them, and without rows it could not be undone: split the rest again.
                    raise LogChanged
                if not writes:
                    return Unchanged()
                # Each operation names what it could not restore; the last also names what was erased before.
                erased = [key for key in all_keys if self._is_erased(view, key)]
                erased += self.erased if is_last else ()
                named = [list(key) for key in dict.fromkeys(erased)][:_ERASED_NAMED]
                reply = {"ts": self._ts, "safety_snapshot": kept} if is_last else {}
                group = Group(restore_id, index, len(self.chunks))
                return Draft(
                    RESTORE_SNAPSHOT_OP, writes, reply={**reply, "erased": named}, group=group, is_checked=True
                )

            # A thousand rows may have long texts.
            return LongDecision(decide)

        return [make_decision(index, keys) for index, keys in enumerate(self.chunks)]

    def _find_new_changes(self, view: View) -> list[Key]:
        """Return what was written after the last look, and is not among what is to be written anyway."""
        known = {key for keys in self.chunks for key in keys}
        late = [key for key in self._update_changed(view) if key not in known]
        if len(late) > ROWS_PER_OPERATION - _ROWS_OF_FIRST:
            raise LogChanged
        return late

    def _update_changed(self, view: View) -> list[Key]:
        touched: dict[Key, None] = {}
        for key, before in self._prepared.list_changes(self._seq, view):
            collection = self._collections.get(key[0])
            if collection is None or not collection.is_undoable:
                # Internal rows, such as impressions of a search, are not restored.
                continue
            touched[key] = None
            if key not in self._wanted:
                # It did not differ before it was changed: the snapshot has it as it was then.
                self._add_row(SnapshotRow(*key, before if is_live(before) else None))
        return list(touched)

    def _add_row(self, wanted: SnapshotRow) -> None:
        self._wanted[wanted.key] = wanted
        now = self._store.view(self._ctx.account).get(*wanted.key)
        # An erased row still names its parent, whose row in the snapshot may quote it.
        refers = wanted.row if wanted.row is not None else now if is_erased(now) else None
        erase = self._collections[wanted.collection].erase
        quoting = erase.quoted_by(wanted.id) if erase is not None and refers is not None else None
        if quoting is not None:
            self._quoted[quoting].append(wanted.key)

    def _row(self, view: View, key: Key) -> Row | None:
        wanted, now = self._reattach(view, key), view.get(*key)
        if wanted.row is None and key[1] in self._collections[key[0]].fixed_ids:
            return None
        # It may quote erased rows, even if it was itself erased and saved again.
        erased = [quoted for quoted in self._quoted.get(key, ()) if is_erased(view.get(*quoted))]
        rules = [rules for quoted in erased if (rules := self._collections[quoted[0]].erase) is not None]
        fields = frozenset(field for rule in rules for field in rule.quoting)
        return restore_row(clear_quotes(wanted, fields).row, now, view.now)

    def _is_erased(self, view: View, key: Key) -> bool:
        """Return whether the snapshot has a row that cannot be live again."""
        if self._wanted[key].row is None:
            return False
        return is_erased(view.get(*key)) or self._reattach(view, key).row is None

    def _reattach(self, view: View, key: Key) -> SnapshotRow:
        return reattach_row(self._wanted[key], self._wanted, view.get, self._collections[key[0]])


class LogChanged(Exception):
    """Raised by a decision, so that nothing is written, if more was written meanwhile than it can cover."""
