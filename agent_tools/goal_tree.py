"""The goals of one run as a tree, with the knowledge that was shown for each (seed 003, 知识展示)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent_tools import records
from agent_tools.results import ToolFailure

KNOWLEDGE_HEADING = "📚 相关知识"


class GoalStatus(StrEnum):
    """Where a goal stands; the last two are ends."""

    PENDING = "pending"
    FOCUSED = "focused"
    COMPLETED = "completed"
    FAILED = "failed"


_MARKS = {GoalStatus.PENDING: " ", GoalStatus.FOCUSED: ">", GoalStatus.COMPLETED: "x", GoalStatus.FAILED: "!"}


@dataclass(slots=True)
class Goal:
    """One goal. `knowledge` is what the last focus brought; `outcome` says how it ended.

    `evidence_due` is set while the outcome has not reached the server yet.
    """

    id: str
    description: str
    parent_id: str | None = None
    status: GoalStatus = GoalStatus.PENDING
    knowledge: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = ""
    evidence_due: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the goal as JSON values."""
        return {
            "id": self.id,
            "description": self.description,
            "parent_id": self.parent_id,
            "status": self.status.value,
            "knowledge": [dict(item) for item in self.knowledge],
            "outcome": self.outcome,
            "evidence_due": self.evidence_due,
        }


class GoalTree:
    """Goals in the order in which they were added; at most one has the focus."""

    def __init__(self) -> None:
        self._goals: dict[str, Goal] = {}

    def __iter__(self) -> Iterator[Goal]:
        return iter(self._goals.values())

    def __len__(self) -> int:
        return len(self._goals)

    @property
    def focused(self) -> Goal | None:
        """The goal that has the focus."""
        return next((goal for goal in self if goal.status is GoalStatus.FOCUSED), None)

    def add(self, description: str, parent_id: str | None = None, goal_id: str | None = None) -> Goal:
        """Add a goal below another, or at the top. Raises ToolFailure for a blank text or an id that does not fit."""
        if not description.strip():
            raise ToolFailure("A goal needs a description: say what shall be reached.")
        if parent_id is not None:
            self.get(parent_id)
        if goal_id in self._goals:
            raise ToolFailure(f"There is a goal {goal_id!r} already.")
        # Half of a surrogate pair, as a model may write it, could neither be sent nor kept.
        said = description.strip().encode("utf-8", "replace").decode()
        goal = Goal(goal_id or self._next_id(), said, parent_id)
        self._goals[goal.id] = goal
        return goal

    def find(self, goal_id: str) -> Goal | None:
        """Return the goal with this id, or None (GO-003)."""
        return self._goals.get(goal_id)

    def get(self, goal_id: str) -> Goal:
        """Return the goal with this id. Raises ToolFailure that names those there are."""
        goal = self.find(goal_id)
        if goal is None:
            known = ", ".join(self._goals) or "none yet; create one first"
            raise ToolFailure(f"There is no goal {goal_id!r}. There are: {known}.")
        return goal

    def focus(self, goal: Goal) -> None:
        """Give the focus to a goal, ended ones too: whoever comes back to one takes it up again."""
        if self.focused is not None:
            self.focused.status = GoalStatus.PENDING
        goal.status = GoalStatus.FOCUSED

    def render(self) -> str:
        """Show the tree to a model, with the focused goal's knowledge beneath it, fenced as data (GO-009)."""
        return "\n".join(self._lines(None, 0)) or "There is no goal yet."

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as JSON values, as a trace store keeps it."""
        return {"goals": [goal.to_dict() for goal in self]}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "GoalTree":
        """Make the tree that `to_dict` gave. Raises KeyError, TypeError or ValueError where it is none."""
        tree = cls()
        for one in kept["goals"]:
            goal = Goal(**{**one, "status": GoalStatus(one["status"]), "knowledge": list(one["knowledge"])})
            tree._goals[goal.id] = goal
        return tree

    def _lines(self, parent_id: str | None, depth: int) -> Iterator[str]:
        indent = "  " * depth
        for goal in self:
            if goal.parent_id != parent_id:
                continue
            ended = f" — {goal.outcome}" if goal.outcome else ""
            yield f"{indent}[{_MARKS[goal.status]}] {goal.id}: {goal.description}{ended}"
            if goal.status is GoalStatus.FOCUSED:
                yield from (f"{indent}    {line}" for line in knowledge_section(goal.knowledge).splitlines())
            yield from self._lines(goal.id, depth + 1)

    def _next_id(self) -> str:
        number = len(self._goals) + 1
        while f"goal-{number}" in self._goals:
            number += 1
        return f"goal-{number}"


def knowledge_section(items: Sequence[Mapping[str, Any]], notice: str = "") -> str:
    """Show what was found under the heading of the seed; `notice` stands where nothing was."""
    shown = records.as_data(items) if items else notice or "暂无相关知识 (nothing is known yet)"
    return f"{KNOWLEDGE_HEADING} ({len(items)} 条):\n{shown}"
