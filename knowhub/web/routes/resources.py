"""The resource routes: parse, call the service, answer (seed 003). An id holds slashes: no route goes on behind it."""

from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from knowhub.resources.ids import check_resource_id
from knowhub.resources.model import RESOURCES, SavedResource
from knowhub.web.dependencies import (
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
from knowhub.web.row_answers import etag
from knowhub.web.schemas import resources as schemas
from knowhub.web.schemas.parts import DeleteParams, DeletionAnswer

router = APIRouter(prefix="/api/resource", tags=["resources"], route_class=EdgeRoute)


@router.post(
    "",
    status_code=201,
    summary="Save a resource",
    responses=answers(201, schemas.SavedResourceRecord)
    | answers(200, schemas.SavedResourceRecord, "With `upsert`: it stood there, and is a new version now.")
    | WRITES,
    openapi_extra=parameters(schemas.ResourceSaveParams, headers=RETRY) | examples("resource", schemas.ResourceBody),
)
async def save_resource(request: Request) -> Response:
    """Save code, a credential, a cookie or any other text; `secure_body` is sealed (seed 003 `resource_save`).

    A taken id is answered with status 409. With `upsert` the owner saves a new version, which says all anew.
    """
    params = query(request, schemas.ResourceSaveParams, beside_body=True)
    sent = body(request, schemas.ResourceBody, beside_query=True)
    ctx = context_of(request, sent)
    service = hub_of(request).resources
    saved = await service.save(ctx, sent.to_new(), retry_key(request, ctx), upsert=params.upsert)
    location = {"Location": f"/api/resource/{quote(sent.id)}"}
    return _saved(saved, 201 if saved.is_new else 200, location)


@router.get(
    "",
    summary="List resources by id",
    responses=answers(200, schemas.ResourceList) | problems(422),
    openapi_extra=parameters(schemas.ResourceListParams),
)
async def list_resources(request: Request) -> Response:
    """List the resources that the caller sees, by prefix, kind and expiry, without what is sealed."""
    params = query(request, schemas.ResourceListParams)
    page = await hub_of(request).resources.page(context_of(request, params), params.query())
    answer = {"results": page.records, "count": len(page.records), "next_cursor": page.next_after}
    return json_response(answer)


@router.get(
    "/{resource_id:path}",
    summary="Read a resource",
    responses=answers(200, schemas.ReadResource) | problems(404, 409, 422, 429, 503, 507),
    openapi_extra=parameters(schemas.ResourceParams),
)
async def get_resource(request: Request, resource_id: str) -> Response:
    """Read one resource; `ETag` is its version. With `reveal` also what is sealed of it.

    That may its owner, an admin, and whoever sees it by a scope other than `public`, readers not. Who was shown it
    stands in the log before this is answered, as the operation `reveal_resource`.
    """
    params = query(request, schemas.ResourceParams)
    ctx, service = context_of(request, params), hub_of(request).resources
    if not params.reveal:
        record = await service.get(ctx, resource_id)
        return json_response(record, headers=etag(record["version"]))
    shown = await service.reveal(ctx, resource_id)
    told = {**shown.record, "secure_body": shown.secure_body}
    return written(told, shown.operation_id, 200, etag(shown.record["version"]))


@router.patch(
    "/{resource_id:path}",
    summary="Change fields of a resource",
    responses=answers(200, schemas.SavedResourceRecord) | WRITES | problems(404, 409),
    openapi_extra=IF_MATCH | examples("resource_patch", schemas.ResourcePatchBody),
)
async def update_resource(request: Request, resource_id: str) -> Response:
    """Change what a resource says, what is sealed of it, or who sees it."""
    sent = body(request, schemas.ResourcePatchBody)
    ctx, version, key = edit_of(request, sent)
    service = hub_of(request).resources
    return _saved(await service.patch(ctx, check_resource_id(resource_id), sent.patch(), version, key))


@router.delete(
    "/{resource_id:path}",
    summary="Delete a resource",
    responses=answers(200, DeletionAnswer) | WRITES | problems(404, 409),
    openapi_extra=parameters(DeleteParams, headers=IF_MATCH),
)
async def delete_resource(request: Request, resource_id: str) -> Response:
    """Delete a resource; undoing the operation brings it back.

    With `erase` nothing does: what is sealed of it cannot be opened any more, in no snapshot and no copy of the log,
    from which its key is gone.
    """
    wanted = deletion_or_erasing_of(request)
    check_resource_id(resource_id)
    if wanted.is_erasing:
        return await erased(request, RESOURCES, resource_id, wanted)
    service = hub_of(request).resources
    return written({}, await service.delete(wanted.ctx, resource_id, wanted.version, wanted.key))


def _saved(saved: SavedResource, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return written(saved.record, saved.operation_id, status, etag(saved.record["version"]) | (headers or {}))
