"""History and undo."""

from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.core.clock import iso
from knowhub.core.operation import Change
from knowhub.operations.model import OperationEntry
from knowhub.web.dependencies import body, context_of, hub_of, json_response, query, retry_key, written
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.schemas import answers as shapes
from knowhub.web.schemas.operations import OperationParams, UndoBody
from knowhub.web.schemas.parts import CallerIds

router = APIRouter(prefix="/api/operations", tags=["operations"], route_class=EdgeRoute)


@router.get(
    "",
    summary="List operations, newest first",
    responses=answers(200, shapes.OperationList) | problems(422),
    openapi_extra=parameters(OperationParams),
)
async def list_operations(request: Request) -> Response:
    """List what was done, by whom and when, without the rows."""
    params = query(request, OperationParams)
    page = await hub_of(request).operations.page(context_of(request, params), params.filter())
    cursor = None if page.next_before is None else str(page.next_before)
    results = [_summary(entry) for entry in page.entries]
    return json_response({"results": results, "count": len(results), "next_cursor": cursor})


@router.get(
    "/{operation_id}",
    summary="Read an operation with its rows",
    responses=answers(200, shapes.OperationDetail) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_operation(request: Request, operation_id: str) -> Response:
    """Read one operation: each row it touched, before and after."""
    ids = query(request, CallerIds)
    entry = await hub_of(request).operations.get(context_of(request, ids), operation_id)
    operation = entry.operation
    detail = {
        "account": operation.account,
        "group_id": operation.group.id if operation.group else None,
        "changes": [_change(change) for change in operation.changes],
        "agent_io": operation.agent_io,
    }
    return json_response(_summary(entry) | detail)


@router.post(
    "/{operation_id}/undo",
    summary="Undo an operation",
    responses=answers(200, shapes.UndoAnswer) | WRITES | problems(404, 409),
    openapi_extra=RETRY | examples("undo", UndoBody),
)
async def undo_operation(request: Request, operation_id: str) -> Response:
    """Undo an operation, or all operations of an import by its id.

    Refused with 409 and names while newer operations stand on it; votes never stand in the way.
    """
    sent = body(request, UndoBody)
    ctx = context_of(request, sent)
    key = retry_key(request, ctx)
    done = await hub_of(request).operations.undo(ctx, operation_id, dry_run=sent.dry_run, key=key)
    answer = {
        "operation_ids": done.operation_ids,
        "undone": done.undone,
        "dry_run": done.dry_run,
        "changes": [_change(change) for change in done.changes],
    }
    return written(answer, done.operation_ids[-1] if done.operation_ids else None)


def _summary(entry: OperationEntry) -> dict[str, Any]:
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


def _change(change: Change) -> dict[str, Any]:
    return {"collection": change.collection, "id": change.id, "before": change.before, "after": change.after}
