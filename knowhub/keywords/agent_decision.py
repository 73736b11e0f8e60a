"""A model's answer to `pick_branch`, read without trusting it (KT-049, KT-050, C-21)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from knowhub.core.choices import Choices, pointed_at, short_text
from knowhub.core.operation import Row

_MAX_DEPTH = 1_000
_MAX_REASON = 500
_MAX_NAME = 200


class Intent(StrEnum):
    """What a descent is for; the wording of its prompt turns on it (KT-114)."""

    SEARCH = "search"
    SUGGEST_PARENT = "suggest_parent"


class Action(StrEnum):
    JUMP = "jump"
    MATCH = "match"
    MISSING = "missing"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """An answer to `pick_branch`, its idx mapped to ids. `strays` says that it also named what was never shown."""

    action: Action
    node_id: str | None = None
    node_ids: tuple[str, ...] = ()
    jump_depth: int = 1
    suggest_name: str | None = None
    candidate_ids: tuple[str, ...] = ()
    reason: str = ""
    strays: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """Where a jump or a match goes: `node_ids` first, else `node_id` (KT-122).

        "First" by its letter: `node_ids` that name something decide, even where nothing of it was shown; a good
        `node_id` beside them is not looked at. Only blank ones leave the word to `node_id`.
        """
        return self.node_ids or ((self.node_id,) if self.node_id is not None else ())

    def as_row(self) -> Row:
        """Return the decision as JSON, with ids: what is cached of it, and what `decode` reads again."""
        return {
            "action": self.action.value,
            "node_id": self.node_id,
            "node_ids": list(self.node_ids),
            "jump_depth": self.jump_depth,
            "suggest_name": self.suggest_name,
            "candidate_ids": list(self.candidate_ids),
            "reason": self.reason,
        }


def decode(answer: object, choices: Choices) -> AgentDecision | None:
    """Read an answer; None when it is no decision at all. Never raises, whatever JSON the model said (KT-137).

    What points at nothing that was shown is dropped: a model chooses among what it saw, and invents nothing.
    """
    if not isinstance(answer, Mapping):
        return None
    said = answer.get("action")
    # Only text is compared: the text of anything else, such as lists in lists, may cost more than there is.
    action = next((one for one in Action if one == said), None) if isinstance(said, str) else None
    if action is None:
        return None
    listed, single = pointed_at(answer.get("node_ids")), pointed_at(answer.get("node_id"))
    offered = pointed_at(answer.get("candidate_ids"))
    named = offered if action is Action.AMBIGUOUS and offered else listed or single
    node_ids, node_id = choices.pick_all(listed), choices.pick_all(single)
    return AgentDecision(
        action=action,
        node_id=node_id[0] if node_id and not listed else None,
        node_ids=node_ids,
        jump_depth=_depth(answer.get("jump_depth")),
        suggest_name=short_text(answer.get("suggest_name"), _MAX_NAME) or None,
        candidate_ids=choices.pick_all(offered or listed or single) if action is Action.AMBIGUOUS else (),
        reason=short_text(answer.get("reason"), _MAX_REASON),
        strays=any(choices.pick(one) is None for one in named),
    )


def is_row(value: object) -> bool:
    """Tell whether a value has the shape that `AgentDecision.as_row` gives."""
    match value:
        case {
            "action": str(),
            "node_id": str() | None,
            "node_ids": [*node_ids],
            "jump_depth": int(),
            "suggest_name": str() | None,
            "candidate_ids": [*candidate_ids],
            "reason": str(),
        }:
            return all(isinstance(one, str) for one in (*node_ids, *candidate_ids))
    return False


def _depth(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_DEPTH:
        return value
    return 1
