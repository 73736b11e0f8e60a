"""The votes that rank a record: which of them count, and how much they weigh together.

What ranks is bounded: `eval.votes` holds the newest votes, a voter counts once for each goal, votes without a goal
count less each time, and each new vote makes the older ones weigh less.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from knowhub.core import clock
from knowhub.knowledge.model import WeighedVote

KINDS: Final = ("helpful", "harmful")
FRESH_HELPFUL: Final = 1
# All votes together weigh less than ten, so that the fortieth before the last weighs next to nothing.
VOTE_DECAY: Final = 0.9
VOTES_STORED: Final = 40
_REPEATED_SHARE: Final = 0.5
# As many votes as pull the share of helpful ones halfway from what is expected to what was seen.
PRIOR_WEIGHT: Final = 5.0
_NEUTRAL: Final = 0.5
DEFAULT_HALF_LIFE_DAYS: Final = 365.0
_DAY_S: Final = 86_400.0


class VoteKind(StrEnum):
    """What a vote says. `restored` ends the effect of the votes before it."""

    HELPFUL = "helpful"
    HARMFUL = "harmful"
    PASSED_OVER = "passed_over"
    RESTORED = "restored"


class Evidence(NamedTuple):
    """How much the votes on a record weigh at one moment."""

    helpful: float = 0.0
    harmful: float = 0.0
    passed_over: float = 0.0

    def estimate(self, mean: float = _NEUTRAL) -> float:
        """Return the expected share of helpful votes; `mean` for a record without votes. Passed over counts against."""
        against = self.harmful + self.passed_over
        return (self.helpful + PRIOR_WEIGHT * mean) / (self.helpful + against + PRIOR_WEIGHT)

    @property
    def confidence(self) -> float:
        """Return how likely it is that the record is right: 0.5 without votes. To be passed over says nothing."""
        return Evidence(self.helpful, self.harmful).estimate()


NO_EVIDENCE: Final = Evidence()


def is_sunk(score: int, found: Evidence) -> bool:
    """Return whether the bounded evidence speaks against a record. It is still found, with a warning."""
    return score + FRESH_HELPFUL + found.helpful - 2 * found.harmful < 0


def weigh_votes(evaluation: Mapping[str, Any]) -> tuple[WeighedVote, ...]:
    """Return the votes that count, newest first, with their weight before age is considered."""
    if "votes" not in evaluation and evaluation["helpful"] <= FRESH_HELPFUL and not evaluation["harmful"]:
        return ()
    counted: list[WeighedVote] = []
    seen: dict[tuple[str, str | None], int] = {}
    for vote in reversed(list_votes(evaluation)):
        if vote["kind"] == VoteKind.RESTORED:
            break
        share, voter = 1.0, vote.get("voter")
        if voter is not None:
            key = (voter, vote.get("goal"))
            repeats = seen[key] = seen.get(key, -1) + 1
            if repeats and key[1] is not None:
                continue
            share = _REPEATED_SHARE**repeats
        moment = vote.get("timestamp")
        time = None if moment is None else clock.parse_iso(moment)
        counted.append(WeighedVote(vote["kind"], share * VOTE_DECAY ** len(counted), time))
    return tuple(counted)


def sum_votes(votes: Sequence[WeighedVote], now: float, half_life_days: float = DEFAULT_HALF_LIFE_DAYS) -> Evidence:
    """Return what votes weigh at `now`. After `half_life_days` a vote weighs half; one without a time does not age."""
    sums = dict.fromkeys((VoteKind.HELPFUL, VoteKind.HARMFUL, VoteKind.PASSED_OVER), 0.0)
    for kind, weight, time in votes:
        age_days = 0.0 if time is None else max(0.0, now - time) / _DAY_S
        sums[VoteKind(kind)] += weight * 0.5 ** (age_days / half_life_days)
    return Evidence(*sums.values())


def merge_votes(evaluations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the votes of several records as those of one, by time; votes without a time come first."""
    votes = [vote for evaluation in evaluations for vote in list_votes(evaluation)]
    return sorted(votes, key=lambda vote: vote.get("timestamp") or "")[-VOTES_STORED:]


def confidence(evaluation: Mapping[str, Any], now: float) -> float:
    """Return the confidence that the votes on a record give it."""
    return sum_votes(weigh_votes(evaluation), now).confidence


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
