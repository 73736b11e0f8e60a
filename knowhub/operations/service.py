"""History and undo of every operation, whatever it touched.

An operation or a group is undone alone, or with the later operations that are in the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Final

from knowhub.core.clock import CooperativePause, free_in_turns
from knowhub.core.collection import Collections, flatten, list_changed_paths
from knowhub.core.erasing import ERASED, ERASING, is_erased
from knowhub.core.errors import Conflict, KnowHubError, NotFound
from knowhub.core.ids import Ids, seq_of
from knowhub.core.operation import (
    Change,
    Decide,
    Draft,
    Group,
    HistoryStore,
    IdempotencyKey,
    LongDecision,
    Operation,
    Unchanged,
    View,
    Write,
)
from knowhub.core.request_context import RequestContext
from knowhub.operations.access_policy import AccessPolicy
from knowhub.operations.derived import find_derived
from knowhub.operations.field_undo import BlockedRow, RowErased, UndoConflict, undo_rows
from knowhub.operations.model import OperationEntry, OperationFilter, OperationPage, UndoResult
from knowhub.operations.snapshots import RESTORE_SNAPSHOT_OP, LogChanged

MAX_WITH_LATER: Final = 100
"""How many later operations `with_later` undoes at most, and how many are named that are in the way."""
MAX_SHOWN: Final = 10_000
"""How many changed rows an answer has at most."""
_TRIES = 10
# An operation with more rows is undone in a thread.
_LONG = 50


class OperationsService:
    """Reads the log as history, and undoes operations by field, as the collections declare it."""

    def __init__(self, store: HistoryStore, ids: Ids, collections: Collections) -> None:
        self._store = store
        self._ids = ids
        self._collections = collections

    async def page(self, ctx: RequestContext, wanted: OperationFilter) -> OperationPage:
        """Return the newest operations that pass the filter and that the caller may see."""
        await self._store.refresh(ctx.account)
        entries: list[OperationEntry] = []
        operations = self._store.operations(ctx.account, wanted.before_seq)
        if wanted.subject is not None:
            operations = self._store.operations_on(ctx.account, None, wanted.subject)
        async for operation in operations:
            if _is_older(operation, wanted):
                break
            if not self._passes(operation, wanted) or not self._policy(ctx).is_listed(operation, wanted.subject):
                continue
            if len(entries) == wanted.limit:
                return OperationPage(entries, entries[-1].operation.seq)
            entries.append(self._make_entry(ctx, operation))
        return OperationPage(entries, None)

    async def get(self, ctx: RequestContext, operation_id: str) -> OperationEntry:
        """Return one operation with its rows. Raises NotFound."""
        await self._store.refresh(ctx.account)
        operation = await self._store.operation(ctx.account, operation_id)
        if operation is None or not self._policy(ctx).can_see(operation):
            raise self._missing(operation_id)
        return self._make_entry(ctx, operation)

    async def undo(
        self,
        ctx: RequestContext,
        operation_id: str,
        *,
        dry_run: bool = False,
        with_later: bool = False,
        key: IdempotencyKey | None = None,
    ) -> UndoResult:
        """Undo an operation, or all operations of a group by its id.

        Raises NotFound, Forbidden without the rights of the original, and Conflict with the operations in the way in
        `blocked_by`. With `with_later` those are undone too.
        """
        for _ in range(_TRIES):
            try:
                return await self._undo(_UndoRun(ctx, operation_id, dry_run, with_later, key))
            except LogChanged:
                # Something was written meanwhile that may block the undo of a restore: try again.
                continue
        raise _conflict("the log is being written to without a pause; nothing was undone, try it again")

    def _policy(self, ctx: RequestContext) -> AccessPolicy:
        """Return what a caller may see and undo on the acknowledged state."""
        return AccessPolicy(ctx, self._collections, self._store.view(ctx.account))

    def _is_undoable(self, operation: Operation) -> bool:
        """Return whether every row of an operation can be undone at all. One of a group may have no rows."""
        for change in operation.changes:
            collection = self._collections.get(change.collection)
            if collection is None or not collection.is_undoable or is_erased(change.after):
                return False
            if change.before is None and change.id in collection.fixed_ids:
                return False
        return bool(operation.changes or operation.group)

    def _missing(self, operation_id: str) -> NotFound:
        """Return the error for an operation that is not there, or that the caller may not see."""
        seq = seq_of(operation_id)
        if seq is None or not 0 < seq <= self._store.base_seq:
            return NotFound.of("operation", operation_id)
        return NotFound(
            f"operation {operation_id!r} is older than what the log keeps: a compaction has removed all up to number "
            f"{self._store.base_seq} (KNOWHUB_UNDO_RETENTION_DAYS). What it wrote stays; a snapshot may hold what was "
            "there before"
        )

    async def _undo(self, run: "_UndoRun") -> UndoResult:
        await self._store.refresh(run.ctx.account)
        policy, read_up_to = self._policy(run.ctx), self._store.last_seq_of(run.ctx.account)
        chosen, pace = await self._find_chosen(policy, run.operation_id), CooperativePause()
        for operation in chosen:
            policy.check_permissions(operation)
            await pace.pause()
        most = len(chosen) + MAX_WITH_LATER
        is_restore = chosen[-1].op == RESTORE_SNAPSHOT_OP
        if is_restore and await self._store.find_replay(run.ctx.account, run.key) is None:
            # Half of a restore is a state that never existed: all of it is undone, and all that came later before it.
            later = await self._find_written_since(chosen)
            chosen = self._add_later(run, chosen, later, most) if later else chosen
        while True:
            try:
                return await self._commit(run, chosen, read_up_to if is_restore else None)
            except UndoConflict as blocked:
                chosen = self._add_later(run, chosen, await self._find_conflicts(chosen, blocked), most)

    async def _find_chosen(self, policy: AccessPolicy, operation_id: str) -> list[Operation]:
        """Return the operation, or those of a group that are not undone yet, with those that were derived from them."""
        account, pace = policy.ctx.account, CooperativePause()
        operation = await self._store.operation(account, operation_id)
        operations = [operation] if operation else await self._store.group(account, operation_id)
        if operation is not None and operation.op == RESTORE_SNAPSHOT_OP and operation.group is not None:
            operations = await self._store.group(account, operation.group.id)
        if not operations:
            raise self._missing(operation_id)
        for item in operations:
            if not policy.can_see(item):
                raise self._missing(operation_id)
            await pace.pause()
        if operation is None and operations[0].group is not None and operations[0].group.index > 0:
            raise _conflict("a compaction has removed the first operations of this group; undo the others by their ids")
        if operation is None:
            # Of a group, what was undone already is left out; if that is all of it, the decision says so.
            left = [item for item in operations if self._store.undone_by(account, item.operation_id) is None]
            operations = left or operations
        if operations[-1].op == RESTORE_SNAPSHOT_OP:
            return list(operations)
        return [*operations, *await find_derived(self._store, self._collections, operations)]

    async def _find_written_since(self, restore: Sequence[Operation]) -> list[Operation]:
        """Return what was written into the account after a restore, the undo of a part of it left out."""
        own = {operation.operation_id for operation in restore}
        later: list[Operation] = []
        async for operation in self._store.operations(restore[-1].account):
            if operation.seq <= restore[-1].seq or len(later) > MAX_WITH_LATER:
                break
            # What a search notes for itself is in nobody's way.
            touched = (self._collections.get(change.collection) for change in operation.changes)
            if operation.undo_of not in own and any(item is not None and item.is_undoable for item in touched):
                later.append(operation)
        return later

    async def _find_conflicts(self, chosen: Sequence[Operation], blocked: UndoConflict) -> list[Operation]:
        """Return the later operations that changed the blocked fields and were not undone since.

        An operation and its undo count as no change. Rows that were reattached in between may still differ: where
        nothing else changed the fields, the undo is in the way.
        """
        own = {operation.operation_id for operation in chosen}
        found: dict[str, Operation] = {}
        for block in blocked.blocks:
            changes = self._store.operations_on(blocked.operation.account, block.collection, block.id)
            async for operation in changes:
                if operation.seq <= blocked.operation.seq or len(found) > MAX_WITH_LATER:
                    break
                is_undone = self._store.undone_by(operation.account, operation.operation_id) is not None
                if operation.operation_id not in own and not is_undone and _changes_fields(operation, block):
                    found[operation.operation_id] = operation
        since = blocked.operation.seq
        # The id of an undone operation tells its number.
        first = [operation for operation in found.values() if (seq_of(operation.undo_of or "") or 0) <= since]
        return first or [*found.values()]

    def _add_later(
        self, run: "_UndoRun", chosen: Sequence[Operation], later: Sequence[Operation], most: int
    ) -> list[Operation]:
        """Return what is to be undone together with the later operations in its way, at most `most` operations.

        Raises Conflict where `with_later` was not asked for or cannot help, and Forbidden.
        """
        policy = self._policy(run.ctx)
        visible = sorted(filter(policy.can_see, later), key=attrgetter("seq"))
        together = sorted([*chosen, *visible], key=attrgetter("seq"))
        problem = None
        if not later:
            problem = "as things are now this cannot be undone; change the records themselves instead"
        elif len(visible) < len(later):
            problem = "operations that you may not see are in the way; nothing was undone"
        elif not run.with_later:
            problem = "later operations are in the way; undo those first, or all of them together with `with_later`"
        elif any(operation.op == RESTORE_SNAPSHOT_OP for operation in later):
            problem = "a restored snapshot is in the way; undo that first"
        elif len(together) > most:
            problem = f"at most {MAX_WITH_LATER} later operations are undone with it; undo the newest ones first"
        if problem is not None:
            blocked_by = [operation.operation_id for operation in visible][-MAX_WITH_LATER:]
            raise _conflict(problem, blocked_by, len(later) - len(visible))
        for operation in visible:
            policy.check_permissions(operation)
        return together

    async def _commit(self, run: "_UndoRun", chosen: list[Operation], read_up_to: int | None) -> UndoResult:
        """Undo operations as one group, the newest first: each on the state that the one after it had found.

        A list of several operations is empty afterwards.
        """
        newest_first = sorted(chosen, key=attrgetter("seq"), reverse=True)
        group_id = f"undo-{self._ids.hex(32)}"
        run.changes, run.read_up_to = {}, read_up_to
        decides = [
            self._decide(run, operation, Group(group_id, index, len(newest_first)))
            for index, operation in enumerate(newest_first)
        ]
        ctx = run.ctx
        try:
            outcomes = list(await self._store.commit_group(ctx.account, ctx.actor, decides, run.key))
        except _DryRun:
            outcomes = []
        except RowErased as erased:
            raise await self._make_erased_conflict(run, erased) from erased
        done = [outcome.operation for outcome in outcomes if not isinstance(outcome, Unchanged)]
        parts = [operation.changes for operation in done] or [run.changes[index] for index in sorted(run.changes)]
        policy, pace = self._policy(ctx), CooperativePause()
        shown: list[Change] = []
        total = 0
        for change in chain.from_iterable(parts):
            if ctx.sees_everything or policy.can_see_change(change):
                total += 1
                if total <= MAX_SHOWN:
                    shown.append(policy.redact(change))
            await pace.pause()
        result = UndoResult(
            [operation.operation_id for operation in done],
            [operation.undo_of for operation in reversed(done) if operation.undo_of is not None]
            or [operation.operation_id for operation in chosen],
            shown,
            run.dry_run,
            total if total > MAX_SHOWN else None,
        )
        if len(newest_first) > 1:
            parts.clear()
            await free_in_turns(run.changes, outcomes, done, decides, newest_first, chosen)
        return result

    def _decide(self, run: "_UndoRun", operation: Operation, group: Group) -> Decide[View]:
        def decide(view: View) -> Draft:
            is_moved = run.read_up_to is not None and self._store.last_seq_of(operation.account) != run.read_up_to
            if run.read_up_to is not None and group.index == 0 and (is_moved or not view.is_acknowledged):
                raise LogChanged
            # Erasing a row rewrites all lines that hold it. `undo_rows` refuses rows erased since they were read.
            gone = next((change for change in operation.changes if is_erased(change.after)), None)
            if gone is not None and not operation.op.startswith(ERASING):
                raise RowErased(*gone.key)
            # Counters never block an undo: without this check, a vote could be taken back twice.
            undo = view.undone_by(operation.operation_id)
            if undo is not None:
                raise _conflict("this operation is undone already; undo the undo to redo it", more={"undone_by": undo})
            if not self._is_undoable(operation):
                raise _conflict(f"{operation.op} cannot be undone", more={"undoable": False})
            rows = undo_rows(AccessPolicy(run.ctx, self._collections, view), operation)
            if run.dry_run:
                run.changes[group.index] = [Change(*key, view.get(*key), row) for key, row in rows.items()]
                if group.index == group.of - 1:
                    raise _DryRun
            writes = [Write(*key, row) for key, row in rows.items()]
            own_group = group if group.of > 1 else None
            return Draft("undo_operation", writes, undo_of=operation.operation_id, group=own_group, is_checked=True)

        return LongDecision(decide) if len(operation.changes) > _LONG else decide

    async def _make_erased_conflict(self, run: "_UndoRun", erased: RowErased) -> KnowHubError:
        """Name the row that no undo brings back, and the operation that erased it, if the log still has that.

        A caller who may not see the row gets the error for a missing operation.
        """
        policy = self._policy(run.ctx)
        if not policy.can_see_row(erased.collection, policy.view.get(erased.collection, erased.id) or {}):
            return self._missing(run.operation_id)
        eraser = None
        async for operation in self._store.operations_on(run.ctx.account, erased.collection, erased.id):
            if operation.op.startswith(ERASING):
                eraser = operation.operation_id
                break
        more = {ERASED: [{"collection": erased.collection, "id": erased.id, "operation_id": eraser}]}
        by = f" by operation {eraser}" if eraser else ""
        detail = f"{erased.id!r} of {erased.collection} was erased{by}; nothing brings it back"
        return _conflict(detail, [eraser] if eraser else [], more=more)

    def _passes(self, operation: Operation, wanted: OperationFilter) -> bool:
        return (
            (operation.op == wanted.op if wanted.op is not None else not self._is_internal(operation))
            and (wanted.actor is None or operation.actor == wanted.actor)
            and (wanted.before_seq is None or operation.seq < wanted.before_seq)
        )

    def _make_entry(self, ctx: RequestContext, operation: Operation) -> OperationEntry:
        undone_by = self._store.undone_by(ctx.account, operation.operation_id)
        policy = self._policy(ctx)
        undoable = undone_by is None and self._is_undoable(operation) and policy.can_undo(operation)
        if not policy.can_see_model_calls(operation):
            operation = replace(operation, agent_io=None)
        # A cascaded link may lead to a row that the caller never saw.
        changes = [change for change in operation.changes if ctx.sees_everything or policy.can_see_current(change)]
        # The reply answers retries of the actor, and may name rows that this caller does not see.
        operation = replace(operation, changes=[policy.redact(change) for change in changes], reply=None)
        return OperationEntry(operation, undone_by, undoable)

    def _is_internal(self, operation: Operation) -> bool:
        """Return whether an operation touched only internal collections."""
        touched = [self._collections.get(change.collection) for change in operation.changes]
        return bool(touched) and all(collection is not None and collection.is_internal for collection in touched)


@dataclass(slots=True)
class _UndoRun:
    """One request to undo. `changes` are those of each of its decisions, by their numbers, for a dry run.

    With `read_up_to`, nothing may have been written after that operation.
    """

    ctx: RequestContext
    operation_id: str
    dry_run: bool
    with_later: bool
    key: IdempotencyKey | None
    changes: dict[int, list[Change]] = field(default_factory=dict)
    read_up_to: int | None = None


class _DryRun(Exception):
    """Raised by the last decision of a dry run, so that nothing is written."""


def _conflict(
    detail: str, blocked_by: Sequence[str] = (), hidden: int = 0, more: Mapping[str, object] | None = None
) -> Conflict:
    return Conflict(detail, {**(more or {}), "blocked_by": list(blocked_by), "blocked_by_hidden": hidden})


def _changes_fields(operation: Operation, block: BlockedRow) -> bool:
    """Return whether an operation changed one of the blocked fields, or a value above or below one."""
    for change in operation.changes:
        if change.key == (block.collection, block.id):
            moved = list_changed_paths(flatten(change.before or {}), flatten(change.after))
            if not block.fields.isdisjoint(moved):
                return True
    return False


def _is_older(operation: Operation, wanted: OperationFilter) -> bool:
    if wanted.after_seq is not None and operation.seq <= wanted.after_seq:
        return True
    return wanted.after_time is not None and operation.timestamp <= wanted.after_time
