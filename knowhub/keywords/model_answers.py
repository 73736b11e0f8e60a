"""What a model decided about one new keyword, for its operation and its answer."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.core.operation import Committed, Draft, Outcome, Row, Write
from knowhub.keywords.search.prompts import ModelAnswer


@dataclass(slots=True)
class ModelAnswers:
    """The answers of a model for one new keyword; `deadline` is on the monotonic clock."""

    deadline: float
    calls: list[Row] = field(default_factory=list)
    decided: dict[str, Any] = field(default_factory=dict)
    is_degraded: bool = False
    is_written: bool = False

    def get_remaining_s(self) -> float:
        """Return how many seconds are left for questions."""
        return max(self.deadline - time.monotonic(), 0.0)

    def note(self, outcome: ModelAnswer) -> None:
        """Add the calls of an answer, and whether it failed."""
        self.calls += outcome.calls
        self.is_degraded = self.is_degraded or outcome.failure is not None

    def note_outcome(self, outcome: Outcome) -> None:
        """Note whether the calls were recorded; those of a retry are not."""
        self.is_written = isinstance(outcome, Committed) and not outcome.replayed

    def make_draft(
        self, op: str, writes: Sequence[Write], row_id: str, placed: Mapping[str, Any] | None = None
    ) -> Draft:
        """Return a draft whose reply has the decisions of the model; `placed` overrides where the keyword was put."""
        degraded, decided = ["llm"] if self.is_degraded else [], {**self.decided, **(placed or {})}
        reply = {"id": row_id, "degraded": degraded, "decided": decided}
        return Draft(op, writes, reply=reply if degraded or decided else None, agent_io=self.calls or None)
