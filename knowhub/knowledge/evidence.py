"""Evidence on a record: its counters, its histories and its votes.

Counters and histories keep everything that was said. What ranks is bounded: `eval.votes` holds the newest votes, a
voter counts once for each goal, votes without a goal count less each time, and each new vote makes the older ones weigh
less, by as much as it weighs itself. From others, no voter takes more by many goals than by votes without a goal.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from knowhub.core import clock
from knowhub.core.collection import UndoneRow
from knowhub.core.operation import Row, next_of
from knowhub.knowledge.model import HISTORY_SHOWN, KNOWLEDGE, Feedback, WeighedVote

KINDS: Final = ("helpful", "harmful")
FRESH_HELPFUL: Final = 1
# All votes together weigh less than ten, so that the fortieth before the last weighs next to nothing.
VOTE_DECAY: Final = 0.9
VOTES_STORED: Final = 40
MAX_PENDING_FEEDBACK: Final = 20
# As many votes as pull the share of helpful ones halfway from what is expected to what was seen.
PRIOR_WEIGHT: Final = 5.0
DEFAULT_HALF_LIFE_DAYS: Final = 365.0
DOWNVOTED_WARNING: Final = "those who used it said that it is wrong or does not help: check it before you rely on it"
_REPEATED_SHARE: Final = 0.5
# What the votes of one voter without a goal weigh at most: 1 + 0.5 + 0.25 ... Votes for goals have this limit only
# where they meet votes of others: who votes alone learns from each goal.
_VOTER_LIMIT: Final = 2.0
# Each contrary vote of others takes this much from the weight of a voter, down to the limit. All votes of a voter weigh
# less than ten, so two contrary votes are always enough to reach the limit.
_DISSENT: Final = 4.0
# The last votes of a voter: the ones before the last count when it is undone, or where no goal was named.
_VOTES_PER_VOTER: Final = 5
_SIGNED_CHARS: Final = 12
_CONFIDENCE_DIGITS: Final = 6
_DAY_S: Final = 86_400.0


class VoteKind(StrEnum):
    """What a vote says. `withdrawn` takes back what its voter said for its goal, `restored` all that they said."""

    HELPFUL = "helpful"
    HARMFUL = "harmful"
    PASSED_OVER = "passed_over"
    WITHDRAWN = "withdrawn"
    RESTORED = "restored"


# A stored vote, and what it counts.
_VoteWeight = tuple[Mapping[str, Any], float]
# Such a vote says only that others do not count.
_SILENT: Final = frozenset({VoteKind.WITHDRAWN, VoteKind.RESTORED})


class VoteWeights(NamedTuple):
    """How much the votes on a record weigh together at one moment, by what they say."""

    helpful: float = 0.0
    harmful: float = 0.0
    passed_over: float = 0.0

    def estimate(self, mean: float) -> float:
        """Return the expected share of helpful votes; `mean` for a record without votes. Passed over counts against."""
        against = self.harmful + self.passed_over
        return (self.helpful + PRIOR_WEIGHT * mean) / (self.helpful + against + PRIOR_WEIGHT)


NO_VOTES: Final = VoteWeights()


@dataclass(frozen=True, slots=True)
class Voter:
    """Who votes, and for which goal. A voter without an id is a new one each time.

    `record_id` is the record for which the vote was given, if it was merged into another one since.
    """

    id: str | None = None
    goal: str | None = None
    record_id: str | None = None

    def sign(self, row_id: str) -> dict[str, str]:
        """Return the fields of a vote that tell voters of one record apart. Its readers cannot see who they are."""
        named = {"voter": self.id, "goal": self.goal}
        signed = self.record_id or row_id
        return {name: hash_id([signed, value])[:_SIGNED_CHARS] for name, value in named.items() if value is not None}


def hash_id(parts: Sequence[Any]) -> str:
    """Return a row id for parts that may be long and hold any character, such as session and goal ids."""
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def compute_quality(score: int, helpful: float, harmful: float) -> float:
    """Return `score + helpful - 2 * harmful`."""
    return score + helpful - harmful * 2.0


def weigh_quality(score: int, votes: VoteWeights) -> float:
    """Return the quality of a record by the votes that rank, so that nobody moves it by repetition."""
    return compute_quality(score, FRESH_HELPFUL + votes.helpful, votes.harmful)


def is_downvoted(score: int, votes: VoteWeights) -> bool:
    """Return whether the votes that rank speak against a record. It is still found, with a warning."""
    return weigh_quality(score, votes) < 0


def weigh_votes(evaluation: Mapping[str, Any]) -> tuple[WeighedVote, ...]:
    """Return the votes that count, newest first, with their weight before age is considered."""
    if "votes" not in evaluation and evaluation["helpful"] <= FRESH_HELPFUL and not evaluation["harmful"]:
        return ()
    weighed: list[WeighedVote] = []
    for vote, weight in _limit_voters(_weigh_by_order(_list_shares(list_votes(evaluation)))):
        moment = vote.get("timestamp")
        weighed.append(WeighedVote(vote["kind"], weight, None if moment is None else clock.parse_iso(moment)))
    return tuple(weighed)


def _list_shares(votes: Sequence[Mapping[str, Any]]) -> list[_VoteWeight]:
    """Return the votes that count, newest first, each with its share of a vote."""
    counted: list[_VoteWeight] = []
    # How often each voter voted for each goal in the votes that are newer than the one at hand, and who took back all
    # that they had said.
    newer_votes: dict[tuple[str, str | None], int] = {}
    restorers: set[str] = set()
    for vote in reversed(votes):
        share, voter = 1.0, vote.get("voter")
        if voter is not None:
            if vote["kind"] == VoteKind.RESTORED:
                restorers.add(voter)
            if voter in restorers:
                continue
            voter_and_goal = (voter, vote.get("goal"))
            repeats = newer_votes.get(voter_and_goal, 0)
            newer_votes[voter_and_goal] = repeats + 1
            # For a goal the last word counts. Votes without a goal count less each time.
            if repeats and vote.get("goal") is not None:
                continue
            share = _REPEATED_SHARE**repeats
        if vote["kind"] not in _SILENT:
            counted.append((vote, share))
    return counted


def _weigh_by_order(shares: Sequence[_VoteWeight]) -> list[_VoteWeight]:
    """Return the votes with the weight that the newer ones leave them; a voter takes a limited part from others."""
    weighed: list[_VoteWeight] = []
    newer_of_all, newer_of_voter = 0.0, dict[str, float]()
    for vote, share in shares:
        voter = vote.get("voter")
        own = 0.0 if voter is None else newer_of_voter.get(voter, 0.0)
        newer_of_others = newer_of_all - min(own, _VOTER_LIMIT)
        weighed.append((vote, share * VOTE_DECAY ** (own + newer_of_others)))
        newer_of_all = newer_of_others + min(own + share, _VOTER_LIMIT)
        if voter is not None:
            newer_of_voter[voter] = own + share
    return weighed


def _limit_voters(weighed: Sequence[_VoteWeight]) -> list[_VoteWeight]:
    """Return the votes with the weight that the dissent of others leaves them."""
    # A voter without an id is a new one each time.
    voters = [vote.get("voter") or position for position, (vote, _) in enumerate(weighed)]
    sides = [vote["kind"] == VoteKind.HELPFUL for vote, _ in weighed]
    sums: dict[tuple[str | int, bool], float] = {}
    for voter, side, (_, weight) in zip(voters, sides, weighed, strict=True):
        sums[voter, side] = sums.get((voter, side), 0.0) + weight

    def get_factor(voter: str | int, side: bool) -> float:  # noqa: FBT001 -- one of two sides
        own = sums[voter, side]
        if own <= _VOTER_LIMIT:
            return 1.0
        others = (min(total, _VOTER_LIMIT) for key, total in sums.items() if key[0] != voter and key[1] != side)
        return max(_VOTER_LIMIT, own - _DISSENT * sum(others)) / own

    factors = {key: get_factor(*key) for key in sums}
    return [
        (vote, weight * factors[voter, side])
        for voter, side, (vote, weight) in zip(voters, sides, weighed, strict=True)
    ]


def sum_votes(votes: Sequence[WeighedVote], now: float, half_life_days: float = DEFAULT_HALF_LIFE_DAYS) -> VoteWeights:
    """Return what votes weigh at `now`. After `half_life_days` a vote weighs half; one without a time does not age."""
    sums = dict.fromkeys((VoteKind.HELPFUL, VoteKind.HARMFUL, VoteKind.PASSED_OVER), 0.0)
    for kind, weight, time in votes:
        age_days = 0.0 if time is None else max(0.0, now - time) / _DAY_S
        sums[VoteKind(kind)] += weight * 0.5 ** (age_days / half_life_days)
    return VoteWeights(*sums.values())


def compute_confidence(evaluation: Mapping[str, Any], now: float) -> float:
    """Return how likely a record is right by its votes: 0.5 without votes. To be passed over says nothing."""
    return sum_votes(weigh_votes(evaluation), now)._replace(passed_over=0.0).estimate(0.5)


def count_supporters(row: Row) -> int:
    """Return how many voters found a record helpful with their last word for a goal; its owner is left out."""
    owner = Voter(row["owner"]).sign(row["id"])["voter"]
    votes = list_votes(row["eval"])
    last_words = {(vote.get("voter"), vote.get("goal")): vote["kind"] for vote in votes if "voter" in vote}
    named = {voter for (voter, _), kind in last_words.items() if kind == VoteKind.HELPFUL} - {owner}
    unnamed = [vote for vote in votes if "voter" not in vote and vote["kind"] == VoteKind.HELPFUL]
    return len(named) + len(unnamed)


def list_votes(evaluation: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the stored votes. A record of an earlier version or an import has counters and cases: each is a vote."""
    if "votes" in evaluation:
        votes: Sequence[Mapping[str, Any]] = evaluation["votes"]
        return votes
    found: list[Mapping[str, Any]] = []
    for kind, fresh in zip(KINDS, (FRESH_HELPFUL, 0), strict=True):
        cases = [{"kind": kind, "timestamp": case.get("timestamp")} for case in evaluation[f"{kind}_history"]]
        unknown = min(VOTES_STORED, evaluation[kind] - fresh - len(cases))
        found += [{"kind": kind}] * unknown + cases
    return sorted(found, key=lambda vote: vote.get("timestamp") or "")[-VOTES_STORED:]


