"""The goals of one run as a tree, with the knowledge that was shown for each (seed 003, 知识展示)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import NoneType
from typing import Any

from agent_tools import records, sendable
from agent_tools.results import ToolFailure

KNOWLEDGE_HEADING = "📚 相关知识"
# Goals further down are not indented more, or a long chain of them would be all blanks.
DEEPEST_INDENT = 32


class GoalStatus(StrEnum):
    """Where a goal stands; the last two are ends."""

    PENDING = "pending"
    FOCUSED = "focused"
    COMPLETED = "completed"
    FAILED = "failed"


# What a kept goal is made of.
_KINDS: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "description": str,
    "parent_id": (str, NoneType),
    "status": str,
    "knowledge": list,
    "outcome": str,
    "evidence_due": bool,
    "was_shown": bool,
    "was_helpful": bool,
}
_MARKS = {GoalStatus.PENDING: " ", GoalStatus.FOCUSED: ">", GoalStatus.COMPLETED: "x", GoalStatus.FAILED: "!"}


@dataclass(slots=True)
class Goal:
    """One goal. `knowledge` is what the last focus brought; `outcome` says how it ended, `was_helpful` whether well.

    `was_shown` is set once the server has shown something for it, at a focus or before a risky step: then its outcome
    is evidence. `evidence_due` is set while that has not reached the server yet.
    """

    id: str
    description: str
    parent_id: str | None = None
    status: GoalStatus = GoalStatus.PENDING
    knowledge: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = ""
    evidence_due: bool = False
    was_shown: bool = False
    was_helpful: bool = False

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
            "was_shown": self.was_shown,
            "was_helpful": self.was_helpful,
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
        said = sendable.plain_text(description).strip()
        if not said:
            raise ToolFailure("A goal needs a description: say what shall be reached.")
        if parent_id is not None:
            self.get(parent_id)
        if goal_id in self._goals:
            raise ToolFailure(f"There is a goal {goal_id!r} already.")
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
        return "\n".join(self._lines()) or "There is no goal yet."

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as JSON values, as a trace store keeps it."""
        return {"goals": [goal.to_dict() for goal in self]}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "GoalTree":
        """Make the tree that `to_dict` gave. Raises KeyError, TypeError or ValueError where it is none."""
        if not isinstance(kept["goals"], list):
            raise TypeError("the goals are no list")
        tree = cls()
        for one in kept["goals"]:
            goal = _goal_of(one)
            if goal.id in tree._goals:
                raise ValueError(f"there are two goals {goal.id!r}")
            tree._goals[goal.id] = goal
        _check_parents(tree._goals)
        return tree

    def _lines(self) -> Iterator[str]:
        below: dict[str | None, list[Goal]] = {}
        for goal in self:
            below.setdefault(goal.parent_id, []).append(goal)
        # Without a call for each level: goals may lie deeper than Python's own stack.
        waiting = [(goal, 0) for goal in reversed(below.get(None, []))]
        while waiting:
            goal, depth = waiting.pop()
            indent = "  " * min(depth, DEEPEST_INDENT)
            level = f"(level {depth}) " if depth > DEEPEST_INDENT else ""
            ended = f" — {goal.outcome}" if goal.outcome else ""
            yield f"{indent}{level}[{_MARKS[goal.status]}] {goal.id}: {goal.description}{ended}"
            if goal.status is GoalStatus.FOCUSED:
                yield from (f"{indent}    {line}" for line in knowledge_section(goal.knowledge).splitlines())
            waiting.extend((child, depth + 1) for child in reversed(below.get(goal.id, [])))

    def _next_id(self) -> str:
        number = len(self._goals) + 1
        while f"goal-{number}" in self._goals:
            number += 1
        return f"goal-{number}"


def knowledge_section(items: Sequence[Mapping[str, Any]], notice: str = "") -> str:
    """Show what was found under the heading of the seed; `notice` stands where nothing was."""
    shown = records.as_data(items) if items else notice or "暂无相关知识 (nothing is known yet)"
    return f"{KNOWLEDGE_HEADING} ({len(items)} 条):\n{shown}"


def _goal_of(kept: object) -> Goal:
    if not isinstance(kept, dict):
        raise TypeError("a goal is no object")
    wrong = [name for name, value in kept.items() if not isinstance(value, _KINDS[name])]
    if wrong:
        raise TypeError(f"a goal's {', '.join(wrong)} is of the wrong kind")
    if not all(isinstance(item, dict) for item in kept["knowledge"]):
        raise TypeError("a goal's knowledge holds what is no record")
    status = GoalStatus(kept["status"])
    # Trees of before did not say these two.
    before = {"was_shown": bool(kept["knowledge"]), "was_helpful": status is GoalStatus.COMPLETED}
    return Goal(**{**before, **kept, "status": status})


def _check_parents(goals: Mapping[str, Goal]) -> None:
    """Raise ValueError unless every goal is reached from the top."""
    reached: set[str] = set()
    for goal in goals.values():
        chain = {goal.id}
        at = goal
        while at.parent_id is not None and at.id not in reached:
            if at.parent_id not in goals:
                raise ValueError(f"goal {at.id!r} lies below one that there is not")
            at = goals[at.parent_id]
            if at.id in chain:
                raise ValueError(f"goal {at.id!r} lies below itself")
            chain.add(at.id)
        reached |= chain
