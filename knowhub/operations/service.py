"""History and undo of every operation, whatever it touched (seed 001 §7, KT-188; `design` promise 4)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from knowhub.core.erasing import ERASED, ERASING, is_erased
from knowhub.core.errors import Conflict, KnowHubError, NotFound
from knowhub.core.ids import Ids, seq_of
from knowhub.core.operation import (
    Change,
    Decide,
    Draft,
    Group,
    IdempotencyKey,
    Operation,
    Row,
    Unchanged,
    Write,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.row_paths import changed_paths, dotted, flatten
from knowhub.core.undo import RowRules
from knowhub.operations.decisions import Blocked
from knowhub.operations.model import Discretion, OperationEntry, OperationFilter, OperationPage, UndoResult
from knowhub.operations.ports import HistoryView, OperationStore
from knowhub.operations.restore import RESTORE_OP
from knowhub.operations.sight import Sight
from knowhub.operations.turning import UndoBlocked, WasErased, check_not_erased, undone_rows

_NAMED = 20
_TRIES = 10


class OperationsService:
    """Reads the log as history and turns its operations around; `rules` has one entry a collection that it undoes."""

    def __init__(
        self, store: OperationStore, ids: Ids, rules: Mapping[str, RowRules], discretion: Discretion | None = None
    ) -> None:
        self._store = store
        self._ids = ids
        self._rules = rules
        self._discretion = discretion or Discretion()

    async def page(self, ctx: RequestContext, wanted: OperationFilter) -> OperationPage:
        """Return the newest operations that pass the filter and that the caller may see."""
        await self._store.refresh()
        entries: list[OperationEntry] = []
        async for operation in self._candidates(ctx, wanted):
            if _is_older(operation, wanted):
                break
            if not self._passes(operation, wanted) or not self._sight(ctx).lists(operation, wanted.subject):
                continue
            if len(entries) == wanted.limit:
                return OperationPage(entries, entries[-1].operation.seq)
            entries.append(self._entry(ctx, operation))
        return OperationPage(entries, None)

    async def get(self, ctx: RequestContext, operation_id: str) -> OperationEntry:
        """Return one operation with its rows. Raises NotFound."""
        await self._store.refresh()
        operation = await self._store.operation(ctx.account, operation_id)
        if operation is None or not self._sight(ctx).sees(operation):
            raise self._missing(operation_id)
        return self._entry(ctx, operation)

    async def undo(
        self, ctx: RequestContext, operation_id: str, *, dry_run: bool = False, key: IdempotencyKey | None = None
    ) -> UndoResult:
        """Undo an operation, or all operations of a group, while nothing newer stands on it.

        Raises NotFound, Forbidden without the rights of the original, and Conflict naming what stands on it.
        """
        for _ in range(_TRIES):
            try:
                return await self._undone(ctx, operation_id, dry_run=dry_run, key=key)
            except _MovedOn:
                # What was written meanwhile may stand in the way of undoing a restore: look again.
                continue
        raise Conflict("the log is being written to without a pause; nothing was undone, try it again")

    async def _undone(
        self, ctx: RequestContext, operation_id: str, *, dry_run: bool, key: IdempotencyKey | None
    ) -> UndoResult:
        await self._store.refresh()
        operations = await self._targets(ctx, operation_id)
        for operation in operations:
            self._sight(ctx).check_rights(operation)
        looked_at = self._store.last_seq
        if operations[-1].op == RESTORE_OP and await self._store.replayed(ctx.account, key) is None:
            await self._check_newest(ctx, operations)
        # The newest first: each one is undone on the state that the next older one had left.
        newest_first = list(reversed(operations))
        group_id = f"undo-{self._ids.hex(32)}"
        plan = _Plan(ctx, looked_at, dry_run=dry_run)
        decides = [
            self._decide(plan, operation, _group(group_id, index, len(newest_first)))
            for index, operation in enumerate(newest_first)
        ]
        try:
            outcomes = await self._store.commit_group(ctx.account, ctx.actor, decides, key)
        except _PlannedOnly:
            outcomes = []
        except WasErased as gone:
            raise await self._erased(ctx, operation_id, gone) from gone
        except UndoBlocked as blocked:
            raise await self._conflict(ctx, operations, blocked) from blocked
        done = [outcome.operation for outcome in outcomes if not isinstance(outcome, Unchanged)]
        changes = [change for operation in done for change in operation.changes] if done else plan.changes
        sight = self._sight(ctx)
        changes = [sight.told(change) for change in changes if ctx.unrestricted or sight.shows(change)]
        return UndoResult(
            [operation.operation_id for operation in done],
            [operation.operation_id for operation in operations],
            [self._discretion.told(change) for change in changes],
            dry_run,
        )

    async def _targets(self, ctx: RequestContext, operation_id: str) -> Sequence[Operation]:
        operation = await self._store.operation(ctx.account, operation_id)
        operations = [operation] if operation else await self._store.group(ctx.account, operation_id)
        if operation is not None and operation.op == RESTORE_OP and operation.group is not None:
            # A part of a restore is no state that ever was.
            operations = await self._store.group(ctx.account, operation.group.id)
        sight = self._sight(ctx)
        if not operations or not all(sight.sees(operation) for operation in operations):
            raise self._missing(operation_id)
        return operations

    def _missing(self, operation_id: str) -> NotFound:
        seq = seq_of(operation_id)
        if seq is None or not 0 < seq <= self._store.base_seq:
            return NotFound.of("operation", operation_id)
        return NotFound(
            f"operation {operation_id!r} is older than what the log keeps: a compaction has forgotten all up to number "
            f"{self._store.base_seq} (KNOWHUB_UNDO_RETENTION_DAYS). What it wrote stands; a snapshot may hold what was "
            "there before"
        )

    async def _check_newest(self, ctx: RequestContext, operations: Sequence[Operation]) -> None:
        """Raise Conflict where rows of the account were written after a restore: it is undone as a whole, or not."""
        newer: list[str] = []
        async for operation in self._store.operations(ctx.account):
            if operation.seq <= operations[-1].seq:
                break
            undo = operation.undo_of is not None and operation.undo_of in {one.operation_id for one in operations}
            # What a search notes for itself stands in nobody's way.
            if any(change.collection in self._rules for change in operation.changes) and not undo:
                newer.append(operation.operation_id)
            if len(newer) == _NAMED:
                break
        if newer:
            raise Conflict(
                "something was written after this restore; undo that first, it is named in `operations`",
                {"operations": newer},
            )

    def _decide(self, plan: "_Plan", operation: Operation, group: Group | None) -> Decide[HistoryView]:
        def decide(view: HistoryView) -> Draft:
            is_first = group is None or group.index == 0
            if (
                operation.op == RESTORE_OP
                and is_first
                and not (view.is_settled and self._store.last_seq == plan.looked_at)
            ):
                raise _MovedOn
            check_not_erased(operation)
            # Votes never block an undo, so that the rows alone would let one be taken back twice.
            undo = view.undone_by(operation.operation_id)
            if undo is not None:
                raise Conflict("this operation is undone already; undo the undo to redo it", {"undone_by": undo})
            if not self._is_undoable(operation):
                raise Conflict(f"{operation.op} cannot be undone", {"undoable": False})
            sight = Sight(plan.ctx, self._rules, view, self._discretion.leans)
            rows = undone_rows(sight, operation, plan.rows)
            plan.add(view, rows)
            if plan.dry_run and (group is None or group.index == group.of - 1):
                raise _PlannedOnly
            writes = [Write(change.collection, change.id, row) for change, row in rows]
            return Draft("undo_operation", writes, undo_of=operation.operation_id, group=group)

        return decide

    async def _erased(self, ctx: RequestContext, operation_id: str, gone: "WasErased") -> KnowHubError:
        """Name the row that no undo brings back, and the operation that erased it, if the log still has that.

        To who does not see that row the operation is missing, as it is to them where it stands.
        """
        sight = self._sight(ctx)
        if not sight.sees_row(gone.collection, sight.view.get(gone.collection, gone.id) or {}):
            return self._missing(operation_id)
        eraser = None
        async for operation in self._store.operations_on(ctx.account, gone.collection, gone.id):
            if operation.op.startswith(ERASING):
                eraser = operation.operation_id
                break
        named = {"collection": gone.collection, "id": gone.id, "operation_id": eraser}
        by = f" by operation {eraser}" if eraser else ""
        return Conflict(f"{gone.id!r} of {gone.collection} was erased{by}; nothing brings it back", {ERASED: [named]})

    async def _conflict(self, ctx: RequestContext, operations: Sequence[Operation], blocked: "UndoBlocked") -> Conflict:
        standing = []
        for block in blocked.blocks:
            newest = max(operation.seq for operation in operations)
            newer = [operation.operation_id async for operation in self._newer(ctx, block, newest)]
            fields = [dotted(path) for path in block.fields]
            standing.append(
                {"collection": block.collection, "id": block.id, "fields": fields, "operations": newer[:_NAMED]}
            )
        referrers = [{"collection": collection, "id": row_id} for collection, row_id in blocked.referrers]
        detail = "newer operations stand on this one; undo those first, they are named in `conflicts`"
        if not standing and not referrers:
            # Nothing that the caller sees: no list names it.
            detail = "as things stand now this cannot be undone; change the rows themselves instead"
        return Conflict(detail, {"conflicts": standing, "referrers": referrers})

    async def _newer(self, ctx: RequestContext, block: Blocked, seq: int) -> AsyncIterator[Operation]:
        """Yield the operations after `seq` that changed one of the blocked fields, as far as the caller sees them."""
        async for operation in self._store.operations_on(ctx.account, block.collection, block.id):
            if operation.seq <= seq:
                return
            changes = [change for change in operation.changes if change.id == block.id]
            moved = {
                path
                for change in changes
                for path in changed_paths(flatten(change.before or {}), flatten(change.after))
            }
            if self._sight(ctx).sees(operation) and not moved.isdisjoint(block.fields):
                yield operation

    def _candidates(self, ctx: RequestContext, wanted: OperationFilter) -> AsyncIterator[Operation]:
        if wanted.subject is not None:
            return self._store.operations_on(ctx.account, None, wanted.subject)
        return self._store.operations(ctx.account, wanted.before_seq)

    def _passes(self, operation: Operation, wanted: OperationFilter) -> bool:
        return (
            (operation.op not in self._discretion.quiet if wanted.op is None else operation.op == wanted.op)
            and (wanted.actor is None or operation.actor == wanted.actor)
            and (wanted.before_seq is None or operation.seq < wanted.before_seq)
        )

    def _entry(self, ctx: RequestContext, operation: Operation) -> OperationEntry:
        undone_by = self._store.undone_by(ctx.account, operation.operation_id)
        sight = self._sight(ctx)
        undoable = undone_by is None and self._is_undoable(operation) and sight.may_undo(operation)
        if not sight.hears(operation):
            operation = replace(operation, agent_io=None)
        if not ctx.unrestricted:
            # A link that the operation took along may be one to something that the caller never saw.
            operation = replace(operation, changes=[sight.told(one) for one in operation.changes if sight.tells(one)])
        operation = replace(operation, changes=[self._discretion.told(one) for one in operation.changes])
        return OperationEntry(operation, undone_by, undoable)

    def _is_undoable(self, operation: Operation) -> bool:
        return bool(operation.changes) and all(
            change.collection in self._rules
            and not is_erased(change.after)
            and (change.before is not None or change.id not in self._rules[change.collection].fixed)
            for change in operation.changes
        )

    def _sight(self, ctx: RequestContext) -> Sight:
        return Sight(ctx, self._rules, self._store.view(ctx.account), self._discretion.leans)


class _Plan:
    """What the decisions of one undo would write, gathered for a dry run."""

    def __init__(self, ctx: RequestContext, looked_at: int, *, dry_run: bool) -> None:
        self.ctx = ctx
        self.looked_at = looked_at
        self.dry_run = dry_run
        self.changes: list[Change] = []
        self.rows: dict[tuple[str, str], Row] = {}

    def add(self, view: HistoryView, rows: Sequence[tuple[Change, Row]]) -> None:
        for change, row in rows:
            self.changes.append(Change(change.collection, change.id, view.get(change.collection, change.id), row))
            self.rows[change.collection, change.id] = row


class _PlannedOnly(KnowHubError):
    """Raised by the last decision of a dry run, so that nothing is written."""

    def __init__(self) -> None:
        super().__init__("dry run")


class _MovedOn(KnowHubError):
    """Raised by the first decision of the undo of a restore where something was written since it was looked for."""

    def __init__(self) -> None:
        super().__init__("the log has moved on")


def _is_older(operation: Operation, wanted: OperationFilter) -> bool:
    if wanted.after_seq is not None and operation.seq <= wanted.after_seq:
        return True
    return wanted.after_time is not None and operation.timestamp <= wanted.after_time


def _group(group_id: str, index: int, of: int) -> Group | None:
    return Group(group_id, index, of) if of > 1 else None
