"""What a tool hands back to an agent, and the failure that becomes such a result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of one tool call (seed 003, Agent 工具).

    `output` is what the model reads. `metadata["items"]` holds the records themselves, as the server sent
    them. `error` is None, or says what went wrong and what to do about it.
    """

    title: str
    output: str
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def __len__(self) -> int:
        """Count what was found: the seed writes `len(knowledge_results)`."""
        items = self.metadata.get("items")
        return len(items) if isinstance(items, list) else 0

    def __bool__(self) -> bool:
        # With a length alone, a result that found nothing would be falsy, as if there were no result.
        return True


class ToolFailure(Exception):
    """Something outside failed; `advice` is for the agent, `metadata` for a program."""

    def __init__(self, advice: str, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(advice)
        self.advice = advice
        self.metadata = dict(metadata or {})


def failed(tool_name: str, failure: ToolFailure) -> ToolResult:
    """Turn a failure into the result of the tool that met it."""
    # The advice is the output too: some hosts show a model the output only.
    return ToolResult(
        title=f"{tool_name} failed",
        output=failure.advice,
        metadata={"items": [], **failure.metadata},
        error=failure.advice,
    )
