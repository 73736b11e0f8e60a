"""The keyword routes: parse, call the service, answer (seeds 000, 001)."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from knowhub.core.errors import InvalidInput, NotFound
from knowhub.core.permissions import check_may_keep_up
from knowhub.keywords.model import KEYWORDS, Found
from knowhub.keywords.service import Deletion
from knowhub.web.dependencies import (
    JsonText,
    RowDeletion,
    body,
    context_of,
    deletion_of,
    edit_of,
    erased,
    hub_of,
    json_response,
    query,
    raw_body,
    retry_key,
    written,
)
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.long_work import STARTED, started_answer
from knowhub.web.openapi import IF_MATCH, RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.row_answers import batch_answer, created_answer, list_answer, read_answer, row_answer
from knowhub.web.schemas import keyword_answers as shapes
from knowhub.web.schemas import keywords as schemas
from knowhub.web.schemas.parts import CallerIds, DeletionAnswer

router = APIRouter(prefix="/api/keywords", tags=["keywords"], route_class=EdgeRoute)

_STOOD_ALREADY = ("alias_of", "merge")


# First of all routes here: it is asked the most, and a request is matched against one after the other.
@router.get(
    "/search",
    summary="Find a keyword by its name, or let the model find it",
    responses=answers(200, shapes.KeywordSearchAnswer) | problems(422),
    openapi_extra=parameters(schemas.SearchParams),
)
async def search_keywords(request: Request) -> Response:
    """Look `q` up among all names and aliases; where none is it, the model walks the tree (seed 000 `Search`).

    Several keywords of that name, and none, are answers with status 200 too.
    """
    params = query(request, schemas.SearchParams)
    found = await hub_of(request).keyword_search.search(
        context_of(request, params), params.q, expand=params.llm_expand_query, disambiguate=params.llm_disambiguate
    )
    return JsonText(_found(found))


@router.post(
    "",
    status_code=201,
    summary="Create a keyword",
    responses=answers(201, shapes.CreatedKeyword)
    | answers(200, shapes.CreatedKeyword, "The model found that it stands there already.")
    | WRITES
    | problems(409),
    openapi_extra=RETRY | examples("keyword", schemas.KeywordBody),
)
async def create_keyword(request: Request) -> Response:
    """Create a keyword below `parent_id`; without one the model may choose its place (seed 000 `CreateKeyword`)."""
    sent = body(request, schemas.KeywordBody)
    ctx = context_of(request, sent)
    created = await hub_of(request).keywords.create(
        ctx,
        sent.to_new(),
        retry_key(request, ctx),
        auto_place=sent.llm_auto_place,
        dedup_check=sent.llm_dedup_check,
    )
    stood = created.decided.get("dedup") in _STOOD_ALREADY
    return created_answer(created, "/api/keywords", 200 if stood else 201)


@router.post(
    "/batch",
    status_code=201,
    summary="Create many keywords in one operation",
    responses=answers(201, shapes.CreatedKeywords) | WRITES | problems(409),
    openapi_extra=RETRY | examples("keyword_batch", schemas.KeywordBatchBody),
)
async def create_keywords(request: Request) -> Response:
    """Create up to 1,000 keywords, all or none; a later one may hang below an earlier one by its `ref`."""
    sent = body(request, schemas.KeywordBatchBody)
    ctx = context_of(request, sent)
    items = [item.to_new() for item in sent.items]
    return batch_answer(await hub_of(request).keywords.create_batch(ctx, items, retry_key(request, ctx)))


@router.get(
    "/metrics",
    summary="How healthy the tree is",
    responses=answers(200, shapes.TreeMetrics) | problems(422),
    openapi_extra=parameters(CallerIds),
)
async def tree_metrics(request: Request) -> Response:
    """Count orphans, missing descriptions, depths, children and double names (seed 001 `tree_metrics`)."""
    ids = query(request, CallerIds)
    return json_response(await hub_of(request).curator.metrics(context_of(request, ids)))


@router.post(
    "/reorganize",
    summary="Propose how to tidy the tree",
    responses=answers(200, shapes.PlanAnswer) | STARTED | WRITES | problems(409),
    openapi_extra=examples("reorganize", schemas.ReorganizeBody) | parameters(schemas.WaitParams),
)
async def reorganize_keywords(request: Request) -> Response:
    """Make a plan of moves, merges, descriptions and splits, and change nothing (seed 001 `reorganize`)."""
    sent = body(request, schemas.ReorganizeBody, beside_query=True)
    params = query(request, schemas.WaitParams, beside_body=True)
    hub, ctx = hub_of(request), context_of(request, sent)
    if params.wait:
        return json_response(await hub.curator.reorganize(ctx, sent.scope_id))
    check_may_keep_up(ctx)
    if sent.scope_id is not None:
        try:
            # Said now, and not by a job that fails.
            await hub.keywords.get(ctx, sent.scope_id)
        except NotFound as unknown:
            raise InvalidInput.of("scope_id", unknown.detail) from unknown

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        del progress
        return await hub.curator.reorganize(ctx, sent.scope_id)

    return started_answer(hub.jobs.start("reorganize", ctx.account, work))


@router.post(
    "/reorganize/apply",
    summary="Carry out a plan",
    responses=answers(200, shapes.AppliedPlan) | WRITES | problems(409),
    openapi_extra=RETRY | examples("apply_plan", schemas.ApplyBody),
)
async def apply_plan(request: Request) -> Response:
    """Carry a plan out as one operation; 409 when something that it names was changed since it was made."""
    sent = body(request, schemas.ApplyBody)
    ctx = context_of(request, sent)
    done = await hub_of(request).curator.apply(ctx, sent.plan, retry_key(request, ctx))
    return written(done.row, done.operation_id)


@router.get(
    "/{keyword_id}",
    summary="Read a keyword",
    responses=answers(200, shapes.KeywordRecord) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_keyword(request: Request, keyword_id: str) -> Response:
    """Read one keyword, whole; `ETag` is its version."""
    ids = query(request, CallerIds)
    return read_answer(await hub_of(request).keywords.get(context_of(request, ids), keyword_id))


@router.patch(
    "/{keyword_id}",
    summary="Change fields of a keyword",
    responses=answers(200, shapes.SavedKeyword) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("keyword_patch", schemas.KeywordPatchBody),
)
async def update_keyword(request: Request, keyword_id: str) -> Response:
    """Change its name, aliases, description, metadata or scopes. It is moved and merged by routes of their own."""
    sent = body(request, schemas.KeywordPatchBody)
    ctx, version, key = edit_of(request, sent)
    return row_answer(await hub_of(request).keywords.update(ctx, keyword_id, sent.patch(), version, key))


@router.delete(
    "/{keyword_id}",
    summary="Delete a keyword",
    responses=answers(200, DeletionAnswer) | WRITES | problems(404, 409),
    openapi_extra=parameters(schemas.KeywordDeleteParams, headers=IF_MATCH),
)
async def delete_keyword(request: Request, keyword_id: str) -> Response:
    """Delete a keyword, with `cascade` all that is below it too; undoing the operation brings all back.

    With `erase` nothing tells any more of a keyword that was deleted before, and no undo brings it back.
    """
    sent: schemas.KeywordDeleteBody | schemas.KeywordDeleteParams = (
        body(request, schemas.KeywordDeleteBody) if raw_body(request) else query(request, schemas.KeywordDeleteParams)
    )
    ctx, version, key = edit_of(request, sent)
    if sent.erase:
        return await erased(request, KEYWORDS, keyword_id, RowDeletion(ctx, version, key, is_erasing=True))
    how = Deletion(cascade=sent.cascade, policy=sent.info_policy, expected=version)
    return written({}, await hub_of(request).keywords.delete(ctx, keyword_id, how, key))


@router.get(
    "/{keyword_id}/children",
    summary="What hangs directly below a keyword",
    responses=answers(200, shapes.KeywordList) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_children(request: Request, keyword_id: str) -> Response:
    """List all children that the caller sees, oldest first."""
    ids = query(request, CallerIds)
    return list_answer(await hub_of(request).keywords.children(context_of(request, ids), keyword_id))


@router.get(
    "/{keyword_id}/path",
    summary="The way from the root to a keyword",
    responses=answers(200, shapes.KeywordPath) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_path(request: Request, keyword_id: str) -> Response:
    """List the keywords from the root to this one, both included."""
    ids = query(request, CallerIds)
    return list_answer(await hub_of(request).keywords.path(context_of(request, ids), keyword_id))


@router.get(
    "/{keyword_id}/subtree",
    summary="A keyword with all that is below it",
    responses=answers(200, shapes.Subtree) | problems(404, 422),
    openapi_extra=parameters(schemas.SubtreeParams),
)
async def get_subtree(request: Request, keyword_id: str) -> Response:
    """Read a keyword with nested `children_nodes`, so many levels deep; 422 when that is over 10,000 keywords."""
    params = query(request, schemas.SubtreeParams)
    return json_response(await hub_of(request).keywords.subtree(context_of(request, params), keyword_id, params.depth))


@router.get(
    "/{keyword_id}/infos",
    summary="The infos of a keyword",
    responses=answers(200, shapes.LinkedInfoList) | problems(404, 413, 422),
    openapi_extra=parameters(schemas.KeywordInfosParams),
)
async def get_infos_of_keyword(request: Request, keyword_id: str) -> Response:
    """Show a page of the infos that are linked to this keyword, each with its `relation` and who made the link."""
    params = query(request, schemas.KeywordInfosParams)
    return list_answer(await hub_of(request).infos.of_keyword(context_of(request, params), keyword_id, params.query()))


@router.post(
    "/{keyword_id}/move",
    summary="Hang a keyword elsewhere",
    responses=answers(200, shapes.SavedKeyword) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("move", schemas.MoveBody),
)
async def move_keyword(request: Request, keyword_id: str) -> Response:
    """Hang a keyword, with all below it, under another parent; 409 when that one is below it."""
    sent = body(request, schemas.MoveBody)
    ctx, version, key = edit_of(request, sent)
    return row_answer(await hub_of(request).keywords.move(ctx, keyword_id, sent.new_parent_id, version, key))


@router.post(
    "/{keyword_id}/merge",
    summary="Merge a keyword into another",
    responses=answers(200, shapes.SavedKeyword) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("merge", schemas.MergeBody),
)
async def merge_keywords(request: Request, keyword_id: str) -> Response:
    """Give this keyword's names, infos and children to `into`, and delete it; answers the one that stays."""
    sent = body(request, schemas.MergeBody)
    ctx, version, key = edit_of(request, sent)
    return row_answer(await hub_of(request).keywords.merge(ctx, keyword_id, sent.into, version, key))


