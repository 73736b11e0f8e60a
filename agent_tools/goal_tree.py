"""The goals of a run as a tree, with the knowledge that was shown for each goal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from agent_tools import arguments, records
from agent_tools.results import ToolFailure

KNOWLEDGE_HEADING = "📚 相关知识"
# Deeper goals are not indented more: otherwise a long chain would be mostly spaces.
DEEPEST_INDENT = 32


class GoalStatus(StrEnum):
    """The state of a goal. The last two are final."""

    PENDING = "pending"
    FOCUSED = "focused"
    COMPLETED = "completed"
    FAILED = "failed"


_MARKS = {GoalStatus.PENDING: " ", GoalStatus.FOCUSED: ">", GoalStatus.COMPLETED: "x", GoalStatus.FAILED: "!"}


@dataclass(slots=True)
class Goal:
    """A goal. `knowledge` is the result of the last focus. `outcome` says how it ended, `was_helpful` if that is good.

    `was_shown` is set once the server has shown knowledge for it, at a focus or before a risky step: then its outcome
    is evidence. `evidence_due` is set until the server has received this evidence. `tags` name the records that were
    used, and with a "!" those that were wrong; None where nothing was said. With `was_external` the failure had a cause
    that no record is about.
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
    was_external: bool = False
    tags: list[str] | None = None

    @property
    def outcome_kind(self) -> str:
        """How the goal ended, in the word of the server."""
        if self.was_external and not self.was_helpful:
            return "external"
        return "success" if self.was_helpful else "failure"

    def name_records(self) -> dict[str, list[str]]:
        """Return what an outcome says of records: nothing, or what was used and what was wrong."""
        if self.tags is None:
            return {}
        wrong = [tag[1:] for tag in self.tags if tag[0] in "!！"]
        used = [tag for tag in self.tags if tag[0] not in "!！" and tag not in wrong]
        if not self.tags:
            # "none" also takes back what was called wrong before.
            return {"used": [], "wrong": []}
        # Who names only what was wrong has not said that nothing helped.
        return {name: tags for name, tags in (("used", used), ("wrong", wrong)) if tags}

    def to_dict(self) -> dict[str, Any]:
        """Return the goal as JSON values."""
        return asdict(self) | {"status": self.status.value}


class GoalTree:
    """Goals in the order of their creation. At most one has the focus."""

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
        """Add a goal below another, or at the top. Raises ToolFailure for an empty text or a wrong id."""
        text = arguments.clean_text(description).strip()
        if not text:
            raise ToolFailure("A goal needs a description. Say what you want to reach.")
        if parent_id is not None:
            self.get(parent_id)
        if goal_id in self._goals:
            raise ToolFailure(f"A goal {goal_id!r} exists already.")
        goal = Goal(goal_id or self._next_id(), text, parent_id)
        self._goals[goal.id] = goal
        return goal

    def find(self, goal_id: str) -> Goal | None:
        """Return the goal with this id, or None."""
        return self._goals.get(goal_id)

    def get(self, goal_id: str) -> Goal:
        """Return the goal with this id. Raises ToolFailure with the known ids."""
        goal = self.find(goal_id)
        if goal is None:
            known = ", ".join(self._goals) or "none yet; create a goal first"
            raise ToolFailure(f"There is no goal {goal_id!r}. The goals are: {known}.")
        return goal

    def focus(self, goal: Goal) -> None:
        """Focus a goal. A goal that has ended is taken up again."""
        if self.focused is not None:
            self.focused.status = GoalStatus.PENDING
        goal.status = GoalStatus.FOCUSED

    def render(self) -> str:
        """Format the tree for a model, with the knowledge of the focused goal, fenced as data."""
        return "\n".join(self._render_lines()) or "There is no goal yet."

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as JSON values for a trace store."""
        return {"goals": [goal.to_dict() for goal in self]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "GoalTree":
        """Make a tree from the values of `to_dict`. Raises KeyError, TypeError or ValueError for anything else."""
        tree = cls()
        try:
            tree._goals = {goal.id: goal for goal in msgspec.convert(saved["goals"], list[Goal])}
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
        return tree

    def _render_lines(self) -> Iterator[str]:
        below: dict[str | None, list[Goal]] = {}
        for goal in self:
            below.setdefault(goal.parent_id, []).append(goal)
        # Without recursion: goals may be deeper than the stack of Python.
        waiting = [(goal, 0) for goal in reversed(below.get(None, []))]
        while waiting:
            goal, depth = waiting.pop()
            indent = "  " * min(depth, DEEPEST_INDENT)
            level = f"(level {depth}) " if depth > DEEPEST_INDENT else ""
            outcome = f" — {goal.outcome}" if goal.outcome else ""
            yield f"{indent}{level}[{_MARKS[goal.status]}] {goal.id}: {goal.description}{outcome}"
            if goal.status is GoalStatus.FOCUSED:
                yield from (f"{indent}    {line}" for line in format_knowledge(goal.knowledge).splitlines())
            waiting.extend((child, depth + 1) for child in reversed(below.get(goal.id, [])))

    def _next_id(self) -> str:
        number = len(self._goals) + 1
        while f"goal-{number}" in self._goals:
            number += 1
        return f"goal-{number}"


def format_knowledge(items: Sequence[Mapping[str, Any]], notice: str = "") -> str:
    """Format records under their heading. `notice` is shown when there are none."""
    shown = records.format_records(items) if items else notice or "暂无相关知识 (nothing is known yet)"
    return f"{KNOWLEDGE_HEADING} ({len(items)} 条):\n{shown}"
