"""The routes of layered memories: commit a session, search, read, write by hand, forget; and recall."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from knowhub.context import uri
from knowhub.context.authoring import WrittenNode
from knowhub.context.grep import grep_memories
from knowhub.context.model import NODES, PARTS, Level
from knowhub.core.errors import InvalidInput, NotFound
from knowhub.web.responses import answer_json, answer_list, answer_write, make_etag
from knowhub.web.route import DELETED, Call, EditCall, Routes, WriteCall
from knowhub.web.schemas import context as schemas
from knowhub.web.schemas import context_answers as answers
from knowhub.web.schemas import context_edits as edits
from knowhub.web.schemas.parts import Body
from knowhub.web.secret_warnings import find_warnings
from knowhub.web.views import make_commit_view, make_event_view, make_view

routes = Routes("/api", "memories", "Sessions word for word, and the memories taken from them, in three layers.")

_PREFERENCE = "ctx://default/users/li/memories/preferences/report-language"


@routes.add(
    "POST",
    "/context/sessions/commit",
    {
        201: (answers.CommitAnswer, "Something was written."),
        200: (answers.CommitAnswer, "Nothing was new, or it was a dry run."),
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
    headers={201: ("X-Operation-Id", "Location")},
)
async def commit_session(call: WriteCall, body: schemas.CommitBody) -> Response:
    """Store a session word for word, with the memories found in it, in one operation.

    Committing it again adds what is new. The answer comes when everything is on disk and is found by its words;
    by meaning it is found a little later.
    """
    done = await call.hub.memories.commits.commit(call.ctx, body.to_commit(), call.key)
    if done.operation_id is None:
        return answer_write(make_commit_view(done), None)
    return answer_write(make_commit_view(done), done.operation_id, 201, _locate(done.archive.archive_uri))


@routes.add(
    "GET", "/context/profile", {200: answers.CurrentMemoriesAnswer}, summary="All that is current of the caller"
)
async def read_profile(call: Call, params: schemas.MemoryProfileParams) -> Response:
    """Return what the caller's memories state now, each line with its evidence: for the start of a session."""
    return answer_json(await call.hub.memories.nodes.read_profile(call.ctx, params.max_tokens))


@routes.add("GET", "/context/sessions", {200: answers.SessionsAnswer}, summary="List sessions")
async def list_sessions(call: Call, params: schemas.SessionsParams) -> Response:
    """List sessions, newest first: what was read by what, what waits, and what was left out and why."""
    found, cursor = await call.hub.memories.nodes.list_sessions(call.ctx, params.limit, params.cursor)
    return answer_list(found, cursor)


@routes.add(
    "GET",
    "/context/sessions/{session_id}",
    {200: answers.SessionAnswer},
    summary="What was read of a session",
    errors=(404,),
)
async def get_session(call: Call, session_id: str) -> Response:
    """Return what was read of one of the caller's own sessions."""
    return answer_json(await call.hub.memories.nodes.get_session(call.ctx, session_id))


@routes.add("GET", "/context/search", {200: answers.MemorySearchAnswer}, summary="Search memories", errors=(404,))
async def search_memory(call: Call, params: schemas.MemorySearchParams) -> Response:
    """Find memories and parts of transcripts, best first. The answer has their abstracts, not their texts."""
    found = await call.hub.memories.nodes.search_memory(
        call.ctx, params.q, params.target_uri, params.to_categories(), params.top_k, params.to_limits()
    )
    blocks = [make_view(answers.FoundBlock, block) for block in found.blocks]
    for block in blocks:
        if block["why"] is None:
            del block["why"]
    plan = [make_view(answers.TypedQueryAnswer, query) for query in found.query_plan]
    return answer_json(make_view(answers.MemorySearchAnswer, found, query_plan=plan, blocks=blocks))


@routes.add("GET", "/context/read", {200: answers.ReadBlock}, summary="Read a layer of a memory", errors=(404,))
async def read_memory(call: Call, params: schemas.ReadParams) -> Response:
    """Read the abstract (`L0`), overview (`L1`) or whole text (`L2`) of a memory."""
    block = await call.hub.memories.nodes.read_memory(
        call.ctx,
        params.uri,
        params.to_level(),
        expand_relations=params.expand_relations,
        max_relations=params.max_relations,
    )
    return answer_json(make_view(answers.ReadBlock, block))


