"""The memory tools of an agent: keep a session, find what was said or learnt, read on (seed 002 §10.1)."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from agent_tools import client, degraded, failures, records, sendable
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult
from agent_tools.spoken import sendable_messages

# The server gives its LLM 30 s to find what is worth remembering.
COMMIT_TIMEOUT_S = 60.0

_SAID_OTHERWISE = "Give the message another id, or leave it away: what was said before stays as it was said."
_TAKE_A_FOUND_URI = "Take a uri that search_memory has shown; what was forgotten cannot be read any more."


@tool()
async def commit_session(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    session_id: str,
    messages: list[dict[str, Any]],
    used_contexts: list[str] | None = None,
    used_tools: list[dict[str, Any]] | None = None,
    options: dict[str, Any] | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
) -> ToolResult:
    """Keep a session word for word, with what it says that is worth remembering. Again, only what is new is added.

    Args:
        session_id: What the session is called; the same name adds to the same session.
        messages: The session, oldest first: {"role": "user", "content": ...}; message_id, name and timestamp help.
        used_contexts: URIs or texts of memories that were recalled into the session, so that they are not learnt anew.
        used_tools: Calls of tools and skills: {"name": ..., "ok": true, "seconds": 1.5, "note": ..., "call_id": ...}.
        options: {"dry_run": true} to see the plan only, {"extract": false} to keep the transcript only.
        user_id: The user whose session it is.
        agent_id: The agent; what it went through becomes its own.
        project_id: The project of the caller.
        team_id: The team of the caller.
        org_id: The organisation of the caller.
        account: The account that all of it belongs to.
    """
    sent, notice = sendable_messages(messages, None)
    if not sent:
        raise ToolFailure(
            " ".join(part for part in ("No message holds text: there is nothing to keep.", notice) if part)
        )
    body: dict[str, Any] = {"session_id": sendable.entity_id(session_id), "messages": sent}
    optional = {"used_contexts": used_contexts, "used_tools": used_tools, "options": options}
    body |= {name: value for name, value in optional.items() if value}
    body |= sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account)
    try:
        reply = await client.request("POST", "/api/context/sessions/commit", body=body, timeout_s=COMMIT_TIMEOUT_S)
    except ToolFailure as failure:
        if failure.metadata.get("status") == HTTPStatus.CONFLICT:
            said = failure.advice.partition(". ")[0]
            raise ToolFailure(f"{said}. {_SAID_OTHERWISE}", failure.metadata) from failure
        raise
    return _committed(reply, notice)


@tool()
async def search_memory(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    query: str,
    target_uri: str | None = None,
    categories: list[str] | None = None,
    top_k: int = 10,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
) -> ToolResult:
    """Find what was said in earlier sessions, and what was learnt from them. Read on with read_memory.

    Args:
        query: A question in plain words, in Chinese or English; a time or a person in it narrows the search.
        target_uri: Only at and below this URI, such as ctx://default/users/li/sessions.
        categories: Only of these: profile, preferences, entities, events, cases, patterns, skills, tools, sessions.
        top_k: How many at most, 1 to 100.
        user_id: Search as this user sees it.
        agent_id: Search as this agent sees it.
        project_id: Search with what this project sees.
        team_id: Search with what this team sees.
        org_id: Search with what this organisation sees.
        account: Search in this account; nothing crosses from one to another.
    """
    asked = sendable.query(query)
    if not asked:
        raise ToolFailure("The query is empty. Ask for something.")
    params = {
        "q": asked,
        "target_uri": target_uri,
        "categories": sendable.commas(categories),
        "top_k": top_k,
        **sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account),
    }
    reply = await client.request("GET", "/api/context/search", params=params, not_found=_TAKE_A_FOUND_URI)
    return _found(reply)


@tool()
async def read_memory(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    uri: str,
    level: str = "L1",
    expand_relations: bool = False,
    max_relations: int = 0,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
) -> ToolResult:
    """Read what search_memory has found: its overview, or with L2 the whole text. Use L2 only where details matter.

    Args:
        uri: The URI of a memory, a session or a message, as search_memory has shown it.
        level: L0 for the abstract, L1 for the overview, L2 for the whole text.
        expand_relations: Also name what it is related to.
        max_relations: How many of those at most; 0 for all.
        user_id: Read as this user sees it.
        agent_id: Read as this agent sees it.
        project_id: Read with what this project sees.
        team_id: Read with what this team sees.
        org_id: Read with what this organisation sees.
        account: Read in this account; nothing crosses from one to another.
    """
    params: dict[str, str | int | None] = {
        "uri": uri,
        "level": level,
        "expand_relations": "true" if expand_relations else None,
        "max_relations": max_relations or None,
        **sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account),
    }
    reply = await client.request("GET", "/api/context/read", params=params, not_found=_TAKE_A_FOUND_URI)
    return _read(reply)


def _committed(reply: Mapping[str, Any], notice: str) -> ToolResult:
    results, status, archive = reply.get("write_results"), reply.get("status"), reply.get("archive")
    if not isinstance(results, list) or not isinstance(status, str) or not isinstance(archive, dict):
        raise failures.not_knowhub("the request")
    written = [one for one in results if isinstance(one, dict)]
    address = failures.one_line(archive.get("archive_uri") or "")
    told = {
        "committed": f"The session is kept at {address}.",
        "unchanged": f"All of it was kept before, at {address}: nothing is new.",
        "dry_run": f"It would be kept at {address}; nothing was written.",
    }.get(status, status)
    lines = [f"| {failures.one_line(one.get('action'))}: {failures.one_line(one.get('uri'))}" for one in written]
    parts = [told, *([records.FENCE_NOTE, "\n".join(lines)] if lines else []), *([notice] if notice else [])]
    metadata = {
        "items": written,
        "status": status,
        "archive_uri": archive.get("archive_uri"),
        "stats": reply.get("stats"),
        "degraded": degraded.parts_of(reply),
        "operation_id": reply.get("operation_id"),
        "notice": notice,
    }
    return ToolResult(f"Session {status}", "\n\n".join(parts) + degraded.told_of(reply), metadata)


def _found(reply: Mapping[str, Any]) -> ToolResult:
    blocks = reply.get("blocks")
    if not isinstance(blocks, list) or not all(isinstance(one, dict) for one in blocks):
        raise failures.not_knowhub("the request")
    output = records.fenced(blocks, _lines) if blocks else "Nothing of it is remembered."
    metadata = {"items": blocks, "query_plan": reply.get("query_plan"), "degraded": degraded.parts_of(reply)}
    return ToolResult(f"Memories: {len(blocks)} found", output + degraded.told_of(reply), metadata)


def _read(reply: Mapping[str, Any]) -> ToolResult:
    if not isinstance(reply.get("uri"), str):
        raise failures.not_knowhub("the request")
    return ToolResult("Memory", records.fenced([reply], _lines), {"items": [dict(reply)], "uri": reply["uri"]})


def _lines(block: Mapping[str, Any], limit_chars: int) -> Iterator[str]:
    yield records.quoted("uri", str(block.get("uri")), limit_chars)
    for name in ("category", "said_at", "abstract", "overview", "content_excerpt", "content"):
        # The whole text holds its excerpt.
        if block.get(name) and not (name == "content_excerpt" and block.get("content")):
            yield records.quoted(name, str(block[name]), limit_chars)
    message_ids, edges = block.get("message_ids"), block.get("relations")
    if isinstance(message_ids, list) and message_ids:
        yield records.quoted("message_ids", ", ".join(map(str, message_ids)), limit_chars)
    for edge in edges if isinstance(edges, list) else []:
        if isinstance(edge, dict):
            yield records.quoted(f"relation {failures.one_line(edge.get('relation_type'))}", str(edge.get("to_uri")))
