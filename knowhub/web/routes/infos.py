"""The info routes: parse, call the service, answer (seeds 000, 001)."""

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from knowhub.keywords.model import INFOS, Linking
from knowhub.web.dependencies import (
    body,
    context_of,
    deletion_of,
    deletion_or_erasing_of,
    edit_of,
    erased,
    hub_of,
    query,
    retry_key,
    written,
)
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import IF_MATCH, RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.row_answers import batch_answer, created_answer, list_answer, read_answer, row_answer
from knowhub.web.schemas import keyword_answers as shapes
from knowhub.web.schemas import keywords as schemas
from knowhub.web.schemas.parts import CallerIds, DeleteParams, DeletionAnswer, OperationAnswer

router = APIRouter(prefix="/api/infos", tags=["infos"], route_class=EdgeRoute)


@router.post(
    "",
    status_code=201,
    summary="Save an info",
    responses=answers(201, shapes.CreatedInfo) | WRITES | problems(409),
    openapi_extra=RETRY | examples("info", schemas.InfoBody),
)
async def create_info(request: Request) -> Response:
    """Save an info and link it to `keyword_ids`; with `auto_link` to what it names too (seed 000 `CreateInfo`)."""
    sent = body(request, schemas.InfoBody)
    ctx = context_of(request, sent)
    created = await hub_of(request).infos.create(ctx, sent.to_new(), retry_key(request, ctx))
    return created_answer(created, "/api/infos")


@router.post(
    "/batch",
    status_code=201,
    summary="Save many infos in one operation",
    responses=answers(201, shapes.CreatedInfos) | WRITES | problems(409),
    openapi_extra=RETRY | examples("info_batch", schemas.InfoBatchBody),
)
async def create_infos(request: Request) -> Response:
    """Save up to 1,000 infos, all or none."""
    sent = body(request, schemas.InfoBatchBody)
    ctx = context_of(request, sent)
    items = [item.to_new() for item in sent.items]
    return batch_answer(await hub_of(request).infos.create_batch(ctx, items, retry_key(request, ctx)))


@router.get(
    "",
    summary="List infos, newest first",
    responses=answers(200, shapes.InfoList) | problems(404, 422),
    openapi_extra=parameters(schemas.InfoListParams),
)
async def list_infos(request: Request) -> Response:
    """List the infos that the caller sees, of one keyword or of all."""
    params = query(request, schemas.InfoListParams)
    ctx = context_of(request, params)
    hub = hub_of(request)
    before = hub.cursors.place(ctx.account, INFOS, params.cursor)
    page = await hub.infos.page(ctx, params.keyword_id, params.limit, before)
    return list_answer(page.records, hub.cursors.sealed(ctx.account, INFOS, page.next_before))


@router.get(
    "/{info_id}",
    summary="Read an info",
    responses=answers(200, shapes.InfoRecord) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_info(request: Request, info_id: str) -> Response:
    """Read one info, whole; `ETag` is its version."""
    ids = query(request, CallerIds)
    return read_answer(await hub_of(request).infos.get(context_of(request, ids), info_id))


@router.patch(
    "/{info_id}",
    summary="Change fields of an info",
    responses=answers(200, shapes.SavedInfo) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("info_patch", schemas.InfoPatchBody),
)
async def update_info(request: Request, info_id: str) -> Response:
    """Change what an info says or who sees it. Its links are changed by PUT and DELETE."""
    sent = body(request, schemas.InfoPatchBody)
    ctx, version, key = edit_of(request, sent)
    return row_answer(await hub_of(request).infos.update(ctx, info_id, sent.patch(), version, key))


@router.delete(
    "/{info_id}",
    summary="Delete an info",
    responses=answers(200, DeletionAnswer) | WRITES | problems(404, 409),
    openapi_extra=parameters(DeleteParams, headers=IF_MATCH),
)
async def delete_info(request: Request, info_id: str) -> Response:
    """Delete an info and its links; undoing the operation brings them back. With `erase` nothing does."""
    wanted = deletion_or_erasing_of(request)
    if wanted.is_erasing:
        return await erased(request, INFOS, info_id, wanted)
    service = hub_of(request).infos
    return written({}, await service.delete(wanted.ctx, info_id, wanted.version, wanted.key))


@router.get(
    "/{info_id}/keywords",
    summary="The keywords of an info",
    responses=answers(200, shapes.LinkedKeywordList) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_keywords_of_info(request: Request, info_id: str) -> Response:
    """List the keywords that an info is linked to, each with its `relation` and who made the link."""
    ids = query(request, CallerIds)
    linked = await hub_of(request).infos.keywords_of(context_of(request, ids), info_id)
    return list_answer([_beside(keyword, relation, maker) for keyword, relation, maker in linked])


@router.put(
    "/{info_id}/keywords/{keyword_id}",
    summary="Link an info to a keyword",
    responses=answers(200, shapes.SavedLink) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("link", schemas.LinkBody),
)
async def link_info(request: Request, info_id: str, keyword_id: str) -> Response:
    """Link them, or say anew how they are linked: a pair has one link at most. `ETag` is the link's version."""
    sent = body(request, schemas.LinkBody)
    ctx, version, key = edit_of(request, sent)
    how = Linking(sent.relation, sent.created_by, version)
    return row_answer(await hub_of(request).infos.link(ctx, info_id, keyword_id, how, key))


@router.delete(
    "/{info_id}/keywords/{keyword_id}",
    summary="Take an info away from a keyword",
    responses=answers(200, OperationAnswer) | WRITES | problems(404, 409),
    openapi_extra=parameters(CallerIds, headers=IF_MATCH),
)
async def unlink_info(request: Request, info_id: str, keyword_id: str) -> Response:
    """Remove the link between them; both stay."""
    ctx, version, key = deletion_of(request)
    return written({}, await hub_of(request).infos.unlink(ctx, info_id, keyword_id, version, key))


def _beside(row: bytes, relation: str, created_by: str) -> bytes:
    """Put a link's fields at the end of a row that is JSON text."""
    told: dict[str, Any] = {"relation": relation, "created_by": created_by}
    return row[:-1] + b"," + orjson.dumps(told)[1:]