def with_feedback(row: Row, feedback: Feedback, now: float, voter: Voter | None = None) -> Row:
    """Return `row` with evidence added. Histories hold the last 50 cases; the log has all."""
    evaluation = dict(row["eval"])
    given = zip(KINDS, (feedback.helpful_case, feedback.harmful_case), strict=True)
    cases = {kind: case for kind, case in given if case is not None}
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


def with_unattributed_run(row: Row, result: str, change: int, now: float) -> Row:
    """Return `row` with one more, or one less, run of this result that showed it and did not say what helped."""
    runs = {"success": 0, "failure": 0} | (row["eval"].get("weak") or {})
    runs[result] = max(0, runs[result] + change)
    return next_of({**row, "eval": {**row["eval"], "weak": runs}}, row, now)


def list_pending_feedback(row: Row) -> list[str]:
    """Return the feedback in words that no model has used yet, oldest first."""
    return list(row["eval"].get("kept_words", ()))


def with_pending_feedback(row: Row, words: Sequence[str], before: Row, now: float) -> Row:
    """Return `row` with these words kept for a model to come, the newest 20. `before` is the stored row."""
    kept = replace_pending_feedback(row, words)
    return row if kept["eval"] == row["eval"] else next_of(kept, before, now)


def replace_pending_feedback(row: Row, words: Sequence[str]) -> Row:
    """Return `row` with these words kept, without a change of its version."""
    evaluation = {name: value for name, value in row["eval"].items() if name != "kept_words"}
    if words:
        evaluation["kept_words"] = list(words[-MAX_PENDING_FEEDBACK:])
    return {**row, "eval": evaluation}


