"""History and undo of every operation, whatever it touched (seed 001 §7, KT-188; `design` promise 4)."""

from collections.abc import AsyncIterator, Mapping, Sequence

from knowhub.core import scopes
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, KnowHubError, NotFound
from knowhub.core.ids import Ids
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
    is_live,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.row_paths import changed_paths, dotted, flatten
from knowhub.core.undo import RowRules
from knowhub.operations.decisions import Blocked, turned_around
from knowhub.operations.model import OperationEntry, OperationFilter, OperationPage, UndoResult
from knowhub.operations.ports import HistoryView, OperationStore

_NAMED = 20


class OperationsService:
    """Reads the log as history and turns its operations around; `rules` has one entry a collection."""

    def __init__(self, store: OperationStore, ids: Ids, rules: Mapping[str, RowRules]) -> None:
        self._store = store
        self._ids = ids
        self._rules = rules

    async def page(self, ctx: RequestContext, wanted: OperationFilter) -> OperationPage:
        """Return the newest operations that pass the filter and that the caller may see."""
        await self._store.refresh()
        entries: list[OperationEntry] = []
        async for operation in self._candidates(ctx, wanted):
            if _is_older(operation, wanted):
                break
            if not _passes(operation, wanted) or not _sees(ctx, operation):
                continue
            if len(entries) == wanted.limit:
                return OperationPage(entries, entries[-1].operation.seq)
            entries.append(self._entry(ctx, operation))
        return OperationPage(entries, None)

    async def get(self, ctx: RequestContext, operation_id: str) -> OperationEntry:
        """Return one operation with its rows. Raises NotFound."""
        await self._store.refresh()
        operation = await self._store.operation(ctx.account, operation_id)
        if operation is None or not _sees(ctx, operation):
            raise NotFound.of("operation", operation_id)
        return self._entry(ctx, operation)

    async def undo(
        self, ctx: RequestContext, operation_id: str, *, dry_run: bool = False, key: IdempotencyKey | None = None
    ) -> UndoResult:
        """Undo an operation, or all operations of a group, while nothing newer stands on it.

        Raises NotFound, Forbidden without the rights of the original, and Conflict naming what stands on it.
        """
        await self._store.refresh()
        operations = await self._targets(ctx, operation_id)
        for operation in operations:
            _check_rights(ctx, operation)
        # The newest first: each one is undone on the state that the next older one had left.
        newest_first = list(reversed(operations))
        group_id = f"undo-{self._ids.hex(32)}"
        plan = _Plan(ctx, dry_run=dry_run)
        decides = [
            self._decide(plan, operation, _group(group_id, index, len(newest_first)))
            for index, operation in enumerate(newest_first)
        ]
        try:
            outcomes = await self._store.commit_group(ctx.account, ctx.actor, decides, key)
        except _PlannedOnly:
            outcomes = []
        except _UndoBlocked as blocked:
            raise await self._conflict(ctx, operations, blocked) from blocked
        done = [outcome.operation for outcome in outcomes if not isinstance(outcome, Unchanged)]
        changes = [change for operation in done for change in operation.changes] if done else plan.changes
        return UndoResult(
            [operation.operation_id for operation in done],
            [operation.operation_id for operation in operations],
            changes,
            dry_run,
        )

    async def _targets(self, ctx: RequestContext, operation_id: str) -> Sequence[Operation]:
        operation = await self._store.operation(ctx.account, operation_id)
        operations = [operation] if operation else await self._store.group(ctx.account, operation_id)
        if not operations or not all(_sees(ctx, operation) for operation in operations):
            raise NotFound.of("operation", operation_id)
        return operations

    def _decide(self, plan: "_Plan", operation: Operation, group: Group | None) -> Decide[HistoryView]:
        def decide(view: HistoryView) -> Draft:
            # Votes never block an undo, so that the rows alone would let one be taken back twice.
            undo = view.undone_by(operation.operation_id)
            if undo is not None:
                raise Conflict("this operation is undone already; undo the undo to redo it", {"undone_by": undo})
            rows = _undone_rows(view, operation, self._rules, plan)
            plan.add(view, rows)
            if plan.dry_run and (group is None or group.index == group.of - 1):
                raise _PlannedOnly
            writes = [Write(change.collection, change.id, row) for change, row in rows]
            return Draft("undo_operation", writes, undo_of=operation.operation_id, group=group)

        return decide

    async def _conflict(
        self, ctx: RequestContext, operations: Sequence[Operation], blocked: "_UndoBlocked"
    ) -> Conflict:
        standing = []
        for block in blocked.blocks:
            newest = max(operation.seq for operation in operations)
            newer = [operation.operation_id async for operation in self._newer(ctx, block, newest)]
            fields = [dotted(path) for path in block.fields]
            standing.append(
                {"collection": block.collection, "id": block.id, "fields": fields, "operations": newer[:_NAMED]}
            )
        referrers = [{"collection": collection, "id": row_id} for collection, row_id in blocked.referrers]
        return Conflict(
            "newer operations stand on this one; undo those first, they are named in `conflicts`",
            {"conflicts": standing, "referrers": referrers},
        )

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
            if _sees(ctx, operation) and not moved.isdisjoint(block.fields):
                yield operation

    def _candidates(self, ctx: RequestContext, wanted: OperationFilter) -> AsyncIterator[Operation]:
        if wanted.subject is not None:
            return self._store.operations_on(ctx.account, None, wanted.subject)
        return self._store.operations(ctx.account, wanted.before_seq)

    def _entry(self, ctx: RequestContext, operation: Operation) -> OperationEntry:
        undone_by = self._store.undone_by(ctx.account, operation.operation_id)
        known = all(change.collection in self._rules for change in operation.changes)
        return OperationEntry(operation, undone_by, undone_by is None and known)


