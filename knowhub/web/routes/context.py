"""The routes of layered memories: commit a session, search, read, correct, forget; and recall from every source."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from fastapi import Response

from knowhub.context import uri
from knowhub.context.commit.candidate_pipeline import UNREAD
from knowhub.context.commit_model import CommitResult, WritePlan
from knowhub.context.index.outbox import OutboxStatus
from knowhub.context.index_model import OutboxEvent
from knowhub.context.model import NODES, PARTS, ContextNode
from knowhub.context.search_model import MemorySearchResult, RetrievedBlock
from knowhub.core.clock import iso
from knowhub.core.errors import InvalidInput
from knowhub.usecases.distill_session import DistillationResult
from knowhub.usecases.recall import RecallResult
from knowhub.web.responses import answer_json, answer_write, etag
from knowhub.web.route import Call, Edit, Routes, Write
from knowhub.web.schemas import context as schemas
from knowhub.web.schemas import context_answers as shapes
from knowhub.web.schemas.parts import Body, DeletionAnswer

routes = Routes("/api", "memories", "Sessions word for word, and the memories taken from them, in three layers.")

_SHOWN_OF_A_BLOCK = tuple(shapes.FoundBlock.model_fields)


@routes.add(
    "POST",
    "/context/sessions/commit",
    {
        201: (shapes.CommitAnswer, "Something was written."),
        200: (shapes.CommitAnswer, "Nothing was new, or it was a dry run."),
    },
    summary="Commit a session",
    examples={
        "a session with its tools": {
            "session_id": "2026-03-05-login",
            "user_id": "li",
            "agent_id": "crawler",
            "messages": [
                {
                    "role": "user",
                    "content": "以后报告一律用中文，附上 CSV 文件名。",
                    "message_id": "m-1",
                    "timestamp": "2026-03-05T09:00:00Z",
                },
                {"role": "tool", "name": "site_login", "content": "refused: captcha", "message_id": "m-2"},
                {"role": "assistant", "content": "打开登录页后先等待 2 秒，再提交表单。", "message_id": "m-3"},
            ],
            "used_tools": [{"name": "site_login", "ok": False, "seconds": 1.2, "call_id": "c-1"}],
        },
        "the plan, before anything is written": {
            "session_id": "a-look",
            "messages": [{"role": "user", "content": "I prefer answers in English."}],
            "options": {"dry_run": True},
        },
    },
    is_large=True,
)
async def commit_session(call: Write, sent: schemas.CommitBody) -> Response:
    """Store a session word for word, with the memories found in it, in one operation.

    Committing it again adds what is new. The answer comes when everything is on disk and can be searched.
    """
    done = await call.hub.memories.nodes.commit_session(call.ctx, sent.to_commit(), call.key)
    if done.operation_id is None:
        return answer_write(make_commit_view(done), None)
    location = {"Location": f"/api/context/nodes?uri={quote(done.archive.archive_uri, safe='')}"}
    return answer_write(make_commit_view(done), done.operation_id, 201, location)


@routes.add("GET", "/context/search", {200: shapes.MemorySearchAnswer}, summary="Search memories", errors=(404,))
async def search_memory(call: Call, params: schemas.MemorySearchParams) -> Response:
    """Find memories and parts of transcripts, best first. The answer has their abstracts, not their texts."""
    found = await call.hub.memories.nodes.search_memory(
        call.ctx, params.q, params.target_uri, params.get_categories(), params.top_k
    )
    return answer_json(make_search_view(found))


@routes.add("GET", "/context/read", {200: shapes.ReadBlock}, summary="Read a layer of a memory", errors=(404,))
async def read_memory(call: Call, params: schemas.ReadParams) -> Response:
    """Read the abstract (`L0`), overview (`L1`) or whole text (`L2`) of a memory."""
    block = await call.hub.memories.nodes.read_memory(
        call.ctx,
        params.uri,
        params.to_level(),
        expand_relations=params.expand_relations,
        max_relations=params.max_relations,
    )
    return answer_json(make_read_view(block))


@routes.add("GET", "/context/nodes", {200: shapes.NodeRecord}, summary="Read a memory, whole", errors=(404,))
async def get_node(call: Call, params: schemas.NodeParams) -> Response:
    """Read a memory, a session or a message with all its layers; `ETag` is its version."""
    node = await call.hub.memories.nodes.get_node(call.ctx, params.uri)
    return answer_json(make_node_view(node), headers=etag(node.version))


@routes.add(
    "PATCH",
    "/context/nodes",
    {200: shapes.SavedNode},
    summary="Correct a memory",
    errors=(404,),
    examples={"say it better": {"abstract": "报告用中文", "overview": "报告一律用中文，附上 CSV 文件名。"}},
)
async def edit_node(call: Edit, sent: schemas.NodePatchBody, params: schemas.NodePlaceParams) -> Response:
    """Change the layers of a memory. The messages of a session cannot be changed."""
    address = _address(params.uri, sent.uri)
    edited = await call.hub.memories.nodes.edit_node(call.ctx, address, sent.patch(), call.version, call.key)
    return answer_write(make_node_view(edited.node), edited.operation_id, headers=etag(edited.node.version))


@routes.add("DELETE", "/context/nodes", {200: DeletionAnswer}, summary="Delete a memory", errors=(404,))
async def delete_node(
    call: Edit, sent: schemas.NodeEraseBody | schemas.NodeDeleteParams, params: schemas.NodePlaceParams
) -> Response:
    """Delete a memory, a message, or a session with its messages. Undo brings it back.

    Committing the session again does not. With `erase` the content is removed for good.
    """
    address = _address(params.uri, sent.uri)
    if sent.erase:
        collection = PARTS if uri.parse(address).is_part else NODES
        return await call.erase(collection, address)
    done = await call.hub.memories.nodes.delete_node(call.ctx, address, call.version, call.key)
    return answer_write({}, done)


@routes.add("GET", "/context/children", {200: shapes.ChildrenAnswer}, summary="List memories", errors=(404,))
async def list_children(call: Call, params: schemas.ChildrenParams) -> Response:
    """List the memories below a URI, like files in folders."""
    below = await call.hub.memories.nodes.list_children(
        call.ctx, params.uri, recursive=params.recursive, depth=params.depth
    )
    results = [asdict(node_summary) for node_summary in below.children]
    listed = {"results": results, "count": len(results), "next_cursor": None, "truncated": below.truncated}
    return answer_json(listed)


@routes.add("GET", "/context/outbox", {200: shapes.OutboxAnswer}, summary="What waits for the vector index")
async def get_outbox(call: Call) -> Response:
    """Count the events that wait, and list those that failed for good, of memories that the caller may see."""
    return answer_json(make_outbox_view(await call.hub.memories.outbox.status(call.ctx)))


@routes.add(
    "POST",
    "/context/outbox/{event_id}/retry",
    {200: shapes.RetriedEvent},
    summary="Try a dead letter again",
    examples={"once more": {}},
    is_body_optional=True,
)
async def retry_event(call: Call, event_id: str, sent: Body) -> Response:
    """Try an event that failed for good once more, as a new event."""
    del sent
    event = await call.hub.memories.outbox.retry(call.ctx, event_id)
    return answer_write({"event_id": event.event_id, "status": event.status.value}, None)


@routes.add(
    "POST",
    "/context/sessions/{session_id}/distill",
    {200: shapes.DistillAnswer},
    summary="Save knowledge from a session",
    examples={"look first": {"dry_run": True}, "do it": {}},
    is_body_optional=True,
)
async def distill_session(call: Write, session_id: str, sent: schemas.DistillBody) -> Response:
    """Save the patterns, cases, skills, tools, preferences and profile of a session as records, in one operation.

    What was saved before is not saved again. If a memory has changed since, a new record supersedes the old one.
    """
    done = await call.hub.memories.distillation.distill(call.ctx, session_id, call.key, dry_run=sent.dry_run)
    return answer_write(make_distillation_view(done), done.operation_id)


def make_commit_view(done: CommitResult) -> dict[str, Any]:
    """Return what committing a session did as the API answers it, but for its operation."""
    return {
        "status": done.status,
        "archive": asdict(done.archive),
        "write_results": [asdict(write_result) for write_result in done.write_results],
        "plans": [_plan(plan) for plan in done.plans],
        "outbox_events": [_event(outbox_event) for outbox_event in done.outbox_events],
        "stats": dict(done.stats),
        "dropped": [_dropped(why, count) for why, count in done.stats.get("dropped", {}).items()],
        "degraded": list(done.degraded),
    }


def _dropped(why: str, count: int) -> dict[str, Any]:
    if why == UNREAD:
        return {"what": "messages", "why": "not_read", "count": count}
    return {"what": "candidates", "why": why, "count": count}


def make_search_view(found: MemorySearchResult) -> dict[str, Any]:
    """Return what a search found as the API answers it."""
    # As values, which orjson writes: copying them into dictionaries first would cost as much as the search.
    return {
        "query_plan": list(found.query_plan),
        "seed_hits": list(found.seed_hits),
        "blocks": [_block(block) for block in found.blocks],
        "total": found.total,
        "degraded": list(found.degraded),
        "index_lag": found.index_lag,
    }


def make_read_view(block: RetrievedBlock) -> dict[str, Any]:
    """Return what was read as the API answers it."""
    return {**_block(block), "content": block.content}


def make_node_view(node: ContextNode) -> dict[str, Any]:
    """Return a memory as the API answers it."""
    return asdict(node)


def make_outbox_view(status: OutboxStatus) -> dict[str, Any]:
    """Return what waits as the API answers it."""
    return {
        **{name: getattr(status, name) for name in ("pending", "claimed", "failed", "dead", "lag_s")},
        "dead_letters": [_event(dead_letter) for dead_letter in status.dead_letters],
    }


def make_distillation_view(done: DistillationResult) -> dict[str, Any]:
    """Return what a session taught as the API answers it, but for its operation."""
    return {
        "session_uri": done.session_uri,
        "results": [asdict(result) for result in done.results],
        "saved": list(done.saved),
        "count": len(done.saved),
        "dry_run": done.dry_run,
    }


def _block(block: RetrievedBlock) -> dict[str, Any]:
    return {name: getattr(block, name) for name in _SHOWN_OF_A_BLOCK}


def _plan(plan: WritePlan) -> dict[str, Any]:
    return asdict(plan) | {"outbox_events": [outbox_event.value for outbox_event in plan.outbox_events]}


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


@routes.add("GET", "/recall", {200: shapes.RecallAnswer}, summary="Search knowledge, keywords and memories together")
async def recall(call: Call, params: schemas.RecallParams) -> Response:
    """Find what records, the keyword tree and memories say about a question. Each item names its source.

    The best items of each source come first. `degraded` names the sources that failed; the others answer.
    """
    answer = await call.hub.recall.recall(call.ctx, params.question())
    return answer_json(make_recall_view(answer))


def make_recall_view(answer: RecallResult) -> Mapping[str, Any]:
    """Return what was found as the API answers it."""
    return {
        "results": [asdict(item) for item in answer.items],
        "count": len(answer.items),
        "degraded": list(answer.degraded),
        "index_lag": answer.index_lag,
    }