@routes.add("GET", "/context/nodes", {200: answers.NodeRecord}, summary="Read a memory, whole", errors=(404,))
async def get_node(call: Call, params: schemas.NodeParams) -> Response:
    """Read a memory, a session or a message with all its layers; `ETag` is its version."""
    node = await call.hub.memories.nodes.get_node(call.ctx, params.uri)
    return answer_json(node, headers=make_etag(node.version))


@routes.add(
    "PATCH",
    "/context/nodes",
    {200: answers.SavedNode},
    summary="Correct a memory",
    errors=(404,),
    examples={"say it better": {"abstract": "报告用中文", "overview": "报告一律用中文，附上 CSV 文件名。"}},
)
async def edit_node(call: EditCall, body: schemas.NodePatchBody, params: schemas.NodeUriParams) -> Response:
    """Change the layers of a memory. The messages of a session cannot be changed."""
    address = _find_address(params.uri, body.uri)
    return _answer_node(
        await call.hub.memories.authoring.edit(call.ctx, address, body.to_patch(), call.version, call.key)
    )


@routes.add("DELETE", "/context/nodes", DELETED, summary="Delete a memory", errors=(404,))
async def delete_node(
    call: EditCall, body: schemas.NodeDeleteBody | schemas.NodeDeleteParams, params: schemas.NodeUriParams
) -> Response:
    """Delete a memory, a message, or a session with its messages. Undo brings it back.

    Committing the session again does not. With `erase` the content is removed for good.
    """
    address = _find_address(params.uri, body.uri)
    if body.erase:
        collection = PARTS if uri.parse(address).is_part else NODES
        return await call.erase(collection, address)
    done = await call.hub.memories.authoring.delete(call.ctx, address, call.version, call.key)
    return answer_write({}, done)


@routes.add("GET", "/context/children", {200: answers.ChildrenAnswer}, summary="List memories", errors=(404,))
async def list_children(call: Call, params: schemas.MemoryChildrenParams) -> Response:
    """List the memories below a URI, like files in folders."""
    below = await call.hub.memories.nodes.list_children(
        call.ctx, params.uri, recursive=params.recursive, depth=params.depth
    )
    rest = {"count": len(below.children), "next_cursor": None, "truncated": below.truncated}
    return answer_json({"results": below.children, **rest})


@routes.add("GET", "/context/outbox", {200: answers.OutboxAnswer}, summary="What waits for the vector index")
async def get_outbox(call: Call) -> Response:
    """Count the events that wait, and list those that failed for good, of memories that the caller may see."""
    status = await call.hub.memories.outbox.status(call.ctx)
    dead_letters = [make_event_view(letter) for letter in status.dead_letters]
    return answer_json(make_view(answers.OutboxAnswer, status, dead_letters=dead_letters))


@routes.add(
    "POST",
    "/context/outbox/{event_id}/retry",
    {200: answers.RetriedEvent},
    summary="Try a dead letter again",
    examples={"once more": {}},
    is_body_optional=True,
    headers={200: ()},
)
async def retry_event(call: Call, event_id: str, body: Body) -> Response:
    """Try an event that failed for good once more, as a new event."""
    del body
    event = await call.hub.memories.outbox.retry(call.ctx, event_id)
    return answer_write({"event_id": event.event_id, "status": event.status.value}, None)


@routes.add(
    "POST",
    "/context/sessions/{session_id}/distill",
    {200: answers.DistillAnswer},
    summary="Save knowledge from a session",
    examples={"look first": {"dry_run": True}, "do it": {}},
    is_body_optional=True,
)
async def distill_session(call: WriteCall, session_id: str, body: schemas.DistillBody) -> Response:
    """Save the patterns, cases, skills, tools, preferences and profile of a session as records, in one operation.

    What was saved before is not saved again. If a memory has changed since, a new record supersedes the old one.
    """
    done = await call.hub.memories.distillation.distill(call.ctx, session_id, call.key, dry_run=body.dry_run)
    return answer_write(make_view(answers.DistillAnswer, done, count=len(done.saved)), done.operation_id)