class _Plan:
    """What the decisions of one undo would write, gathered for a dry run."""

    def __init__(self, ctx: RequestContext, *, dry_run: bool) -> None:
        self.ctx = ctx
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


class _UndoBlocked(KnowHubError):
    def __init__(self, blocks: Sequence[Blocked], referrers: Sequence[tuple[str, str]]) -> None:
        super().__init__("blocked")
        self.blocks = blocks
        self.referrers = referrers


def _undone_rows(
    view: HistoryView, operation: Operation, rules: Mapping[str, RowRules], plan: _Plan
) -> list[tuple[Change, Row]]:
    rows: list[tuple[Change, Row]] = []
    blocks: list[Blocked] = []
    for change in reversed(operation.changes):
        if change.collection not in rules:
            raise Conflict(f"an operation on {change.collection} cannot be undone", {"undoable": False})
        current = view.get(change.collection, change.id) or change.after
        if not _sees_row(plan.ctx, current):
            # The operation was seen when it was made; what stands there now need not be.
            raise NotFound.of("operation", operation.operation_id)
        result = turned_around(change, current, rules[change.collection], view.now)
        if isinstance(result, Blocked):
            blocks.append(result)
        else:
            _check_result(result, rules[change.collection])
            rows.append((change, result))
    touched = {*plan.rows, *((c.collection, c.id) for c, _ in rows)}
    referrers = [
        (collection, row_id)
        for collection, row_id in _left_dangling(view, rows, touched)
        # What the caller cannot see counts as missing: it neither stands in the way nor is named.
        if _sees_row(plan.ctx, view.get(collection, row_id) or {})
    ]
    if blocks or referrers:
        raise _UndoBlocked(blocks, referrers)
    return rows


def _check_result(row: Row, rules: RowRules) -> None:
    if rules.check is None or not is_live(row):
        return
    try:
        rules.check(row)
    except InvalidInput as problem:
        detail = f"with what was changed since, undoing this would leave a record that cannot stand: {problem.detail}"
        raise Conflict(detail) from problem


def _left_dangling(
    view: HistoryView, rows: Sequence[tuple[Change, Row]], touched: set[tuple[str, str]]
) -> list[tuple[str, str]]:
    return [
        referrer
        for change, row in rows
        if not is_live(row)
        for referrer in view.referrers(change.collection, change.id)
        if referrer not in touched
    ]


def _sees(ctx: RequestContext, operation: Operation) -> bool:
    """Tell whether the caller may see every row that an operation touched, or made it."""
    if ctx.unrestricted or operation.actor in ctx.own:
        return True
    return all(
        _sees_row(ctx, row) for change in operation.changes for row in (change.before, change.after) if row is not None
    )


def _sees_row(ctx: RequestContext, row: Row) -> bool:
    return ctx.unrestricted or (bool(row) and ctx.sees(scopes.audience(row["scopes"], row["owner"])))


def _check_rights(ctx: RequestContext, operation: Operation) -> None:
    if ctx.unrestricted or operation.actor in ctx.own:
        return
    if not all(ctx.may_edit(change.after["owner"]) for change in operation.changes):
        raise Forbidden("undoing an operation needs the rights that it needed")


def _is_older(operation: Operation, wanted: OperationFilter) -> bool:
    if wanted.after_seq is not None and operation.seq <= wanted.after_seq:
        return True
    return wanted.after_time is not None and operation.timestamp <= wanted.after_time


def _passes(operation: Operation, wanted: OperationFilter) -> bool:
    return (
        (wanted.op is None or operation.op == wanted.op)
        and (wanted.actor is None or operation.actor == wanted.actor)
        and (wanted.before_seq is None or operation.seq < wanted.before_seq)
    )


def _group(group_id: str, index: int, of: int) -> Group | None:
    return Group(group_id, index, of) if of > 1 else None
