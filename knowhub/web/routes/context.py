"""The routes of layered memories: commit a session, search, read, look through, correct, forget (seed 002 §10.1)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from knowhub.context import uri
from knowhub.context.commit_model import CommitResult, WritePlan
from knowhub.context.index.outbox import OutboxStatus
from knowhub.context.index_model import OutboxEvent
from knowhub.context.model import NODES, PARTS, ContextNode
from knowhub.context.search_model import MemoryFound, RetrievedBlock
from knowhub.core.clock import iso
from knowhub.core.errors import InvalidInput
from knowhub.usecases.distill_session import Distillate
from knowhub.web.dependencies import (
    RowDeletion,
    body,
    context_of,
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
from knowhub.web.openapi import IF_MATCH, RETRY, WRITES, answers, examples, parameters, problems
from knowhub.web.row_answers import etag
from knowhub.web.schemas import context as schemas
from knowhub.web.schemas import context_answers as shapes
from knowhub.web.schemas.parts import Body, CallerIds, DeletionAnswer

_SHOWN_OF_A_BLOCK = tuple(shapes.FoundBlock.model_fields)

router = APIRouter(prefix="/api/context", tags=["memories"], route_class=EdgeRoute)


@router.post(
    "/sessions/commit",
    status_code=201,
    summary="Commit a session",
    responses=answers(201, shapes.CommitAnswer, "Something was written.")
    | answers(200, shapes.CommitAnswer, "Nothing was new, or it was a dry run.")
    | WRITES,
    openapi_extra=RETRY | examples("commit", schemas.CommitBody),
)
async def commit_session(request: Request) -> Response:
    """Keep a session word for word, and what it says that is worth remembering, in one operation (CE-112).

    Committing it again adds what is new. When this is answered, all of it can be searched and stands on the disk.
    """
    sent = body(request, schemas.CommitBody)
    ctx = context_of(request, sent)
    done = await hub_of(request).memories.commit_session(ctx, sent.to_commit(), retry_key(request, ctx))
    if done.operation_id is None:
        return written(committed(done), None)
    location = {"Location": f"/api/context/nodes?uri={quote(done.archive.archive_uri, safe='')}"}
    return written(committed(done), done.operation_id, 201, location)


@router.get(
    "/search",
    summary="Search memories",
    responses=answers(200, shapes.MemorySearchAnswer) | problems(404, 422),
    openapi_extra=parameters(schemas.MemorySearchParams),
)
async def search_memory(request: Request) -> Response:
    """Find memories and parts of transcripts, best first, by their abstracts alone: no text is opened (CE-113)."""
    params = query(request, schemas.MemorySearchParams)
    ctx = context_of(request, params)
    found = await hub_of(request).memories.search_memory(
        ctx, params.q, params.target_uri, params.wanted(), params.top_k
    )
    return json_response(shown(found))


@router.get(
    "/read",
    summary="Read a layer of a memory",
    responses=answers(200, shapes.ReadBlock) | problems(404, 422),
    openapi_extra=parameters(schemas.ReadParams),
)
async def read_memory(request: Request) -> Response:
    """Read abstract (`L0`), overview (`L1`) or the whole text (`L2`) of what stands at a URI (CE-114)."""
    params = query(request, schemas.ReadParams)
    block = await hub_of(request).memories.read_memory(
        context_of(request, params),
        params.uri,
        params.to_level(),
        expand_relations=params.expand_relations,
        max_relations=params.max_relations,
    )
    return json_response(shown_read(block))


@router.get(
    "/nodes",
    summary="Read a memory, whole",
    responses=answers(200, shapes.NodeRecord) | problems(404, 422),
    openapi_extra=parameters(schemas.NodeParams),
)
async def get_node(request: Request) -> Response:
    """Read a memory, a session or a message with all its layers (CE-115); `ETag` is its version."""
    params = query(request, schemas.NodeParams)
    node = await hub_of(request).memories.get_node(context_of(request, params), params.uri)
    return json_response(shown_node(node), headers=etag(node.version))


@router.patch(
    "/nodes",
    summary="Correct a memory",
    responses=answers(200, shapes.SavedNode) | WRITES | problems(404),
    openapi_extra=parameters(schemas.NodePlaceParams, headers=IF_MATCH) | examples("node_patch", schemas.NodePatchBody),
)
async def edit_node(request: Request) -> Response:
    """Correct what is remembered; what was said in a session stays as it was said."""
    sent = body(request, schemas.NodePatchBody, beside_query=True)
    address = _address(query(request, schemas.NodePlaceParams, beside_body=True).uri, sent.uri)
    ctx, version, key = edit_of(request, sent)
    edited = await hub_of(request).memories.edit_node(ctx, address, sent.patch(), version, key)
    return written(shown_node(edited.node), edited.operation_id, headers=etag(edited.node.version))


@router.delete(
    "/nodes",
    summary="Forget a memory",
    responses=answers(200, DeletionAnswer) | WRITES | problems(404),
    openapi_extra=parameters(schemas.NodeDeleteParams, headers=IF_MATCH),
)
async def delete_node(request: Request) -> Response:
    """Forget a memory, a message, or a session with its messages; undoing the operation brings it back.

    A session that is committed again does not. With `erase` the content is gone for good.
    """
    address, wanted = _deletion_of(request)
    if wanted.is_erasing:
        collection = PARTS if uri.parse(address).is_part else NODES
        return await erased(request, collection, address, wanted)
    done = await hub_of(request).memories.delete_node(wanted.ctx, address, wanted.version, wanted.key)
    return written({}, done)


@router.get(
    "/children",
    summary="Look through memories",
    responses=answers(200, shapes.ChildrenAnswer) | problems(404, 422),
    openapi_extra=parameters(schemas.ChildrenParams),
)
async def list_children(request: Request) -> Response:
    """List what stands below a URI, as in folders (CE-116)."""
    params = query(request, schemas.ChildrenParams)
    ctx = context_of(request, params)
    below = await hub_of(request).memories.list_children(
        ctx, params.uri, recursive=params.recursive, depth=params.depth
    )
    results = [asdict(one) for one in below.children]
    listed = {"results": results, "count": len(results), "next_cursor": None, "truncated": below.truncated}
    return json_response(listed)


@router.get(
    "/outbox",
    summary="What the index of vectors has yet to take in",
    responses=answers(200, shapes.OutboxAnswer) | problems(422),
    openapi_extra=parameters(CallerIds),
)
async def get_outbox(request: Request) -> Response:
    """Count what waits, and show what failed for good, as far as the caller sees what it is about."""
    params = query(request, CallerIds)
    return json_response(shown_outbox(await hub_of(request).outbox.status(context_of(request, params))))


@router.post(
    "/outbox/{event_id}/retry",
    summary="Try a dead letter again",
    responses=answers(200, shapes.RetriedEvent) | WRITES | problems(404),
    openapi_extra=examples("retry", Body),
)
async def retry_event(request: Request, event_id: str) -> Response:
    """Have an event that failed for good tried again, as if it were new."""
    ctx = context_of(request, body(request, Body))
    event = await hub_of(request).outbox.retry(ctx, event_id)
    return written({"event_id": event.event_id, "status": event.status.value}, None)


@router.post(
    "/sessions/{session_id}/distill",
    summary="Make knowledge of a session",
    responses=answers(200, shapes.DistillAnswer) | WRITES | problems(404),
    openapi_extra=RETRY | examples("distill", schemas.DistillBody),
)
async def distill_session(request: Request, session_id: str) -> Response:
    """Save the patterns, cases, skills, tools, preferences and profile of a session as records, in one operation.

    What was saved before is not saved again; where a memory has changed since, its record is superseded.
    """
    sent = body(request, schemas.DistillBody)
    ctx = context_of(request, sent)
    distill = hub_of(request).distill
    done = await distill.distill(ctx, session_id, retry_key(request, ctx), dry_run=sent.dry_run)
    return written(distilled(done), done.operation_id)


def committed(done: CommitResult) -> dict[str, Any]:
    """Return what committing a session did as the API answers it, but for its operation."""
    return {
        "status": done.status,
        "archive": asdict(done.archive),
        "write_results": [asdict(one) for one in done.write_results],
        "plans": [_plan(one) for one in done.plans],
        "outbox_events": [_event(one) for one in done.outbox_events],
        "stats": dict(done.stats),
        "degraded": list(done.degraded),
    }


def shown(found: MemoryFound) -> dict[str, Any]:
    """Return what a search found as the API answers it."""
    # As values, which orjson writes: copying them into dictionaries first would cost as much as the search.
    return {
        "query_plan": list(found.query_plan),
        "seed_hits": list(found.seed_hits),
        "blocks": [_block(one) for one in found.blocks],
        "total": found.total,
        "degraded": list(found.degraded),
        "index_lag": found.index_lag,
    }


def shown_read(block: RetrievedBlock) -> dict[str, Any]:
    """Return what was read as the API answers it."""
    return {**_block(block), "content": block.content}


def shown_node(node: ContextNode) -> dict[str, Any]:
    """Return a memory as the API answers it."""
    return asdict(node)


def shown_outbox(status: OutboxStatus) -> dict[str, Any]:
    """Return what waits as the API answers it."""
    return {
        **{name: getattr(status, name) for name in ("pending", "claimed", "failed", "dead", "lag_s")},
        "dead_letters": [_event(one) for one in status.dead_letters],
    }


def distilled(done: Distillate) -> dict[str, Any]:
    """Return what a session taught as the API answers it, but for its operation."""
    return {
        "session_uri": done.session_uri,
        "results": [asdict(one) for one in done.results],
        "saved": list(done.saved),
        "count": len(done.saved),
        "dry_run": done.dry_run,
    }


def _block(block: RetrievedBlock) -> dict[str, Any]:
    return {name: getattr(block, name) for name in _SHOWN_OF_A_BLOCK}


def _plan(plan: WritePlan) -> dict[str, Any]:
    return asdict(plan) | {"outbox_events": [one.value for one in plan.outbox_events]}


def _event(event: OutboxEvent) -> Mapping[str, Any]:
    return asdict(event) | {"created_at": iso(event.created_at)}


def _address(in_query: str | None, in_body: str | None) -> str:
    """Return the URI that a request names, in its query or in its body. Raises InvalidInput."""
    address = in_query or in_body
    if address is None:
        raise InvalidInput.of("uri", "is missing; name the memory, as a search or a list has shown it")
    if in_body not in (None, address):
        raise InvalidInput.of("uri", "differs from that of the query; send one of them")
    return address


def _deletion_of(request: Request) -> tuple[str, RowDeletion]:
    if raw_body(request):
        sent = body(request, schemas.NodeEraseBody, beside_query=True)
        address = _address(query(request, schemas.NodePlaceParams, beside_body=True).uri, sent.uri)
        return address, RowDeletion(*edit_of(request, sent), sent.erase)
    params = query(request, schemas.NodeDeleteParams)
    return params.uri, RowDeletion(*edit_of(request, params), params.erase)
