"""History and undo."""

import asyncio
from typing import Any

import orjson
from starlette.responses import Response

from knowhub.core.clock import free_items, iso
from knowhub.operations.model import OperationEntry
from knowhub.web.responses import JsonText, answer_json, answer_list, name_operation
from knowhub.web.route import Call, Routes, WriteCall
from knowhub.web.schemas import operations as schemas
from knowhub.web.views import make_view

routes = Routes("/api/operations", "operations", "History: who did what, and undo for each operation.")


@routes.add("GET", "", {200: schemas.OperationList}, summary="List operations, newest first")
async def list_operations(call: Call, params: schemas.OperationParams) -> Response:
    """List what was done, by whom and when, without the rows."""
    page = await call.hub.operations.log.page(call.ctx, params.to_filter())
    cursor = None if page.next_before is None else str(page.next_before)
    results = [_make_summary(entry) for entry in page.entries]
    return answer_list(results, cursor)


@routes.add("GET", "/{operation_id}", {200: schemas.OperationDetail}, summary="Read an operation with its rows")
async def get_operation(call: Call, operation_id: str) -> Response:
    """Read one operation: each row it touched, before and after."""
    entry = await call.hub.operations.log.get(call.ctx, operation_id)
    operation = entry.operation
    detail = {
        "account": operation.account,
        "group_id": operation.group.id if operation.group else None,
        "changes": [make_view(schemas.ChangeAnswer, change) for change in operation.changes],
        "agent_io": operation.agent_io,
    }
    return answer_json(_make_summary(entry) | detail)


@routes.add(
    "POST",
    "/{operation_id}/undo",
    {200: schemas.UndoAnswer},
    summary="Undo an operation",
    examples={
        "look first": {"dry_run": True},
        "do it": {"dry_run": False},
        "with what came later": {"with_later": True},
    },
    is_body_optional=True,
)
async def undo_operation(call: WriteCall, operation_id: str, body: schemas.UndoBody) -> Response:
    """Undo an operation, or all operations of an import or of a restore by its id.

    A commit of a session is undone with what a model learnt from its messages.

    The fields that the operation changed become what they were before it. 409 where a later operation changed the same
    field, or where a row that is needed is gone: `blocked_by` lists the operations in the way that the caller may see,
    `blocked_by_hidden` counts the others. `with_later` undoes those in `blocked_by` too, newest first, all or none.
    Votes and other counters are never in the way.
    """
    done = await call.hub.operations.log.undo(
        call.ctx, operation_id, dry_run=body.dry_run, with_later=body.with_later, key=call.key
    )

    last_id = done.operation_ids[-1] if done.operation_ids else None

    def render() -> bytes:
        # Row by row: to write ten thousand in one call, or to free them in one, keeps the interpreter for long.
        changes = [orjson.Fragment(orjson.dumps(make_view(schemas.ChangeAnswer, change))) for change in done.changes]
        free_items(done.changes)
        answer = make_view(schemas.UndoAnswer, done, changes=changes, operation_id=last_id)
        if answer["changes_total"] is None:
            del answer["changes_total"]
        return orjson.dumps(answer)

    return JsonText(await asyncio.to_thread(render), 200, name_operation(last_id))


def _make_summary(entry: OperationEntry) -> dict[str, Any]:
    operation = entry.operation
    return {
        "operation_id": operation.operation_id,
        "seq": operation.seq,
        "op": operation.op,
        "actor": operation.actor,
        "timestamp": iso(operation.timestamp),
        "subjects": [change.id for change in operation.changes],
        "undo_of": operation.undo_of,
        "undone_by": entry.undone_by,
        "undoable": entry.undoable,
    }