@routes.add(
    "POST",
    "/context/nodes",
    {201: edits.CreatedNode},
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
async def create_node(call: WriteCall, body: edits.NewNodeBody) -> Response:
    """Create a memory in the caller's own space. 409 if its URI is taken."""
    done = await call.hub.memories.authoring.create(call.ctx, body.to_memory(), call.key)
    warnings = await find_warnings({"content": body.content, "overview": body.overview, "abstract": body.abstract})
    return _answer_node(done, 201, _locate(done.node.uri), warnings)


@routes.add(
    "POST",
    "/context/nodes/move",
    {200: edits.CreatedNode},
    summary="Move a memory",
    errors=(404, 409),
    examples={"another name": {"uri": _PREFERENCE, "to": f"{_PREFERENCE}s", "user_id": "li"}},
)
async def move_node(call: EditCall, body: edits.MoveNodeBody) -> Response:
    """Give a memory another URI in the same space; edges that lead to it follow."""
    return _answer_node(await call.hub.memories.authoring.move(call.ctx, body.uri, body.to, call.version, call.key))


@routes.add(
    "PUT",
    "/context/relations",
    {200: edits.LinksAnswer},
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
async def link_nodes(call: WriteCall, body: edits.RelationBody) -> Response:
    """Add an edge from one memory to another, or change the one of the same type."""
    return _answer_links(await call.hub.memories.authoring.link(call.ctx, body.to_edge(), call.key))


@routes.add("DELETE", "/context/relations", {200: edits.LinksAnswer}, summary="Unlink two memories", errors=(404,))
async def unlink_nodes(call: WriteCall, body: edits.UnlinkBody | edits.UnlinkParams) -> Response:
    """Remove the edges from one memory to another."""
    return _answer_links(
        await call.hub.memories.authoring.unlink(call.ctx, body.from_uri, body.to_uri, body.relation_type, call.key)
    )


@routes.add(
    "POST",
    "/context/read",
    {200: edits.ReadBatchAnswer},
    summary="Read a layer of several memories",
    examples={"two overviews": {"uris": [_PREFERENCE, "ctx://default/users/li/memories/profile"], "user_id": "li"}},
    is_read_only=True,
)
async def read_memories(call: Call, body: edits.ReadBatchBody) -> Response:
    """Read the same layer of up to 100 memories. What the caller does not see is `missing`."""
    found, missing = [], []
    for address in body.uris:
        try:
            found.append(await call.hub.memories.nodes.read_memory(call.ctx, address, Level[body.level]))
        except NotFound:
            missing.append(address)
    results = [make_view(answers.ReadBlock, block) for block in found]
    return answer_json({"results": results, "count": len(results), "next_cursor": None, "missing": missing})


@routes.add("GET", "/context/grep", {200: edits.GrepAnswer}, summary="Find lines that contain a text", errors=(404,))
async def grep(call: Call, params: edits.GrepParams) -> Response:
    """Find the lines of memories and messages that contain a text, word for word, in any case."""
    found = await grep_memories(call.hub.store, call.ctx, params.q, params.uri, params.limit)
    lines = [asdict(line) for line in found.lines]
    return answer_json({"results": lines, "count": len(lines), "next_cursor": None, "truncated": found.truncated})


@routes.add("GET", "/recall", {200: answers.RecallAnswer}, summary="Search knowledge, keywords and memories together")
async def recall(call: Call, params: schemas.RecallParams) -> Response:
    """Find what records, the keyword tree and memories say about a question. Each item names its source.

    The best items of each source come first. `degraded` names the sources that failed; the others answer.
    """
    answer = await call.hub.recall.recall(call.ctx, params.to_query())
    return answer_json(make_view(answers.RecallAnswer, answer, results=answer.items, count=len(answer.items)))


def _answer_node(
    done: WrittenNode,
    status: int = 200,
    location: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Response:
    headers = {**(location or {}), **make_etag(done.node.version)}
    return answer_write({**asdict(done.node), **(more or {})}, done.operation_id, status, headers)


def _answer_links(done: WrittenNode) -> Response:
    edges = [asdict(edge) for edge in done.node.relations]
    return answer_write({"uri": done.node.uri, "relations": edges}, done.operation_id)


def _locate(address: str) -> dict[str, str]:
    return {"Location": f"/api/context/nodes?uri={quote(address, safe='')}"}


def _find_address(in_query: str | None, in_body: str | None) -> str:
    """Return the URI that a request names, in its query or in its body. Raises InvalidInput."""
    address = in_query or in_body
    if address is None:
        raise InvalidInput.of("uri", "is missing; name the memory, as a search or a list has shown it")
    if in_body not in (None, address):
        raise InvalidInput.of("uri", "differs from that of the query; send one of them")
    return address
