"""Extract knowledge from a conversation before it is compacted. The server finds what is worth keeping."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agent_tools import arguments, client, failures, records
from agent_tools.messages import Message, prepare_messages
from agent_tools.registry import tool
from agent_tools.results import ToolResult
from agent_tools.run import current_run

# The server gives its LLM 30 s.
EXTRACT_TIMEOUT_S = 45.0


@tool(hidden=("trace_id",))
async def knowledge_extract(
    messages: list[Message],
    trigger: Literal["user_expression", "task_completion", "compaction", "user_feedback"] = "compaction",
    trace_id: str | None = None,
    dry_run: bool = False,
    **ids: str | None,
) -> ToolResult:
    """Find what is worth keeping in a conversation, and save it. Use it when a task is done.

    Args:
        messages: The conversation, oldest first.
        trigger: The occasion.
        trace_id: The trace that the conversation belongs to. Default: the trace of the run.
        dry_run: Only show what would be saved.
    """
    run = current_run()
    trace = arguments.clean_id(trace_id or (run.trace_id if run else None))
    sent, notice = prepare_messages(messages, trace)
    if not sent:
        output = " ".join(part for part in ("No message holds text.", notice) if part)
        return ToolResult("Nothing to learn from", output, {"items": [], "candidates": [], "notice": notice})
    body: dict[str, Any] = {"messages": sent, "trigger": trigger, "dry_run": dry_run}
    body |= arguments.drop_none(trace_id=trace or None) | arguments.check_caller(ids)
    reply = await client.request("POST", "/api/knowledge/extract", body=body, timeout_s=EXTRACT_TIMEOUT_S)
    return _format_extraction(reply, notice)


async def extract_on_compaction(
    messages: Sequence[Mapping[str, Any]], *, trace_id: str | None = None, dry_run: bool = False, **ids: str | None
) -> ToolResult:
    """Extract knowledge from messages. A host calls it before it compacts them.

    Takes messages as chat interfaces have them: a content may be a list of parts or None, and unknown fields are
    ignored. `ids` are user_id, agent_id, project_id, team_id, org_id, account. A message without an id gets an id made
    of its text and the trace, so that a second compaction does not count it twice. A message that the server would
    refuse is corrected or left out, and `metadata["notice"]` says so. Does not raise when the server cannot be reached:
    the compaction must go on.
    """
    return await knowledge_extract(messages, "compaction", trace_id, dry_run, **ids)  # type: ignore[arg-type] # any host's


def _format_extraction(reply: Mapping[str, Any], notice: str) -> ToolResult:
    candidates, saved = client.get_field(reply, "candidates", list), client.get_field(reply, "saved", list)
    offers = failures.list_objects(reply.get("resources"))
    status = "would be saved" if reply.get("dry_run") else "saved"
    output = f"{len(saved)} of {len(candidates)} {status}."
    if saved:
        output += f"\n\n{records.format_records(saved)}"
    if offers:
        names = "; ".join(f"{failures.shorten(offer.get('shown'))} as {offer.get('content_type')}" for offer in offers)
        output += f"\n\nSave with resource_save, and name in resource_ids of the knowledge: {failures.shorten(names)}."
    if notice:
        output += f"\n\n{notice}"
    metadata = {"candidates": candidates, "resources": offers, "notice": notice}
    operation_id = reply.get("operation_id")
    return records.make_result(
        f"Knowledge: {len(saved)} {status}", output, reply, saved, operation_id=operation_id, **metadata
    )
