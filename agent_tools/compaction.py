"""Learning from a conversation before it is compacted: the server finds what of it is worth keeping (seed 004)."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_tools import client, failures, records, sendable
from agent_tools.registry import tool
from agent_tools.results import ToolFailure, ToolResult, failed
from agent_tools.spoken import sendable_messages

# The server gives its LLM 30 s.
EXTRACT_TIMEOUT_S = 45.0


@tool()
async def knowledge_extract(  # noqa: PLR0913, PLR0917 -- every tool of an agent takes the six ids of a caller
    messages: list[dict[str, Any]],
    trigger: str = "compaction",
    trace_id: str | None = None,
    dry_run: bool = False,
    user_id: str | None = None,
    agent_id: str | None = None,
    project_id: str | None = None,
    team_id: str | None = None,
    org_id: str | None = None,
    account: str | None = None,
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
        account: The account that all of it belongs to.
    """
    trace = sendable.entity_id(trace_id)
    sent, notice = sendable_messages(messages, trace)
    if not sent:
        output = " ".join(part for part in ("No message holds text.", notice) if part)
        return ToolResult("Nothing to learn from", output, {"items": [], "candidates": [], "notice": notice})
    body: dict[str, Any] = {"messages": sent, "trigger": trigger, "dry_run": dry_run}
    body |= sendable.without_none(trace_id=trace or None)
    body |= sendable.ids_by_name(user_id, agent_id, project_id, team_id, org_id, account)
    reply = await client.request("POST", "/api/knowledge/extract", body=body, timeout_s=EXTRACT_TIMEOUT_S)
    return _extracted(reply, notice)


async def extract_on_compaction(
    messages: Sequence[Mapping[str, Any]], *, trace_id: str | None = None, dry_run: bool = False, **ids: str | None
) -> ToolResult:
    """Learn from the messages that a host is about to compact; call it before they go (seed 004, compaction.py).

    Takes the messages as chat interfaces have them: contents may be lists of parts or None, unknown fields are left
    out. `ids` are user_id, agent_id, project_id, team_id, org_id, account. A message without an id gets one from its
    text and the trace, so that compacting the same messages again does not count them twice. One that the server would
    refuse is mended or left out, and `metadata["notice"]` says so. Never raises for what happens outside: a compaction
    must go on when the server is away.
    """
    wrong = sorted(ids.keys() - set(sendable.CONTEXT_IDS))
    if wrong:
        taken = ", ".join(sendable.CONTEXT_IDS)
        raise TypeError(f"extract_on_compaction knows no {', '.join(wrong)}; it takes {taken}")
    try:
        said: list[Any] = list(messages)
    except TypeError:
        return failed("extract_on_compaction", ToolFailure("The messages are no list. Pass one, oldest first."))
    callers = (ids.get(name) for name in sendable.CONTEXT_IDS)
    return await knowledge_extract(said, "compaction", trace_id, dry_run, *callers)


def _extracted(reply: Mapping[str, Any], notice: str) -> ToolResult:
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
    if notice:
        output += f"\n\n{notice}"
    metadata = {
        "items": saved,
        "candidates": candidates,
        "resources": offered,
        "degraded": reply.get("degraded") or [],
        "operation_id": reply.get("operation_id"),
        "notice": notice,
    }
    return ToolResult(f"Knowledge: {len(saved)} {would}", output, metadata)
