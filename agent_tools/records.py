"""Format stored records for a model: long texts are cut, and stored text is fenced as data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from agent_tools import failures
from agent_tools.fences import FENCE_NOTE
from agent_tools.results import ToolResult

OUTPUT_BUDGET_CHARS = 24_000
_SHORTEST_EXCERPT_CHARS = 100

FormatRow: TypeAlias = Callable[[Mapping[str, Any], int], Iterator[str]]
"""Returns the fields of a row as `quote` makes them, each with at most this many characters."""


def format_records(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the tag, id, types, evidence, task, content and resources of each record.

    Long texts are cut, so that all records together stay near `OUTPUT_BUDGET_CHARS`.
    """
    return fence_rows(records, _format_record)


def fence_rows(rows: Sequence[Mapping[str, Any]], format_row: FormatRow) -> str:
    """Format rows after FENCE_NOTE. Each row has an equal share of `OUTPUT_BUDGET_CHARS`."""
    limit_chars = split_budget(len(rows))
    return "\n\n".join([FENCE_NOTE, *("\n".join(format_row(row, limit_chars)) for row in rows)])


def make_list(
    title: str,
    reply: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    format_row: FormatRow | None = None,
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
        output += f"\n\n{fence_rows(rows, format_row or _format_record)}"
    metadata = {"items": list(rows), "degraded": list_degraded(reply)}
    return ToolResult(f"{title}: {len(rows)} found", output + describe_degraded(reply), metadata)


def format_fields(row: Mapping[str, Any], names: Sequence[str], limit_chars: int) -> Iterator[str]:
    """Yield the fields of a row that hold something, as `quote` makes them."""
    for name in names:
        if row.get(name) not in (None, "", {}):
            yield quote(name, str(row[name]), limit_chars)


def split_budget(count: int) -> int:
    """Return how many characters each of `count` texts may have."""
    return max(_SHORTEST_EXCERPT_CHARS, OUTPUT_BUDGET_CHARS // max(1, count))


def quote(label: str, text: str, limit_chars: int = OUTPUT_BUDGET_CHARS) -> str:
    """Put a bar before each line of a text, so that a model cannot take it for our own text.

    Lines after the first are indented, so that a line cannot look like another field of the record.
    """
    left = len(text) - limit_chars
    excerpt = f"{text[:limit_chars]} […{left} more characters]" if left > 0 else text
    # splitlines, not split("\n"): a model may take any line break of Unicode for a new line.
    return f"| {label}: " + "\n|   ".join(excerpt.splitlines())


def list_degraded(reply: Mapping[str, Any]) -> list[Any]:
    """Return the parts that the server did without, such as the language model."""
    parts = reply.get("degraded")
    return parts if isinstance(parts, list) else []


def describe_degraded(reply: Mapping[str, Any]) -> str:
    """Return a line about these parts for the end of an output. It is empty when there are none."""
    parts = ", ".join(map(str, list_degraded(reply)))
    return f"\nThe server had to do without: {failures.shorten(parts)}." if parts else ""


def _format_record(record: Mapping[str, Any], limit_chars: int) -> Iterator[str]:
    if record.get("tag"):
        yield _quote_inline("tag", record["tag"])
    yield _quote_inline("id", record.get("id"))
    yield _quote_inline("types", record.get("types"))
    yield _quote_inline("evidence", _format_evidence(record))
    if record.get("warning"):
        yield _quote_inline("warning", record["warning"])
    yield quote("task", str(record.get("task") or ""), limit_chars)
    yield quote("content", str(record.get("content") or ""), limit_chars)
    if record.get("resource_ids"):
        yield _quote_inline("resource_ids", record["resource_ids"])


def _quote_inline(label: str, value: object) -> str:
    parts = value if isinstance(value, list) else [value]
    return f"| {label}: " + ", ".join(" ".join(str(part).split()) for part in parts if part is not None)


def _format_evidence(record: Mapping[str, Any]) -> str:
    """Return how relevant and how sure a record is; the votes are those that count, where the server says so."""
    evaluation = record.get("eval")
    counts = evaluation if isinstance(evaluation, dict) else {}
    effective = counts.get("effective")
    counts = {**counts, **effective} if isinstance(effective, dict) else counts
    shown = [("relevance", record.get("relevance"))]
    shown += [(name, counts.get(name)) for name in ("confidence", "helpful", "harmful", "score")]
    return ", ".join(f"{name} {value}" for name, value in shown if value is not None) or "not given"
