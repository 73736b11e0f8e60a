"""What votes weigh: where keys are asked for, one principal's votes on a record weigh once in its quality, the last.

Counters and histories keep every vote. What weighs stands beside them, in `eval.effective`, from the first vote that
came with a key on; what was there before it weighs as it was counted.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from knowhub.core import clock
from knowhub.core.operation import Change, Row, Write, is_live, next_version
from knowhub.core.request_context import RequestContext
from knowhub.core.undo import Lookup, RowRules
from knowhub.knowledge import decisions
from knowhub.knowledge.model import COLLECTION, Feedback
from knowhub.knowledge.ports import KnowledgeView
from knowhub.knowledge.showings import digest

VOTES = "votes"
_KINDS = ("helpful", "harmful")
# The last one weighs; one before it does where that is taken back.
_KEPT = 3

Undone: TypeAlias = Mapping[tuple[str, str], Row]


class Ballot:
    """The votes of one caller in one decision; a record may get several."""

    def __init__(self, view: KnowledgeView, ctx: RequestContext) -> None:
        self._view = view
        self._ctx = ctx
        self._rows: dict[str, Row] = {}

    def give(self, row: Row, feedback: Feedback) -> Row:
        """Return a record with evidence added; what it weighs is what the caller's last vote does."""
        after = decisions.with_feedback(row, feedback, self._view.now)
        cases = (feedback.helpful_case, feedback.harmful_case)
        cast = [kind for kind, case in zip(_KINDS, cases, strict=True) if case is not None]
        if self._ctx.key_id is None or not cast:
            return after
        before = self._rows.get(row["id"]) or self._view.get(VOTES, self._row_id(row["id"])) or {}
        votes = self._voted(row, before, cast)
        self._rows[row["id"]] = votes
        return _weighing(after, _moved(_weight(row), before, votes))

    def writes(self) -> list[Write]:
        """Return the rows that remember who voted how."""
        return [Write(VOTES, row["id"], row) for row in self._rows.values()]

    def _voted(self, row: Row, before: Row, cast: list[str]) -> Row:
        moment = clock.iso(self._view.now)
        earlier = before.get("votes", []) if is_live(before or None) else []
        said = [{"vote": kind, "timestamp": moment} for kind in cast]
        row_id = self._row_id(row["id"])
        return {
            "id": row_id,
            "knowledge_id": row["id"],
            "principal": self._ctx.actor,
            "votes": [*earlier, *said][-_KEPT:],
            # Who sees and who may edit the record sees and may take back what was done to it.
            "scopes": row["scopes"],
            "owner": row["owner"],
            "version": next_version(self._view.get(VOTES, row_id)),
            "created_at": before.get("created_at", moment),
            "updated_at": moment,
        }

    def _row_id(self, knowledge_id: str) -> str:
        return f"vote-{digest([knowledge_id, self._ctx.actor])}"


def balanced_record(change: Change, now: Lookup, undone: Undone, row: Row) -> Row:
    """Return a record as an undo leaves it, with what weighs of the votes that stand then."""
    if "effective" not in row["eval"]:
        return row
    moved = _weight(now(COLLECTION, change.id) or row)
    cast = [one for (kind, _), one in undone.items() if kind == VOTES and one["knowledge_id"] == change.id]
    for votes in cast:
        moved = _moved(moved, now(VOTES, votes["id"]) or {}, votes)
    if not cast and change.before is not None and "effective" not in change.before["eval"]:
        # It began to weigh apart with this operation: what that added is taken back all the same.
        before, after = _weight(change.before), _weight(change.after)
        moved = {kind: moved[kind] + before[kind] - after[kind] for kind in _KINDS}
    return _weighing(row, moved) if cast or "effective" not in (change.before or row)["eval"] else row


def balanced_votes(change: Change, _now: Lookup, _undone: Undone, row: Row) -> Row:
    """Return who voted how as an undo leaves it: without the votes of its operation, and never gone for others'."""
    if change.before is not None:
        return row
    left = list(row["votes"])
    for one in change.after["votes"]:
        if one in left:
            left.remove(one)
    return {**{name: value for name, value in row.items() if name != "deleted"}, "votes": left}


def _moved(weight: Mapping[str, int], before: Row, after: Row) -> dict[str, int]:
    return {kind: weight[kind] + _weighs(after, kind) - _weighs(before, kind) for kind in _KINDS}


def _weighs(votes: Row, kind: str) -> int:
    return int(bool(votes.get("votes")) and votes["votes"][-1]["vote"] == kind)


def _weight(row: Row) -> dict[str, int]:
    counted: Mapping[str, Any] = row["eval"].get("effective") or row["eval"]
    return {kind: counted[kind] for kind in _KINDS}


def _weighing(row: Row, weight: Mapping[str, int]) -> Row:
    return {**row, "eval": {**row["eval"], "effective": dict(weight)}}


RECORD_RULES = replace(decisions.UNDO_RULES, balance=balanced_record)
UNDO_RULES = RowRules(logs=frozenset({("votes",)}), balance=balanced_votes, is_verdict=True)
