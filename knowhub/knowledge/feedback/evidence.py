"""Evidence on a record: its counters and histories, which keep everything that was said, its votes and its quality."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from knowhub.core import clock
from knowhub.core.collection import UndoneRow
from knowhub.core.operation import Row, next_of
from knowhub.knowledge.model import HISTORY_SHOWN, KNOWLEDGE, Feedback, KnowledgeSummary
from knowhub.knowledge.votes import KINDS, VOTES_STORED, VoteKind, confidence, list_votes

# The last votes of a voter: the ones before the last count when it is undone, or where no goal was named.
_VOTES_PER_VOTER: Final = 5
_SIGNED_CHARS: Final = 12
_CONFIDENCE_DIGITS: Final = 6
MAX_KEPT_WORDS: Final = 20


@dataclass(frozen=True, slots=True)
class Voter:
    """Who votes, and for which goal. A voter without an id is a new one each time."""

    id: str | None = None
    goal: str | None = None

    def sign(self, row_id: str) -> dict[str, str]:
        """Return the fields of a vote that tell voters of one record apart. Its readers cannot see who they are."""
        named = {"voter": self.id, "goal": self.goal}
        return {name: hash_id([row_id, value])[:_SIGNED_CHARS] for name, value in named.items() if value is not None}


def quality(score: int, helpful: int, harmful: int) -> float:
    """Return `score + helpful - 2 * harmful`."""
    return score + helpful - harmful * 2.0


def summary_quality(summary: KnowledgeSummary) -> float:
    """Return the quality of a record by its summary: everything that was said counts."""
    return quality(summary.score, summary.helpful, summary.harmful)


def with_feedback(row: Row, feedback: Feedback, now: float, voter: Voter | None = None) -> Row:
    """Return `row` with evidence added. Histories hold the last 50 cases; the log has all."""
    evaluation = dict(row["eval"])
    cases = _list_cases(feedback)
    for kind, case in cases.items():
        evaluation[kind] += 1
        dated = {**case, "timestamp": case.get("timestamp") or clock.iso(now)}
        evaluation[f"{kind}_history"] = [*evaluation[f"{kind}_history"], dated][-HISTORY_SHOWN:]
    if feedback.score is not None:
        evaluation["score"] = feedback.score
    return _with_votes(row, evaluation, [VoteKind(kind) for kind in cases], now, voter or Voter())


def with_vote(row: Row, kind: VoteKind, now: float, voter: Voter) -> Row:
    """Return `row` with a vote that ranks it and that the counters and histories do not show."""
    return _with_votes(row, dict(row["eval"]), [kind], now, voter)


def with_weak_evidence(row: Row, now: float, *, has_succeeded: bool) -> Row:
    """Return `row` counted as shown in a run without a word on what helped."""
    before = row["eval"].get("weak") or {"success": 0, "failure": 0}
    weak = {
        "success": before["success"] + int(has_succeeded),
        "failure": before["failure"] + int(not has_succeeded),
    }
    return next_of({**row, "eval": {**row["eval"], "weak": weak}}, row, now)


def list_kept_words(row: Row) -> list[str]:
    """Return the feedback in words that no model has used yet, oldest first."""
    return list(row["eval"].get("kept_words", ()))


def with_kept_words(row: Row, words: Sequence[str], before: Row, now: float) -> Row:
    """Return `row` with these words kept for a model to come, the newest 20. `before` is the stored row."""
    kept = replace_kept_words(row, words)
    return row if kept["eval"] == row["eval"] else next_of(kept, before, now)


def replace_kept_words(row: Row, words: Sequence[str]) -> Row:
    """Return `row` with these words kept, without a change of its version."""
    evaluation = {name: value for name, value in row["eval"].items() if name != "kept_words"}
    if words:
        evaluation["kept_words"] = list(words[-MAX_KEPT_WORDS:])
    return {**row, "eval": evaluation}


def update_confidence(before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> float:
    """Move the confidence as the evidence moved. An imported figure keeps its offset and stays within 0 and 1."""
    old, new = confidence(before, now), confidence(after, now)
    current = float(before["confidence"])
    if new > old:
        current += (1 - current) * (new - old) / (1 - old)
    elif new < old:
        current *= new / old
    else:
        return current
    return round(current, _CONFIDENCE_DIGITS)


def rebuild_confidence(undone: UndoneRow) -> Row:
    """Return the undone record with the confidence that fits its evidence."""
    before, after, row = undone.change.before, undone.change.after, undone.row
    if before is None or list_votes(before["eval"]) == list_votes(after["eval"]):
        return row
    now = clock.parse_iso(row["updated_at"])
    return {**row, "eval": {**row["eval"], "confidence": update_confidence(before["eval"], row["eval"], now)}}


def rebuild_kept_words(undone: UndoneRow) -> Row:
    """Return the undone record without the words that the operation brought.

    Words that it used do not come back: whoever undoes a rewrite does not want it again.
    """
    before, after = undone.change.before, undone.change.after
    brought = set(list_kept_words(after)) - set(list_kept_words(before) if before else ())
    current = undone.current(KNOWLEDGE, undone.row["id"])
    kept = [words for words in (list_kept_words(current) if current else ()) if words not in brought]
    return replace_kept_words(undone.row, kept)


def hash_id(parts: Sequence[Any]) -> str:
    """Return a row id for parts that may be long and hold any character, such as session and goal ids."""
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _with_votes(row: Row, evaluation: dict[str, Any], kinds: Sequence[VoteKind], now: float, voter: Voter) -> Row:
    if kinds:
        votes = list_votes(row["eval"])
        for kind in kinds:
            votes = _add_vote(votes, {"kind": kind.value, **voter.sign(row["id"]), "timestamp": clock.iso(now)})
        # Earlier versions kept the weight of the votes here.
        evaluation.pop("effective", None)
        evaluation["votes"] = votes[-VOTES_STORED:]
        evaluation["confidence"] = update_confidence(row["eval"], evaluation, now)
    if evaluation == row["eval"]:
        return row
    return next_of({**row, "eval": evaluation}, row, now)


def _add_vote(votes: Sequence[Mapping[str, Any]], vote: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Append a vote. The oldest vote of the same voter for the same goal makes room: nobody crowds out the others."""
    voter, goal = vote.get("voter"), vote.get("goal")
    same = [item for item in votes if (item.get("voter"), item.get("goal")) == (voter, goal)]
    excess = same[0] if voter is not None and len(same) >= _VOTES_PER_VOTER else None
    return [*(item for item in votes if item is not excess), vote]


def _list_cases(feedback: Feedback) -> dict[str, Mapping[str, Any]]:
    cases = (feedback.helpful_case, feedback.harmful_case)
    return {kind: case for kind, case in zip(KINDS, cases, strict=True) if case is not None}
