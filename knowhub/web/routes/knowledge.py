"""The knowledge routes: parse, call the service, answer (seeds 003, 004; names of the seed in brackets)."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Request, Response

from knowhub.core.clock import iso
from knowhub.core.errors import InvalidInput
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.heads import facet
from knowhub.knowledge.model import COLLECTION, ListQuery, Saved
from knowhub.web.dependencies import (
    JsonText,
    body,
    context_of,
    deletion_or_erasing_of,
    edit_of,
    erased,
    hub_of,
    json_response,
    query,
    retry_key,
    written,
)
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import IF_MATCH, RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.row_answers import etag, list_answer
from knowhub.web.schemas import answers as shapes
from knowhub.web.schemas import knowledge as schemas
from knowhub.web.schemas.operations import HistoryParams
from knowhub.web.schemas.parts import CallerIds, DeleteParams, DeletionAnswer
from knowhub.web.schemas.slimming import EvolvedRecord

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
    return _saved(_with_missing(request, ctx, saved), 200 if saved.duplicate_of else 201, location)


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
        {**one.record, "operation_id": one.operation_id, "duplicate_of": one.duplicate_of}
        for one in (_with_missing(request, ctx, each) for each in saved.records)
    ]
    return written({"results": results, "count": len(results)}, saved.operation_id, 201 if saved.operation_id else 200)


@router.get(
    "/search",
    summary="Find records",
    responses=answers(200, shapes.SearchAnswer) | problems(422),
    openapi_extra=parameters(schemas.SearchParams),
)
async def knowledge_search(request: Request) -> Response:
    """Find what is known: recall, routing where a model is configured, then quality (seed 003 `knowledge_search`)."""
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
    if found.tokens is not None:
        answer["tokens"] = found.tokens
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
    hub = hub_of(request)
    before = hub.cursors.place(ctx.account, COLLECTION, params.cursor)
    page = await hub.knowledge.page(ctx, _list_query(params, before))
    return list_answer(page.records, hub.cursors.sealed(ctx.account, COLLECTION, page.next_before))


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


@router.post(
    "/outcome",
    summary="Give evidence on all that was shown for a goal",
    responses=answers(200, shapes.OutcomeAnswer) | WRITES,
    openapi_extra=RETRY | examples("outcome", schemas.OutcomeBody),
)
async def report_outcome(request: Request) -> Response:
    """Tell how it went: each record that searches showed for the goal, or in the session, gets the case, once."""
    sent = body(request, schemas.OutcomeBody)
    ctx = context_of(request, sent)
    results, operation_id = await hub_of(request).outcomes.report(ctx, sent.outcome(), retry_key(request, ctx))
    return written({"results": results, "count": len(results)}, operation_id)


@router.get(
    "/profile",
    summary="What is known about the caller",
    responses=answers(200, shapes.KnowledgeList) | problems(422),
    openapi_extra=parameters(schemas.ProfileParams),
)
async def own_profile(request: Request) -> Response:
    """Load the caller's `user_profile` records, the surest first: what an agent needs at its start (seed 004)."""
    params = query(request, schemas.ProfileParams)
    records = await hub_of(request).own_profile.records(context_of(request, params), params.limit)
    return list_answer(records)