@router.post(
    "/{keyword_id}/aliases",
    summary="Give a keyword another name",
    responses=answers(200, shapes.SavedKeyword) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("alias", schemas.AliasBody),
)
async def add_alias(request: Request, keyword_id: str) -> Response:
    """Add an alias; 409 when another keyword is called so."""
    sent = body(request, schemas.AliasBody)
    ctx, version, key = edit_of(request, sent)
    return row_answer(await hub_of(request).keywords.add_alias(ctx, keyword_id, sent.alias, version, key))


@router.delete(
    "/{keyword_id}/aliases/{alias}",
    summary="Take a name of a keyword away",
    responses=answers(200, shapes.SavedKeyword) | WRITES | problems(404, 409),
    openapi_extra=parameters(CallerIds, headers=IF_MATCH),
)
async def remove_alias(request: Request, keyword_id: str, alias: str) -> Response:
    """Remove an alias; in the path it is percent-encoded."""
    ctx, version, key = deletion_of(request)
    return row_answer(await hub_of(request).keywords.remove_alias(ctx, keyword_id, alias, version, key))


def _found(found: Found) -> bytes:
    """Join an answer from rows that are JSON text: parsing and writing them anew would cost more than the search."""
    return b'{"status":"%s","node":%s,"path":[%s],"infos":[%s],"candidates":[%s],%s' % (
        found.status.encode(),
        found.node or b"null",
        b",".join(found.path),
        b",".join(found.infos),
        b",".join(found.candidates),
        orjson.dumps(_told(found))[1:],
    )


def _told(found: Found) -> Mapping[str, Any]:
    return {
        "suggested_parent_id": found.suggested_parent_id,
        "suggested_name": found.suggested_name,
        "reason": found.reason,
        "degraded": list(found.degraded),
    }
