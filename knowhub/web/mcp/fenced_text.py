"""Text of tool results. Stored text is fenced: a bar begins each of its lines, so that it cannot pass for ours."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agent_tools.fences import FENCE_NOTE

_MAX_CHARS: Final = 24_000
_MIN_CHARS: Final = 200


def fence_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows, field by field, after FENCE_NOTE. Long texts are cut, and each row has an equal share."""
    return f"{FENCE_NOTE}\n\n{format_rows(rows)}"


def format_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows, to be shown below FENCE_NOTE."""
    limit = max(_MIN_CHARS, _MAX_CHARS // max(1, len(rows)))
    return "\n\n".join("\n".join(_format_fields(row, limit)) for row in rows)


def _format_fields(row: Mapping[str, Any], limit: int) -> Iterable[str]:
    for name, value in row.items():
        if value in (None, "", [], {}):
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        left = len(text) - limit
        shown = f"{text[:limit]} […{left} more characters]" if left > 0 else text
        # splitlines, because a model takes any line break of Unicode for a new line.
        yield f"| {name}: " + "\n|   ".join(shown.splitlines())