def update_confidence(before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> float:
    """Move the confidence as the evidence moved. An imported figure keeps its offset and stays within 0 and 1."""
    old, new = compute_confidence(before, now), compute_confidence(after, now)
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


def rebuild_pending_feedback(undone: UndoneRow) -> Row:
    """Return the undone record without the words that the operation brought.

    Words that it used do not come back: whoever undoes a rewrite does not want it again.
    """
    before, after = undone.change.before, undone.change.after
    brought = set(list_pending_feedback(after)) - set(list_pending_feedback(before) if before else ())
    current = undone.current(KNOWLEDGE, undone.row["id"])
    kept = [words for words in (list_pending_feedback(current) if current else ()) if words not in brought]
    return replace_pending_feedback(undone.row, kept)


def trim_votes(votes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the votes that are stored, in their order: who has the most of them loses their oldest."""
    kept = list(votes)
    while len(kept) > VOTES_STORED:
        counts = Counter(vote.get("voter") for vote in kept)
        del counts[None]
        most = max(counts.values(), default=1)
        kept.remove(next(vote for vote in kept if counts.get(vote.get("voter"), 1) == most))
    return kept


def _with_votes(row: Row, evaluation: dict[str, Any], kinds: Sequence[VoteKind], now: float, voter: Voter) -> Row:
    if kinds:
        votes = list_votes(row["eval"])
        for kind in kinds:
            votes = _add_vote(votes, {"kind": kind.value, **voter.sign(row["id"]), "timestamp": clock.iso(now)})
        # Earlier versions kept the weight of the votes here.
        evaluation.pop("effective", None)
        evaluation["votes"] = trim_votes(votes)
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
