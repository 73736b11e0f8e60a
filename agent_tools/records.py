"""The results of tools that show stored records, and what a model is shown of a record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_tools import failures
from agent_tools.fences import Fields, fence_rows
from agent_tools.results import ToolResult


def format_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the tag, id, types, evidence, task, content and resources of each record."""
    return fence_rows(map(get_record_fields, records))


def make_list(
    title: str,
    reply: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    get_fields: Callable[[Mapping[str, Any]], Fields] | None = None,
    nothing: str | None = None,
    more: str = "",
) -> ToolResult:
    """Make the result of a list or a search: how many rows there are, and the rows; records by default.

    `nothing` is said where there are none, and `more` behind the number.
    """
    has_more = reply.get("next_cursor") or reply.get("truncated")
    more = " There are more: raise limit to see them." if has_more else more
    output = nothing if nothing and not rows else f"{len(rows)} found.{more}"
    if rows:
        output += f"\n\n{fence_rows(map(get_fields or get_record_fields, rows))}"
    return make_result(f"{title}: {len(rows)} found", output, reply, list(rows))


def make_result(
    title: str, output: str, reply: Mapping[str, Any], items: Sequence[Mapping[str, Any]], **metadata: object
) -> ToolResult:
    """Make a result that says at its end which parts the server did without, such as the language model."""
    degraded = list_degraded(reply)
    return ToolResult(title, output + describe_degraded(degraded), {"items": items, "degraded": degraded, **metadata})


def list_degraded(reply: Mapping[str, Any]) -> list[Any]:
    """Return the parts that the server did without."""
    parts = reply.get("degraded")
    return parts if isinstance(parts, list) else []


def describe_degraded(parts: Sequence[object]) -> str:
    """Return a line about these parts for the end of an output. It is empty when there are none."""
    return f"\nThe server had to do without: {failures.shorten(', '.join(map(str, parts)))}." if parts else ""


def get_record_fields(record: Mapping[str, Any]) -> Fields:
    """Return what a model is shown of a record."""
    fields = {name: record.get(name) for name in ("tag", "id", "types")}
    fields["evidence"] = _format_evidence(record)
    return fields | {name: record.get(name) for name in ("warning", "task", "content", "resource_ids")}


def _format_evidence(record: Mapping[str, Any]) -> str:
    """Return how relevant and how sure a record is; the votes are those that count, where the server says so."""
    evaluation = record.get("eval")
    counts = evaluation if isinstance(evaluation, dict) else {}
    effective = counts.get("effective")
    counts = {**counts, **effective} if isinstance(effective, dict) else counts
    shown = [("relevance", record.get("relevance"))]
    shown += [(name, counts.get(name)) for name in ("confidence", "helpful", "harmful", "score")]
    return ", ".join(f"{name} {value}" for name, value in shown if value is not None)
