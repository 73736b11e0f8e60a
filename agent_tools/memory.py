"""The memory tools of an agent: commit a session, search memories, and read them."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias, TypedDict

from agent_tools import arguments, client, failures, fences, records
from agent_tools.messages import Message, prepare_messages
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult

# The server gives its LLM 30 s to extract memories.
COMMIT_TIMEOUT_S = 60.0

MemoryCategory: TypeAlias = Literal[
    "profile", "preferences", "entities", "events", "cases", "patterns", "skills", "tools", "sessions"
]


class _ToolCall(TypedDict):
    name: str


class ToolCall(_ToolCall, total=False):
    """A call of a tool or skill, and how it went."""

    ok: bool
    seconds: float
    note: str


class CommitOptions(TypedDict, total=False):
    """`dry_run` only shows the plan. Without `extract` only the transcript is stored."""

    dry_run: bool
    extract: bool


_MESSAGE_CHANGED = "Use another message id, or none. A committed message cannot be changed."
_USE_A_FOUND_URI = "Use a uri from search_memory. What was forgotten cannot be read any more."


@tool()
async def commit_session(
    session_id: str,
    messages: list[Message],
    used_contexts: list[str] | None = None,
    used_tools: list[ToolCall] | None = None,
    options: CommitOptions | None = None,
    **ids: str | None,
) -> ToolResult:
    """Store a session word for word, and its memories. A second call adds only what is new.

    Args:
        session_id: The name of the session. The same name adds to the same session.
        messages: The session, oldest first.
        used_contexts: URIs or texts of memories that were shown in the session, so that they are not learned again.
        used_tools: Calls of tools and skills, and how they went.
        options: dry_run only shows the plan; without extract only the transcript is stored.
    """
    sent, notice = prepare_messages(messages, None)
    if not sent:
        raise ToolFailure(
            " ".join(part for part in ("No message has text: there is nothing to store.", notice) if part)
        )
    body: dict[str, Any] = {"session_id": arguments.clean_id(session_id), "messages": sent}
    optional = {"used_contexts": used_contexts, "used_tools": used_tools, "options": options}
    body |= {name: value for name, value in optional.items() if value} | arguments.check_caller(ids)
    try:
        reply = await client.request("POST", "/api/context/sessions/commit", body=body, timeout_s=COMMIT_TIMEOUT_S)
    except ToolFailure as failure:
        if failure.metadata.get("status") == HTTPStatus.CONFLICT:
            reason = failure.advice.partition(". ")[0]
            raise ToolFailure(f"{reason}. {_MESSAGE_CHANGED}", failure.metadata) from failure
        raise
    return _format_commit(reply, notice)


@tool()
async def search_memory(
    query: str,
    target_uri: str | None = None,
    categories: list[MemoryCategory] | None = None,
    top_k: int = 10,
    **ids: str | None,
) -> ToolResult:
    """Find what was said in earlier sessions, and what was learned from them. Read more with read_memory.

    Args:
        query: A question in Chinese or English. A time or a person in it narrows the search.
        target_uri: Only at and below this URI, such as ctx://default/users/li/sessions.
        categories: Only of these categories.
        top_k: How many at most, 1 to 100.
    """
    text = arguments.clean_query(query)
    if not text:
        raise ToolFailure("The query is empty. Pass a question.")
    params = {
        "q": text,
        "target_uri": target_uri,
        "categories": arguments.join_names(categories),
        "top_k": top_k,
        **arguments.check_caller(ids),
    }
    reply = await client.request("GET", "/api/context/search", params=params, not_found=_USE_A_FOUND_URI)
    blocks = client.list_results(reply, "blocks")
    output = fences.fence_rows(map(_get_fields, blocks)) if blocks else "No memory was found."
    title = f"Memories: {len(blocks)} found"
    return records.make_result(title, output, reply, blocks, query_plan=reply.get("query_plan"))


@tool()
async def read_memory(
    uri: str,
    level: Literal["L0", "L1", "L2"] = "L1",
    expand_relations: bool = False,
    max_relations: int = 0,
    **ids: str | None,
) -> ToolResult:
    """Read a result of search_memory: its overview, or the whole text with L2. Use L2 only when details matter.

    Args:
        uri: The URI of a memory, a session or a message, from search_memory.
        level: L0 is the abstract, L1 the overview, L2 the whole text.
        expand_relations: Also show its relations.
        max_relations: How many relations at most; 0 for all.
    """
    params: dict[str, str | int | None] = {
        "uri": uri,
        "level": level,
        "expand_relations": "true" if expand_relations else None,
        "max_relations": max_relations or None,
        **arguments.check_caller(ids),
    }
    reply = await client.request("GET", "/api/context/read", params=params, not_found=_USE_A_FOUND_URI)
    metadata = {"items": [reply], "uri": client.get_field(reply, "uri", str)}
    return ToolResult("Memory", fences.fence_rows([_get_fields(reply)]), metadata)


def _format_commit(reply: Mapping[str, Any], notice: str) -> ToolResult:
    status, archive = client.get_field(reply, "status", str), client.get_field(reply, "archive", dict)
    writes = failures.list_objects(client.get_field(reply, "write_results", list))
    address = failures.shorten(archive.get("archive_uri") or "")
    summary = {
        "committed": f"The session is stored at {address}.",
        "unchanged": f"The session is stored at {address}; nothing is new.",
        "dry_run": f"The session would be stored at {address}. Nothing was written.",
    }.get(status, status)
    lines = [f"| {failures.shorten(write.get('action'))}: {failures.shorten(write.get('uri'))}" for write in writes]
    parts = [summary, *([fences.FENCE_NOTE, "\n".join(lines)] if lines else []), *([notice] if notice else [])]
    metadata = {"archive_uri": archive.get("archive_uri"), "stats": reply.get("stats"), "notice": notice}
    metadata |= {"status": status, "operation_id": reply.get("operation_id")}
    return records.make_result(f"Session {status}", "\n\n".join(parts), reply, writes, **metadata)


def _get_fields(block: Mapping[str, Any]) -> fences.Fields:
    names = ("uri", "category", "said_at", "abstract", "overview", "content_excerpt", "content", "message_ids")
    # The whole text includes the excerpt.
    fields = {name: block.get(name) for name in names if name != "content_excerpt" or not block.get("content")}
    targets: dict[str, list[object]] = {}
    for edge in failures.list_objects(block.get("relations")):
        label = f"relation {failures.shorten(edge.get('relation_type'))}"
        targets.setdefault(label, []).append(edge.get("to_uri"))
    return fields | targets
