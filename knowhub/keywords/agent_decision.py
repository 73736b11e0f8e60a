"""What a model may point at, and its answer to `pick_branch` read without trusting it (KT-049, KT-050, C-21)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from knowhub.core.operation import Row

MAX_POINTED = 50
_MAX_READ = 1_000
_MAX_IDX_DIGITS = 9
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


class Choices:
    """What was shown: candidates by idx, from 1 anew each round (G-03), and ids that are accepted beside them."""

    def __init__(self, ids: Sequence[str], also: Iterable[str] = ()) -> None:
        self._listed = tuple(ids)
        self._ids = frozenset((*ids, *also))

    @property
    def by_idx(self) -> Mapping[str, str]:
        """What each idx of the prompt stood for, as the log keeps it for a replay."""
        return {str(idx): node_id for idx, node_id in enumerate(self._listed, 1)}

    def pick(self, pointed: object) -> str | None:
        """Return the id that is meant: by idx, by idx as text, or by an id that was shown; None for anything else."""
        if isinstance(pointed, str):
            text = pointed.strip()
            if text in self._ids:
                return text
            return self._numbered(int(text)) if text.isdecimal() and len(text) <= _MAX_IDX_DIGITS else None
        # True is an int in Python, and nobody's idx.
        if isinstance(pointed, int) and not isinstance(pointed, bool):
            return self._numbered(pointed)
        return None

    def pick_all(self, pointed: Iterable[object]) -> tuple[str, ...]:
        """Return each id that is meant once, in the order of the answer, at most MAX_POINTED; the rest is dropped."""
        picked = (self.pick(one) for one in pointed)
        return tuple(dict.fromkeys(node_id for node_id in picked if node_id is not None))[:MAX_POINTED]

    def _numbered(self, idx: int) -> str | None:
        return self._listed[idx - 1] if 0 < idx <= len(self._listed) else None


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


def pointed_at(value: object) -> Sequence[object]:
    """Return what a field names, one or several; blanks, with which models fill a field, name nothing."""
    many = value[:_MAX_READ] if isinstance(value, list | tuple) else [value]
    return [one for one in many if one is not None and not (isinstance(one, str) and not one.strip())]


def short_text(value: object, limit: int) -> str:
    """Return text as one line of at most `limit` characters; anything that is not text is empty."""
    if not isinstance(value, str):
        return ""
    # A lone half of a surrogate pair is text that no file and no answer can hold, and NUL none that a name may hold.
    line = " ".join(value[: limit * 4].replace("\0", " ").encode("utf-8", "replace").decode().split())
    return line[:limit].rstrip()


def _depth(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_READ:
        return value
    return 1
