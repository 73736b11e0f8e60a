"""History and undo of every operation, whatever it touched."""

from collections.abc import AsyncIterator
from dataclasses import replace

from knowhub.core.collection import Collections
from knowhub.core.ids import Ids
from knowhub.core.operation import HistoryStore, IdempotencyKey, Operation
from knowhub.core.request_context import RequestContext
from knowhub.operations.model import OperationEntry, OperationFilter, OperationPage, UndoResult
from knowhub.operations.undo import UndoRequest, UndoService


class OperationsService:
    """Reads the log as history, and undoes operations."""

    def __init__(self, store: HistoryStore, ids: Ids, collections: Collections) -> None:
        self._store = store
        self._collections = collections
        self._undo = UndoService(store, ids, collections)

    async def page(self, ctx: RequestContext, wanted: OperationFilter) -> OperationPage:
        """Return the newest operations that pass the filter and that the caller may see."""
        await self._store.refresh(ctx.account)
        entries: list[OperationEntry] = []
        async for operation in self._candidates(ctx, wanted):
            if _is_older(operation, wanted):
                break
            if not self._passes(operation, wanted) or not self._undo.policy(ctx).is_listed(operation, wanted.subject):
                continue
            if len(entries) == wanted.limit:
                return OperationPage(entries, entries[-1].operation.seq)
            entries.append(self._entry(ctx, operation))
        return OperationPage(entries, None)

    async def get(self, ctx: RequestContext, operation_id: str) -> OperationEntry:
        """Return one operation with its rows. Raises NotFound."""
        await self._store.refresh(ctx.account)
        operation = await self._store.operation(ctx.account, operation_id)
        if operation is None or not self._undo.policy(ctx).can_see(operation):
            raise self._undo.missing(operation_id)
        return self._entry(ctx, operation)

    async def undo(
        self,
        ctx: RequestContext,
        operation_id: str,
        *,
        dry_run: bool = False,
        with_later: bool = False,
        key: IdempotencyKey | None = None,
    ) -> UndoResult:
        """Undo an operation, or all operations of a group; `UndoService.undo` says what it raises."""
        return await self._undo.undo(UndoRequest(ctx, operation_id, dry_run, with_later, key))

    def _candidates(self, ctx: RequestContext, wanted: OperationFilter) -> AsyncIterator[Operation]:
        if wanted.subject is not None:
            return self._store.operations_on(ctx.account, None, wanted.subject)
        return self._store.operations(ctx.account, wanted.before_seq)

    def _passes(self, operation: Operation, wanted: OperationFilter) -> bool:
        return (
            (operation.op == wanted.op if wanted.op is not None else not self._is_internal(operation))
            and (wanted.actor is None or operation.actor == wanted.actor)
            and (wanted.before_seq is None or operation.seq < wanted.before_seq)
        )

    def _entry(self, ctx: RequestContext, operation: Operation) -> OperationEntry:
        undone_by = self._store.undone_by(ctx.account, operation.operation_id)
        policy = self._undo.policy(ctx)
        undoable = undone_by is None and self._undo.is_undoable(operation) and policy.can_undo(operation)
        if not policy.can_see_model_calls(operation):
            operation = replace(operation, agent_io=None)
        # A link that went along with the operation may be one to something that the caller never saw.
        changes = [change for change in operation.changes if ctx.unrestricted or policy.can_see_current(change)]
        operation = replace(operation, changes=[policy.redact(change) for change in changes])
        return OperationEntry(operation, undone_by, undoable)

    def _is_internal(self, operation: Operation) -> bool:
        """Return whether an operation is only a note of the hub on itself."""
        touched = [self._collections.get(change.collection) for change in operation.changes]
        return bool(touched) and all(collection is not None and collection.is_internal for collection in touched)


def _is_older(operation: Operation, wanted: OperationFilter) -> bool:
    if wanted.after_seq is not None and operation.seq <= wanted.after_seq:
        return True
    return wanted.after_time is not None and operation.timestamp <= wanted.after_time
