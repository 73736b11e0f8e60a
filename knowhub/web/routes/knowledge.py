"""The knowledge routes: parse, call the service, answer (seeds 003, 004; names of the seed in brackets)."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from knowhub.core.clock import iso
from knowhub.core.errors import InvalidInput
from knowhub.knowledge.heads import facet
from knowhub.knowledge.model import COLLECTION, ListQuery, Saved
from knowhub.web.dependencies import (
    JsonText,
    body,
    context_of,
    deletion_or_erasing_of,
    erased,
    expected_version,
    hub_of,
    json_response,
    query,
    retry_key,
    written,
)
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import IF_MATCH, RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.schemas import answers as shapes
from knowhub.web.schemas import knowledge as schemas
from knowhub.web.schemas.parts import CallerIds, DeleteParams, DeletionAnswer

router = APIRouter(prefix="/api/knowledge", tags=["knowledge"], route_class=EdgeRoute)

_TAG = "tag."


@router.post(
    "",
    status_code=201,
    summary="Save a record",
    responses=answers(201, shapes.SavedRecord) | answers(200, shapes.SavedRecord, "It stood there already.") | WRITES,
    openapi_extra=RETRY | examples("save", schemas.SaveBody),
)
async def save_knowledge(request: Request) -> Response:
    """Save what was learnt (seed 003 `save_knowledge`).

    A record with the same owner, scopes, types and text is a duplicate: it is answered with status 200 and
    `duplicate_of`, and nothing is written.
    """
    sent = body(request, schemas.SaveBody)
    ctx = context_of(request, sent)
    saved = await hub_of(request).knowledge.save(ctx, sent.to_new(), retry_key(request, ctx))
    location = {"Location": f"/api/knowledge/{quote(saved.record['id'], safe='')}"}
    return _saved(saved, 200 if saved.duplicate_of else 201, location)


@router.post(
    "/batch",
    status_code=201,
    summary="Save many records in one operation",
    responses=answers(201, shapes.SavedRecords)
    | answers(200, shapes.SavedRecords, "All stood there already.")
    | WRITES,
    openapi_extra=RETRY | examples("save_batch", schemas.BatchBody),
)
async def save_knowledge_batch(request: Request) -> Response:
    """Save up to 1,000 records, all or none; duplicates are answered in their places."""
    sent = body(request, schemas.BatchBody)
    ctx = context_of(request, sent)
    items = [item.to_new() for item in sent.items]
    saved = await hub_of(request).knowledge.save_batch(ctx, items, retry_key(request, ctx))
    results = [
        {**one.record, "operation_id": one.operation_id, "duplicate_of": one.duplicate_of} for one in saved.records
    ]
    return written({"results": results, "count": len(results)}, saved.operation_id, 201 if saved.operation_id else 200)


@router.get(
    "/search",
    summary="Find records",
    responses=answers(200, shapes.SearchAnswer) | problems(422),
    openapi_extra=parameters(schemas.SearchParams),
)
async def knowledge_search(request: Request) -> Response:
    """Find what is known: recall by words, then rules, then quality (seed 003 `knowledge_search`)."""
    params = query(request, schemas.SearchParams)
    ctx = context_of(request, params)
    found = await hub_of(request).retrieval.search(ctx, params.query())
    answer: dict[str, Any] = {
        "results": found.records,
        "count": len(found.records),
        "degraded": found.degraded,
        "index_lag": found.index_lag,
    }
    if found.explanation is not None:
        answer["explanation"] = found.explanation
    return json_response(answer)


@router.get(
    "",
    summary="List records, newest first",
    responses=answers(200, shapes.KnowledgeList) | problems(422),
    openapi_extra=parameters(schemas.ListParams),
)
async def list_knowledge(request: Request) -> Response:
    """List records by type, scope, owner and any `tag.<name>=value` (seed 003 `list_knowledge`)."""
    params = query(request, schemas.ListParams)
    ctx = context_of(request, params)
    page = await hub_of(request).knowledge.page(ctx, _list_query(params))
    cursor = "null" if page.next_before is None else f'"{page.next_before}"'
    # The records are JSON text already; writing them again would cost more than everything else.
    body = b'{"results":[%s],"count":%d,"next_cursor":%s}' % (
        b",".join(page.records),
        len(page.records),
        cursor.encode(),
    )
    return Response(body, media_type="application/json")


@router.post(
    "/batch_update",
    summary="Give evidence on many records",
    responses=answers(200, shapes.BatchFeedbackAnswer) | WRITES,
    openapi_extra=RETRY | examples("batch_update", schemas.BatchFeedbackBody),
)
async def batch_update_knowledge(request: Request) -> Response:
    """Add a helpful or harmful case to each record, in one operation; unknown ids are named, not fatal."""
    sent = body(request, schemas.BatchFeedbackBody)
    ctx = context_of(request, sent)
    service = hub_of(request).knowledge
    statuses, operation_id = await service.give_feedback_batch(ctx, sent.votes(), retry_key(request, ctx))
    pairs = zip(sent.feedback_list, statuses, strict=True)
    results = [{"knowledge_id": one.knowledge_id, "status": status} for one, status in pairs]
    return written({"results": results, "count": len(results)}, operation_id)


@router.get(
    "/{knowledge_id}",
    summary="Read a record",
    responses=answers(200, shapes.KnowledgeRecord) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_knowledge(request: Request, knowledge_id: str) -> Response:
    """Read one record, whole; `ETag` is its version."""
    ids = query(request, CallerIds)
    stored = await hub_of(request).knowledge.get(context_of(request, ids), knowledge_id)
    return JsonText(stored.json, 200, {"ETag": f'"{stored.version}"'})


@router.patch(
    "/{knowledge_id}",
    summary="Change fields of a record",
    responses=answers(200, shapes.SavedRecord) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("patch", schemas.PatchBody),
)
async def patch_knowledge(request: Request, knowledge_id: str) -> Response:
    """Change what a record says or who sees it. Evidence is changed by PUT."""
    sent = body(request, schemas.PatchBody)
    ctx = context_of(request, sent)
    version, key = expected_version(request, sent.version), retry_key(request, ctx)
    return _saved(await hub_of(request).knowledge.patch(ctx, knowledge_id, sent.patch(), version, key))


@router.put(
    "/{knowledge_id}",
    summary="Give evidence on a record",
    responses=answers(200, shapes.SavedRecord) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("feedback", schemas.FeedbackBody),
)
async def update_knowledge(request: Request, knowledge_id: str) -> Response:
    """Add a helpful or harmful case, or set the score (seed 003 `update_knowledge`)."""
    sent = body(request, schemas.FeedbackBody)
    ctx = context_of(request, sent)
    version, key = expected_version(request, sent.version), retry_key(request, ctx)
    return _saved(await hub_of(request).knowledge.give_feedback(ctx, knowledge_id, sent.feedback(), version, key))


@router.delete(
    "/{knowledge_id}",
    summary="Delete a record",
    responses=answers(200, DeletionAnswer) | WRITES | problems(404, 409),
    openapi_extra=parameters(DeleteParams, headers=IF_MATCH),
)
async def delete_knowledge(request: Request, knowledge_id: str) -> Response:
    """Delete a record; undoing the operation brings it back. With `erase` nothing does, and nothing tells of it."""
    wanted = deletion_or_erasing_of(request)
    if wanted.is_erasing:
        return await erased(request, COLLECTION, knowledge_id, wanted)
    service = hub_of(request).knowledge
    return written({}, await service.delete(wanted.ctx, knowledge_id, wanted.version, wanted.key))


@router.get(
    "/{knowledge_id}/history",
    summary="Every version of a record",
    responses=answers(200, shapes.HistoryAnswer) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def knowledge_history(request: Request, knowledge_id: str) -> Response:
    """Tell who changed what and when, newest first; a deleted record's history too."""
    ids = query(request, CallerIds)
    entries = await hub_of(request).knowledge.history(context_of(request, ids), knowledge_id)
    results = [
        {
            "version": entry.version,
            "operation_id": entry.operation_id,
            "op": entry.op,
            "actor": entry.actor,
            "timestamp": iso(entry.timestamp),
            "changes": entry.changes,
        }
        for entry in entries
    ]
    return json_response({"results": results, "count": len(results), "next_cursor": None})


def _saved(saved: Saved, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    tag = {"ETag": f'"{saved.record["version"]}"', **(headers or {})}
    body = saved.record if saved.duplicate_of is None else {**saved.record, "duplicate_of": saved.duplicate_of}
    return written(body, saved.operation_id, status, tag)


def _list_query(params: schemas.ListParams) -> ListQuery:
    filters = [frozenset(facet("type", kind) for kind in params.types)] if params.types else []
    if params.scopes:
        filters.append(frozenset(facet("scope", scope) for scope in params.scopes))
    if params.owner is not None:
        filters.append(frozenset({facet("owner", params.owner)}))
    for name, value in (params.model_extra or {}).items():
        if not name.startswith(_TAG) or not isinstance(value, str):
            raise InvalidInput.of(name, "there is no such parameter; a tag is asked for by tag.<name>=value")
        filters.append(frozenset({facet(name, value)}))
    return ListQuery(filters, params.limit, _cursor(params.cursor))


def _cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):  # noqa: PLR2004 -- digits of any ordinal
        raise InvalidInput.of("cursor", "must be the next_cursor of an earlier page")
    return int(cursor)