@router.get(
    "/{knowledge_id}",
    summary="Read a record",
    responses=answers(200, shapes.ReadRecord) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_knowledge(request: Request, knowledge_id: str) -> Response:
    """Read one record, whole, with the records that nearly say the same; `ETag` is its version."""
    ctx, hub = context_of(request, query(request, CallerIds)), hub_of(request)
    stored = await hub.knowledge.get(ctx, knowledge_id)
    similar = [{"id": one, "similarity": similarity} for one, similarity in await hub.similarity.of(ctx, knowledge_id)]
    # The record is JSON text already; reading it to write it again would cost more than everything else.
    text = b'%s,"similar":%s}' % (stored.json[:-1], orjson.dumps(similar))
    return JsonText(text, 200, etag(stored.version))


@router.patch(
    "/{knowledge_id}",
    summary="Change fields of a record",
    responses=answers(200, shapes.SavedRecord) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("patch", schemas.PatchBody),
)
async def patch_knowledge(request: Request, knowledge_id: str) -> Response:
    """Change what a record says or who sees it. Evidence is changed by PUT."""
    sent = body(request, schemas.PatchBody)
    ctx, version, key = edit_of(request, sent)
    saved = await hub_of(request).knowledge.patch(ctx, knowledge_id, sent.patch(), version, key)
    return _saved(_with_missing(request, ctx, saved))


@router.put(
    "/{knowledge_id}",
    summary="Give evidence on a record",
    responses=answers(200, EvolvedRecord) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("feedback", schemas.FeedbackBody),
)
async def update_knowledge(request: Request, knowledge_id: str) -> Response:
    """Add a helpful or harmful case, set the score, have the content rewritten (seed 003 `update_knowledge`).

    Evidence on a record that was merged into another goes to that one, which is answered.
    """
    sent = body(request, schemas.FeedbackBody)
    ctx, version, key = edit_of(request, sent)
    hub = hub_of(request)
    if sent.evolve_feedback is None:
        return _saved(await hub.knowledge.give_feedback(ctx, knowledge_id, sent.feedback(), version, key))
    done = await hub.evolution.evolve(ctx, knowledge_id, sent.feedback(), version, key)
    return _saved(Saved({**done.saved.record, **done.told}, done.saved.operation_id))


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
    openapi_extra=parameters(HistoryParams),
)
async def knowledge_history(request: Request, knowledge_id: str) -> Response:
    """Tell who changed what and when, newest first; a deleted record's history too."""
    params = query(request, HistoryParams)
    ctx = context_of(request, params)
    page = await hub_of(request).knowledge.history(ctx, knowledge_id, params.limit, params.before)
    results = [
        {
            "version": entry.version,
            "operation_id": entry.operation_id,
            "op": entry.op,
            "actor": entry.actor,
            "timestamp": iso(entry.timestamp),
            "changes": entry.changes,
        }
        for entry in page.entries
    ]
    cursor = None if page.next_before is None else str(page.next_before)
    return json_response({"results": results, "count": len(results), "next_cursor": cursor})


@router.get(
    "/{knowledge_id}/access",
    summary="Who can see a record",
    responses=answers(200, shapes.AccessAnswer) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def knowledge_access(request: Request, knowledge_id: str) -> Response:
    """Tell who can see a record, why the caller does, and what they may do with it."""
    ids = query(request, CallerIds)
    return json_response(await hub_of(request).knowledge.access(context_of(request, ids), knowledge_id))


def _saved(saved: Saved, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    tag = etag(saved.record["version"]) | (headers or {})
    body = saved.record if saved.duplicate_of is None else {**saved.record, "duplicate_of": saved.duplicate_of}
    return written(body, saved.operation_id, status, tag)


def _with_missing(request: Request, ctx: RequestContext, saved: Saved) -> Saved:
    """Name beside a record the resources that it refers to and that are not there, as far as its maker sees (RS-015).

    It is saved all the same: who saves the lesson first and its code second is to be told, not refused.
    """
    referred = saved.record["resource_ids"]
    missing = hub_of(request).resources.missing(ctx, referred) if referred else []
    return replace(saved, record={**saved.record, "missing_resource_ids": missing}) if missing else saved


def _list_query(params: schemas.ListParams, before: int | None) -> ListQuery:
    filters = [frozenset(facet("type", kind) for kind in params.types)] if params.types else []
    if params.scopes:
        filters.append(frozenset(facet("scope", scope) for scope in params.scopes))
    if params.owner is not None:
        filters.append(frozenset({facet("owner", params.owner)}))
    for name, value in (params.model_extra or {}).items():
        if not name.startswith(_TAG) or not isinstance(value, str):
            raise InvalidInput.of(name, "there is no such parameter; a tag is asked for by tag.<name>=value")
        filters.append(frozenset({facet(name, value)}))
    return ListQuery(filters, params.limit, before)
