"""The routes of memories that are written by hand: create, move, link, read several, and look for a text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from urllib.parse import quote

from fastapi import Response

from knowhub.context.authoring import AuthoredNode
from knowhub.context.grep import grep_memories
from knowhub.core.errors import NotFound
from knowhub.web.responses import answer_json, answer_write, etag
from knowhub.web.route import Call, EditCall, Routes, WriteCall
from knowhub.web.schemas import context_edits as schemas
from knowhub.web.schemas.context_answers import ReadBlock
from knowhub.web.secret_warnings import list_warnings
from knowhub.web.views import view_of

routes = Routes("/api/context", "memories")

_PREFERENCE = "ctx://default/users/li/memories/preferences/report-language"


@routes.add(
    "POST",
    "/nodes",
    {201: schemas.CreatedNode},
    summary="Create a memory",
    errors=(409,),
    examples={
        "a preference": {
            "category": "preferences",
            "name": "report-format",
            "content": "报告一律用中文，附上 CSV 文件名。",
            "tags": {"topic": "reports"},
            "user_id": "li",
        }
    },
)
async def create_node(call: WriteCall, sent: schemas.NewNodeBody) -> Response:
    """Create a memory in the caller's own space. 409 if its URI is taken."""
    done = await call.hub.memories.authoring.create(call.ctx, sent.to_memory(), call.key)
    location = {"Location": f"/api/context/nodes?uri={quote(done.uri, safe='')}"}
    warnings = await list_warnings({"content": sent.content, "overview": sent.overview, "abstract": sent.abstract})
    return await _answer_node(call, done, 201, location, warnings)


@routes.add(
    "POST",
    "/nodes/move",
    {200: schemas.CreatedNode},
    summary="Move a memory",
    errors=(404, 409),
    examples={"another name": {"uri": _PREFERENCE, "to": f"{_PREFERENCE}s", "user_id": "li"}},
)
async def move_node(call: EditCall, sent: schemas.MoveNodeBody) -> Response:
    """Give a memory another URI in the same space; edges that lead to it follow."""
    done = await call.hub.memories.authoring.move(call.ctx, sent.uri, sent.to, call.version, call.key)
    return await _answer_node(call, done, 200)


@routes.add(
    "PUT",
    "/relations",
    {200: schemas.LinksAnswer},
    summary="Link two memories",
    errors=(404, 409),
    examples={
        "why": {
            "from_uri": _PREFERENCE,
            "to_uri": "ctx://default/users/li/memories/entities/finance",
            "relation_type": "because_of",
            "user_id": "li",
        }
    },
)
async def link_nodes(call: WriteCall, sent: schemas.RelationBody) -> Response:
    """Add an edge from one memory to another, or change the one of the same type."""
    return await _answer_links(call, await call.hub.memories.authoring.link(call.ctx, sent.to_edge(), call.key))


@routes.add("DELETE", "/relations", {200: schemas.LinksAnswer}, summary="Unlink two memories", errors=(404,))
async def unlink_nodes(call: WriteCall, sent: schemas.UnrelateBody | schemas.UnlinkParams) -> Response:
    """Remove the edges from one memory to another."""
    done = await call.hub.memories.authoring.unlink(call.ctx, sent.from_uri, sent.to_uri, sent.relation_type, call.key)
    return await _answer_links(call, done)


@routes.add(
    "POST",
    "/read",
    {200: schemas.ReadBatchAnswer},
    summary="Read a layer of several memories",
    examples={"two overviews": {"uris": [_PREFERENCE, "ctx://default/users/li/memories/profile"], "user_id": "li"}},
)
async def read_memories(call: Call, sent: schemas.ReadBatchBody) -> Response:
    """Read the same layer of up to 100 memories. What the caller does not see is `missing`."""
    found, missing = [], []
    for address in sent.uris:
        try:
            found.append(await call.hub.memories.nodes.read_memory(call.ctx, address, sent.level))
        except NotFound:
            missing.append(address)
    results = [view_of(ReadBlock, block) for block in found]
    return answer_json({"results": results, "count": len(results), "next_cursor": None, "missing": missing})


@routes.add("GET", "/grep", {200: schemas.GrepAnswer}, summary="Find lines that contain a text", errors=(404,))
async def grep(call: Call, params: schemas.GrepParams) -> Response:
    """Find the lines of memories and messages that contain a text, word for word, in any case."""
    found = await grep_memories(call.hub.store, call.ctx, params.q, params.uri, params.limit)
    lines = [asdict(line) for line in found.lines]
    return answer_json({"results": lines, "count": len(lines), "next_cursor": None, "truncated": found.truncated})


async def _answer_node(
    call: WriteCall,
    done: AuthoredNode,
    status: int,
    headers: Mapping[str, str] = MappingProxyType({}),
    warnings: Sequence[Mapping[str, str]] = (),
) -> Response:
    node = await call.hub.memories.nodes.get_node(call.ctx, done.uri)
    body = {**asdict(node), **({"warnings": warnings} if warnings else {})}
    return answer_write(body, done.operation_id, status, {**headers, **etag(node.version)})


async def _answer_links(call: WriteCall, done: AuthoredNode) -> Response:
    node = await call.hub.memories.nodes.get_node(call.ctx, done.uri)
    edges = [asdict(edge) for edge in node.relations]
    return answer_write({"uri": done.uri, "relations": edges}, done.operation_id)
