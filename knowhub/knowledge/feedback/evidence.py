"""Evidence on a record: its counters, its confidence, its quality, and who voted.

Counters and histories keep every vote. Where callers have API keys, only the last vote of each caller counts for the
quality. That figure is `eval.effective`; it begins with the first vote by a key, from the counters of that moment.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from knowhub.core import clock
from knowhub.core.collection import UndoneRow
from knowhub.core.operation import Row, View, Write, is_live, next_of, next_version
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import COLLECTION, HISTORY_SHOWN, Feedback, KnowledgeSummary

VOTES: Final = "votes"
_KINDS: Final = ("helpful", "harmful")
# The last vote counts. The ones before it are needed when it is undone.
_VOTES_STORED: Final = 3
_CONFIDENCE_DIGITS: Final = 6


def quality(score: int, helpful: int, harmful: int) -> float:
    """Return `score + helpful - 2 * harmful`."""
    return score + helpful - harmful * 2.0


def summary_quality(summary: KnowledgeSummary) -> float:
    """Return the quality of a record by its summary."""
    return quality(summary.score, summary.helpful, summary.harmful)


def confidence(helpful: int, harmful: int) -> float:
    """Return the share of helpful evidence, with one harmful case assumed: 0.5 for a new record, always below 1."""
    return helpful / (helpful + harmful + 1)


def with_feedback(row: Row, feedback: Feedback, now: float) -> Row:
    """Return `row` with evidence added. Histories hold the last 50 cases; the log has all."""
    evaluation = dict(row["eval"])
    for kind, case in _list_cases(feedback).items():
        evaluation[kind] += 1
        if "effective" in evaluation:
            evaluation["effective"] = {**evaluation["effective"], kind: evaluation["effective"][kind] + 1}
        dated = {**case, "timestamp": case.get("timestamp") or clock.iso(now)}
        evaluation[f"{kind}_history"] = [*evaluation[f"{kind}_history"], dated][-HISTORY_SHOWN:]
    if feedback.score is not None:
        evaluation["score"] = feedback.score
    evaluation["confidence"] = update_confidence(row["eval"], evaluation)
    if evaluation == row["eval"]:
        return row
    return next_of({**row, "eval": evaluation}, row, now)


def update_confidence(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Move the confidence as the evidence moved. An imported figure keeps its offset and stays within 0 and 1."""
    old = confidence(before["helpful"], before["harmful"])
    new = confidence(after["helpful"], after["harmful"])
    current = float(before["confidence"])
    if new > old:
        current += (1 - current) * (new - old) / (1 - old)
    elif new < old:
        current *= new / old
    else:
        return current
    return round(current, _CONFIDENCE_DIGITS)


class VoteRecorder:
    """Adds the votes of one caller within one decision. A record may get several."""

    def __init__(self, view: View, ctx: RequestContext) -> None:
        self._view = view
        self._ctx = ctx
        self._rows: dict[str, Row] = {}

    def record(self, row: Row, feedback: Feedback) -> Row:
        """Return the record with the evidence added."""
        after = with_feedback(row, feedback, self._view.now)
        cast = list(_list_cases(feedback))
        if self._ctx.key_id is None or not cast:
            return after
        row_id = f"vote-{hash_id([row['id'], self._ctx.actor])}"
        before = self._rows.get(row["id"]) or self._view.get(VOTES, row_id) or {}
        self._rows[row["id"]] = votes = self._add_votes(row_id, row, before, cast)
        return _with_weight(after, _move_weight(_get_weight(row), before, votes))

    def writes(self) -> list[Write]:
        """Return the writes of the votes."""
        return [Write(VOTES, row["id"], row) for row in self._rows.values()]

    def _add_votes(self, row_id: str, row: Row, before: Row, cast: list[str]) -> Row:
        moment = clock.iso(self._view.now)
        earlier = before.get("votes", []) if is_live(before or None) else []
        return {
            "id": row_id,
            "knowledge_id": row["id"],
            "principal": self._ctx.actor,
            "votes": [*earlier, *({"vote": kind, "timestamp": moment} for kind in cast)][-_VOTES_STORED:],
            # Votes have the readers and the editors of their record.
            "scopes": row["scopes"],
            "owner": row["owner"],
            "version": next_version(self._view.get(VOTES, row_id)),
            "created_at": before.get("created_at", moment),
            "updated_at": moment,
        }


def rebuild_confidence(undone: UndoneRow) -> Row:
    """Return the undone record with the confidence that fits its evidence."""
    before, after, row = undone.change.before, undone.change.after, undone.row
    if before is None or all(before["eval"][kind] == after["eval"][kind] for kind in _KINDS):
        return row
    return {**row, "eval": {**row["eval"], "confidence": update_confidence(before["eval"], row["eval"])}}


def rebuild_weight(undone: UndoneRow) -> Row:
    """Return the undone record with the weight of the remaining votes."""
    change, row = undone.change, undone.row
    if "effective" not in row["eval"]:
        return row
    weight = _get_weight(undone.current(COLLECTION, change.id) or row)
    cast = [votes for (name, _), votes in undone.undone.items() if name == VOTES and votes["knowledge_id"] == change.id]
    for votes in cast:
        weight = _move_weight(weight, undone.current(VOTES, votes["id"]) or {}, votes)
    if not cast and change.before is not None and "effective" not in change.before["eval"]:
        # `effective` began with this operation; subtract what the operation added.
        before, after = _get_weight(change.before), _get_weight(change.after)
        weight = {kind: weight[kind] + before[kind] - after[kind] for kind in _KINDS}
    return _with_weight(row, weight) if cast or "effective" not in (change.before or row)["eval"] else row


def rebuild_votes(undone: UndoneRow) -> Row:
    """Return the undone row of a voter: live, without the votes of the undone operation."""
    change, row = undone.change, undone.row
    if change.before is not None:
        return row
    remaining = list(row["votes"])
    for vote in change.after["votes"]:
        if vote in remaining:
            remaining.remove(vote)
    return {**{name: value for name, value in row.items() if name != "deleted"}, "votes": remaining}


def hash_id(parts: Sequence[Any]) -> str:
    """Return a row id for parts that may be long and hold any character, such as session and goal ids."""
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _list_cases(feedback: Feedback) -> dict[str, Mapping[str, Any]]:
    cases = (feedback.helpful_case, feedback.harmful_case)
    return {kind: case for kind, case in zip(_KINDS, cases, strict=True) if case is not None}


def _get_weight(row: Row) -> dict[str, int]:
    counted: Mapping[str, Any] = row["eval"].get("effective") or row["eval"]
    return {kind: counted[kind] for kind in _KINDS}


def _with_weight(row: Row, weight: Mapping[str, int]) -> Row:
    return {**row, "eval": {**row["eval"], "effective": dict(weight)}}


def _move_weight(weight: Mapping[str, int], before: Row, after: Row) -> dict[str, int]:
    return {kind: weight[kind] + _count_last(after, kind) - _count_last(before, kind) for kind in _KINDS}


def _count_last(votes: Row, kind: str) -> int:
    return int(bool(votes.get("votes")) and votes["votes"][-1]["vote"] == kind)
