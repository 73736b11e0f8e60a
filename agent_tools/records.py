"""Format stored records for a model: long texts are cut, and stored text is fenced as data."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from agent_tools import failures
from agent_tools.fences import FENCE_NOTE
from agent_tools.results import ToolResult

OUTPUT_BUDGET_CHARS = 24_000
_SHORTEST_EXCERPT_CHARS = 100

Fields: TypeAlias = Mapping[str, object]
"""What a model is shown of a row, by its labels. A list is shown as its parts, and nothing of an empty field."""


def format_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the tag, id, types, evidence, task, content and resources of each record."""
    return fence(map(get_record_fields, records))


def fence(rows: Iterable[Fields]) -> str:
    """Format rows after FENCE_NOTE. Long texts are cut: each row has an equal share of `OUTPUT_BUDGET_CHARS`."""
    listed = list(rows)
    limit_chars = max(_SHORTEST_EXCERPT_CHARS, OUTPUT_BUDGET_CHARS // max(1, len(listed)))
    return "\n\n".join([FENCE_NOTE, *("\n".join(_format_fields(row, limit_chars)) for row in listed)])


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
        output += f"\n\n{fence(map(get_fields or get_record_fields, rows))}"
    return make_result(f"{title}: {len(rows)} found", output, reply, list(rows))


def make_result(
    title: str, output: str, reply: Mapping[str, Any], items: Sequence[Mapping[str, Any]], **metadata: object
) -> ToolResult:
    """Make a result that says at its end which parts the server did without, such as the language model."""
    degraded = list_degraded(reply)
    return ToolResult(title, output + describe_degraded(degraded), {"items": items, "degraded": degraded, **metadata})


def quote(label: str, text: str, limit_chars: int = OUTPUT_BUDGET_CHARS) -> str:
    """Put a bar before each line of a text, so that a model cannot take it for our own text.

    Lines after the first are indented, so that a line cannot look like another field of the record.
    """
    left = len(text) - limit_chars
    excerpt = f"{text[:limit_chars]} […{left} more characters]" if left > 0 else text
    # splitlines, not split("\n"): a model may take any line break of Unicode for a new line.
    return f"| {label}: " + "\n|   ".join(excerpt.splitlines())


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


def _format_fields(fields: Fields, limit_chars: int) -> Iterator[str]:
    for label, value in fields.items():
        if value not in (None, "", {}, []):
            parts = value if isinstance(value, list) else [value]
            yield quote(label, ", ".join(map(str, parts)), limit_chars)


def _format_evidence(record: Mapping[str, Any]) -> str:
    """Return how relevant and how sure a record is; the votes are those that count, where the server says so."""
    evaluation = record.get("eval")
    counts = evaluation if isinstance(evaluation, dict) else {}
    effective = counts.get("effective")
    counts = {**counts, **effective} if isinstance(effective, dict) else counts
    shown = [("relevance", record.get("relevance"))]
    shown += [(name, counts.get(name)) for name in ("confidence", "helpful", "harmful", "score")]
    return ", ".join(f"{name} {value}" for name, value in shown if value is not None)
