"""Learning from a conversation before it is compacted: the server finds what of it is worth keeping (seed 004)."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from agent_tools import client, failures, records
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult, failed

# The server gives its LLM 30 s.
EXTRACT_TIMEOUT_S = 45.0
MAX_BODY_CHARS = 8 * 1024 * 1024
MAX_MESSAGES = 2_000

_FIELDS = ("name", "message_id", "timestamp")
_IDS = ("user_id", "agent_id", "project_id", "team_id", "org_id")


@tool()
async def knowledge_extract(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the five ids of a caller
    messages: list[dict[str, Any]],
    trigger: str = "compaction",
    trace_id: str | None = None,
    dry_run: bool = False,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
) -> ToolResult:
    """Have the server find in a conversation what is worth keeping, and save it. Use it when a task is done.

    Args:
        messages: The conversation, oldest first: {"role": "user", "content": ...}; message_id, name and timestamp help.
        trigger: Why now: user_expression, task_completion, compaction or user_feedback.
        trace_id: The trace that the conversation belongs to.
        dry_run: Only tell what would be saved.
        user_id: The user who speaks; what they say of themselves becomes theirs.
        agent_id: The agent; what it went through becomes its own.
        project_id: The project that sees it too.
        team_id: The team of the caller.
        org_id: The organisation of the caller.
    """
    sent = _sendable(messages, trace_id)
    if not sent:
        return ToolResult("Nothing to learn from", "No message holds text.", {"items": [], "candidates": []})
    body: dict[str, Any] = {"messages": sent, "trigger": trigger, "dry_run": dry_run}
    given = (trace_id, user_id, agent_id, project_id, team_id, org_id)
    body |= {name: value for name, value in zip(("trace_id", *_IDS), given, strict=True) if value is not None}
    return _extracted(await client.request("POST", "/api/knowledge/extract", body=body, timeout_s=EXTRACT_TIMEOUT_S))


async def extract_on_compaction(
    messages: Sequence[Mapping[str, Any]], *, trace_id: str | None = None, dry_run: bool = False, **ids: str | None
) -> ToolResult:
    """Learn from the messages that a host is about to compact; call it before they go (seed 004, compaction.py).

    Takes the messages as chat interfaces have them: contents may be lists of parts or None, unknown fields are left
    out. `ids` are user_id, agent_id, project_id, team_id, org_id. A message without an id gets one from its text and
    the trace, so that compacting the same messages again does not count them twice. Never raises for what happens
    outside: a compaction must go on when the server is away.
    """
    wrong = sorted(ids.keys() - set(_IDS))
    if wrong:
        raise TypeError(f"extract_on_compaction knows no {', '.join(wrong)}; it takes {', '.join(_IDS)}")
    try:
        plain = [dict(message) for message in messages]
    except (TypeError, ValueError):
        return failed("extract_on_compaction", ToolFailure("A message is no object with role and content."))
    return await knowledge_extract(plain, "compaction", trace_id, dry_run, *(ids.get(name) for name in _IDS))


def _sendable(messages: Iterable[Mapping[str, Any]], trace_id: str | None) -> list[dict[str, Any]]:
    """Return the newest messages as the server takes them, those without text left out."""
    kept: list[dict[str, Any]] = []
    left = MAX_BODY_CHARS
    for message in reversed(list(messages)):
        role, text = message.get("role"), _text(message.get("content"))
        if not isinstance(role, str) or not role or not text.strip():
            continue
        left -= len(text)
        if left < 0 or len(kept) == MAX_MESSAGES:
            break
        given = {name: str(message[name]) for name in _FIELDS if message.get(name)}
        # Hosts call it `id` too; without any, the same words count once a trace.
        message_id = given.get("message_id") or message.get("id") or _digest(trace_id, role, text)
        kept.append({"role": role, "content": text, **given, "message_id": str(message_id)[:200]})
    return kept[::-1]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _digest(trace_id: str | None, role: str, text: str) -> str:
    said = "\x1f".join((trace_id or "", role, text))
    return "text-" + sha256(said.encode("utf-8", "replace")).hexdigest()[:32]


def _extracted(reply: Mapping[str, Any]) -> ToolResult:
    candidates, saved = reply.get("candidates"), reply.get("saved")
    if not isinstance(candidates, list) or not isinstance(saved, list):
        raise failures.not_knowhub("the request")
    resources = reply.get("resources")
    offered = [one for one in resources if isinstance(one, Mapping)] if isinstance(resources, list) else []
    would = "would be saved" if reply.get("dry_run") else "saved"
    output = f"{len(saved)} of {len(candidates)} {would}."
    if saved:
        output += f"\n\n{records.as_data(saved)}"
    if offered:
        named = "; ".join(f"{failures.one_line(one.get('shown'))} as {one.get('content_type')}" for one in offered)
        output += f"\n\nSave with resource_save, and name in resource_ids of the knowledge: {failures.one_line(named)}."
    metadata = {
        "items": saved,
        "candidates": candidates,
        "resources": offered,
        "degraded": reply.get("degraded") or [],
        "operation_id": reply.get("operation_id"),
    }
    return ToolResult(f"Knowledge: {len(saved)} {would}", output, metadata)
