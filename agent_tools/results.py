"""The result of a tool, and the failure that becomes a result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    The model reads `output`. `metadata["items"]` has the records as the server sent them. `error` is None, or says what
    went wrong and what to do.
    """

    title: str
    output: str
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def __len__(self) -> int:
        """Return the number of items."""
        items = self.metadata.get("items")
        return len(items) if isinstance(items, list) else 0

    def __str__(self) -> str:
        """Return what a model may read: stored text in it is fenced."""
        return self.output

    def __bool__(self) -> bool:
        # Without this, an empty result would be false, as if there were no result.
        return True


class ToolFailure(Exception):
    """A call outside failed. `advice` is for the agent, `metadata` for a program."""

    def __init__(self, advice: str, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(advice)
        self.advice = advice
        self.metadata = dict(metadata or {})


def make_failure(tool_name: str, failure: ToolFailure) -> ToolResult:
    """Make the result of a tool from its failure."""
    # The advice is also the output: some hosts show a model only the output.
    return ToolResult(
        title=f"{tool_name} failed",
        output=failure.advice,
        metadata={"items": [], **failure.metadata},
        error=failure.advice,
    )
