"""The ranking of search results: relevance first, moved within bounds by evidence and by age.

1. Relevance is the score of a record by words and meaning, divided by the highest score that the query makes possible.
   It is from 0 to 1, and comparable between queries. If a model ordered the records, it is 1, 0.75, 0.56 … instead.
2. A record below the floor is not about the query. It is left out before the ranking, unless a model picked it.
3. `worth = relevance × evidence × weak evidence × newer` orders the rest. `evidence` is (estimated share of helpful
   votes ÷ mean share of the candidates)², within bounds. No record is hidden by votes.
4. A record about the task of an older one comes before it, whatever votes the older one has: they are of the time
   before. Votes against the newer one leave it where it is, as do several voters for the older one of another owner.
   Equal records share their votes.
5. Among records of nearly equal worth, profiles and then nearer scopes come first, for a caller with a name.

docs/explanation/finding.md explains the figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from knowhub.core import scopes
from knowhub.core.near_duplicates import list_substitutions, normalize_text, shingles
from knowhub.core.operation import Row
from knowhub.core.recall import LEXICAL, StageScore
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.evidence import (
    DEFAULT_HALF_LIFE_DAYS,
    NO_VOTES,
    PRIOR_WEIGHT,
    VoteWeights,
    count_supporters,
    sum_votes,
    weigh_quality,
)
from knowhub.knowledge.model import (
    RERANK,
    ROUTING,
    KnowledgeSummary,
    KnowledgeType,
    Order,
    UnattributedRuns,
    WeighedVote,
)

# The least share of the score that the rarest words of a query could reach. What shares only a common word or character
# with the query has less. Above it, right records are lost where questions are long.
DEFAULT_FLOOR: Final = 0.1
# If not even the nearest record is so near in meaning (0 like unrelated texts, 1 the same), vectors alone find nothing.
MIN_NEAREST: Final = 0.22
# Evidence moves a record past its neighbours: what is half as relevant stays behind.
_POWER: Final = 2
_MIN_EVIDENCE, _MAX_EVIDENCE = 0.7, 1.4
# What a model put first moves by a place, not by two: 1.2 ÷ 0.85 is more than one step of a model and less than two.
_MIN_OF_MODEL, _MAX_OF_MODEL = 0.85, 1.2
# What a run succeeded without says little of a record: many runs move it by a place.
_WEAK_PRIOR: Final = 100.0
_MIN_WEAK, _MAX_WEAK = 0.8, 1.25
# How far a record comes before the older one that it repeats. It is more than what makes two nearly equal, so that a
# nearer scope of the older one does not put that first again.
_LEAD: Final = 1.2
# A newer record is about the same task as an older one if its text has so many of the words of the older one's task,
# and of those words that the question asks for: the product of both shares, ...
_SAME_TASK: Final = 0.65
# ... or if both tasks are the same name of a word or two, ...
_MIN_PAIRS: Final = 3
# ... and if it has so much of the older one's relevance.
_SAME_RELEVANCE: Final = 0.25
# What more people than the owner found helpful stays before a newer record of another owner that nobody vouches for.
_SEVERAL: Final = 2
# So much of a task says what it is about.
_TASK_CHARS: Final = 200
# Records of one import, batch or burst of saves have no order.
_APART_S: Final = 0.5
# The scores of words are no finer than that.
_NEARLY_EQUAL: Final = 0.85
# What a model puts first has relevance 1, and each next one this share of the one before.
_MODEL_STEP: Final = 0.75
_MODEL_STAGES: Final = frozenset({ROUTING, RERANK})
# Votes of one day weigh alike to so many digits.
_WORTH_DIGITS: Final = 6
_POOL_FACTOR, _POOL_LEAST = 2, 12


@dataclass(frozen=True, slots=True)
class RecordHit:
    """A record that may be in the result, with its relevance by words and meaning, and the stages it came by."""

    summary: KnowledgeSummary
    relevance: float = 0.0
    stages: tuple[StageScore, ...] = ()

    @property
    def has_words(self) -> bool:
        """Return whether it shares words with the query."""
        return any(stage.stage == LEXICAL for stage in self.stages)

    @property
    def is_placed_by_model(self) -> bool:
        """Return whether a router or a reranker decided its place."""
        # The stage of a model comes last.
        return bool(self.stages) and self.stages[-1].stage in _MODEL_STAGES


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A hit with what orders it: `worth`, the product of `relevance` and three factors near 1.

    `relevance` is that of the hit, or a share of 1 by the place that a model gave it. `evidence` comes from votes,
    `weak_evidence` from runs that did not say what helped; `newer` raises a record above an older one of its subject.
    """

    hit: RecordHit
    relevance: float
    votes: VoteWeights = NO_VOTES
    evidence: float = 1.0
    weak_evidence: float = 1.0
    newer: float = 1.0

    @property
    def summary(self) -> KnowledgeSummary:
        """Return the summary of the record."""
        return self.hit.summary

    @property
    def worth(self) -> float:
        """Return the figure that orders results."""
        return self.relevance * self.evidence * self.weak_evidence * self.newer


@dataclass(frozen=True, slots=True)
class RankingInputs:
    """What the ranking reads.

    `get_row` returns a record by its id, `match_terms` the terms of a question that a text has. `question` is that of
    the search.
    """

    ctx: RequestContext
    question: str
    order: Order
    top_k: int
    now: float
    get_row: Callable[[str], Row]
    match_terms: Callable[[str, str], Sequence[str]]
    half_life_days: float = DEFAULT_HALF_LIFE_DAYS


def get_pool_size(top_k: int) -> int:
    """Return how many hits the ranking reads."""
    return max(_POOL_FACTOR * top_k, _POOL_LEAST)


def rank_hits(hits: Sequence[RecordHit], inputs: RankingInputs) -> list[RankedHit]:
    """Return the `top_k` hits to show, best first; `hits` come most relevant first."""
    pool = _apply_evidence(_decide_relevance(hits), inputs)
    if inputs.order is Order.RELEVANCE:
        return sorted(pool, key=lambda ranked: -ranked.relevance)[: inputs.top_k]
    if inputs.order is Order.QUALITY:
        return sorted(pool, key=lambda ranked: -weigh_quality(ranked.summary.score, ranked.votes))[: inputs.top_k]
    ordered = sorted(_raise_newer_records(pool, inputs), key=_sort_key)
    if inputs.order is Order.SCOPE:
        return sorted(ordered[: inputs.top_k], key=lambda ranked: _rank_scope(ranked.summary, inputs.ctx))
    return _prefer_near_scopes(ordered, inputs.ctx)[: inputs.top_k]


def _decide_relevance(hits: Sequence[RecordHit]) -> list[RankedHit]:
    """Let a model that ordered hits decide how relevant they are. The others are less relevant than all of these."""
    ranked: list[RankedHit] = []
    step = 1.0
    for hit in hits:
        if hit.is_placed_by_model:
            ranked.append(RankedHit(hit, step))
            step *= _MODEL_STEP
        else:
            ranked.append(RankedHit(hit, min(step, hit.relevance)))
    return ranked


def _apply_evidence(pool: Sequence[RankedHit], inputs: RankingInputs) -> list[RankedHit]:
    """Weigh the hits by their votes, and by the runs that did not say what helped."""
    if not any(ranked.summary.votes or any(ranked.summary.unattributed_runs) for ranked in pool):
        return list(pool)
    votes = _sum_shared_votes(pool, inputs)
    helpful = sum(item.helpful for item in votes.values())
    against = sum(item.harmful + item.passed_over for item in votes.values())
    mean_share = (helpful + PRIOR_WEIGHT / 2) / (helpful + against + PRIOR_WEIGHT)
    all_runs = UnattributedRuns(
        sum(ranked.summary.unattributed_runs.succeeded for ranked in pool),
        sum(ranked.summary.unattributed_runs.failed for ranked in pool),
    )

    def weigh(ranked: RankedHit) -> RankedHit:
        own_votes = votes[ranked.summary.dedup_key]
        evidence = (own_votes.estimate(mean_share) / mean_share) ** _POWER
        if ranked.hit.is_placed_by_model:
            return replace(ranked, votes=own_votes, evidence=_clamp(evidence, _MIN_OF_MODEL, _MAX_OF_MODEL))
        return replace(
            ranked,
            votes=own_votes,
            evidence=_clamp(evidence, _MIN_EVIDENCE, _MAX_EVIDENCE),
            weak_evidence=_clamp(_weigh_runs(ranked.summary.unattributed_runs, all_runs), _MIN_WEAK, _MAX_WEAK),
        )

    return [weigh(ranked) for ranked in pool]


def _sum_shared_votes(pool: Sequence[RankedHit], inputs: RankingInputs) -> dict[bytes, VoteWeights]:
    """Return the weight of the votes by the key of equal records, which share them: a copy does not begin anew."""
    shared: dict[bytes, tuple[WeighedVote, ...]] = {}
    for ranked in pool:
        shared[ranked.summary.dedup_key] = shared.get(ranked.summary.dedup_key, ()) + ranked.summary.votes
    return {key: sum_votes(votes, inputs.now, inputs.half_life_days) for key, votes in shared.items()}


def _weigh_runs(own: UnattributedRuns, all_runs: UnattributedRuns) -> float:
    """Return the estimated share of success in the runs of a record, divided by that in the runs of the others."""
    others = (all_runs.succeeded - own.succeeded + _WEAK_PRIOR / 2) / (sum(all_runs) - sum(own) + _WEAK_PRIOR)
    return (own.succeeded + _WEAK_PRIOR * others) / (sum(own) + _WEAK_PRIOR) / others


def _clamp(value: float, least: float, greatest: float) -> float:
    return min(greatest, max(least, value))


def _raise_newer_records(pool: Sequence[RankedHit], inputs: RankingInputs) -> list[RankedHit]:
    """Raise each record that says the same as an older one that is shown, and would come behind it."""
    # What is not shown needs no record before it.
    best_first = sorted(pool, key=lambda ranked: -ranked.worth)[: inputs.top_k]
    tasks = _TaskComparison(inputs, [ranked.summary.id for ranked in best_first])

    def comes_first(new: RankedHit, old: RankedHit) -> bool:
        # A profile or a nearer scope of the older one would put that first.
        alike = (new.summary.scopes, new.summary.types) == (old.summary.scopes, old.summary.types)
        return new.worth >= (1 if alike else _LEAD) * old.worth

    def must_follow(old: RankedHit, new: RankedHit) -> bool:
        return (
            # Votes against the newer one say that it is not better.
            new.evidence >= 1
            and new.relevance >= _SAME_RELEVANCE * old.relevance
            and new.summary.created_at - old.summary.created_at >= _APART_S
            and not comes_first(new, old)
            and tasks.is_same(new.summary.id, old.summary.id)
            and _may_replace(new.summary, old.summary, inputs)
        )

    def raise_newer(new: RankedHit) -> RankedHit:
        overtaken = next((old for old in best_first if must_follow(old, new)), None)
        return replace(new, newer=_LEAD * overtaken.worth / new.worth) if overtaken else new

    return [raise_newer(ranked) for ranked in pool]


def _may_replace(new: KnowledgeSummary, old: KnowledgeSummary, inputs: RankingInputs) -> bool:
    """Return whether age alone may put a record first: not before what others vouch for, if its owner is another."""
    return (
        new.owner == old.owner
        or count_supporters(inputs.get_row(old.id)) < _SEVERAL
        or count_supporters(inputs.get_row(new.id)) >= _SEVERAL
    )


class _TaskComparison:
    """Compares newer records with the tasks of `older_ids`, by their words and by those that the question asks for.

    Each record is read and each text is analysed once.
    """

    def __init__(self, inputs: RankingInputs, older_ids: Sequence[str]) -> None:
        self._inputs = inputs
        self._older_ids = older_ids
        self._get_row = cache(inputs.get_row)
        self._match = cache(lambda question, text: frozenset(inputs.match_terms(question, text)))
        self._split = cache(shingles)
        self._vocabulary: str | None = None

    def is_same(self, new: str, old: str) -> bool:
        """Return whether a newer record is about the same task as an older one. Both are given by their ids."""
        new_task, old_task = self._get_task(new), self._get_task(old)
        if min(len(self._split(new_task)), len(self._split(old_task))) < _MIN_PAIRS:
            contents = (str(self._get_row(item)["content"]) for item in (old, new))
            old_asked, new_asked = (self._match(self._inputs.question, content) for content in contents)
            return normalize_text(new_task) == normalize_text(old_task) and old_asked <= new_asked
        words, new_words = self._list_words(old_task), self._list_words(self._get_text(new))
        asked = self._match(self._inputs.question, old_task)
        missing = asked - new_words
        kept = 1 - len(missing) / max(1, len(asked))
        if not words or kept * len(words & new_words) < _SAME_TASK * len(words):
            return False
        # «to staging» in the place of «to production» is about something else, if the question asks for production.
        return not missing or not any(
            missing & self._match(self._inputs.question, before) for before, _ in list_substitutions(old_task, new_task)
        )

    def _list_words(self, text: str) -> frozenset[str]:
        """Return the words of the question and of the older tasks that a text has."""
        # One question for all texts is analysed once.
        if self._vocabulary is None:
            self._vocabulary = "\n".join((self._inputs.question, *map(self._get_task, self._older_ids)))
        return self._match(self._vocabulary, text)

    def _get_text(self, row_id: str) -> str:
        row = self._get_row(row_id)
        return f"{row['task']}\n{row['content']}"

    def _get_task(self, row_id: str) -> str:
        row = self._get_row(row_id)
        return str(row["task"] or row["content"])[:_TASK_CHARS]


def _sort_key(ranked: RankedHit) -> tuple[float, float, str]:
    """Put the worthiest first, and of equals the newest: by what every process knows alike."""
    return -round(ranked.worth, _WORTH_DIGITS), -ranked.summary.created_at, ranked.summary.id


def _prefer_near_scopes(ordered: Sequence[RankedHit], ctx: RequestContext) -> list[RankedHit]:
    """Put profiles and near scopes first within each run of nearly equal worth."""
    if ctx.sees_everything:
        return list(ordered)
    groups: list[list[RankedHit]] = []
    for ranked in ordered:
        if groups and ranked.worth >= _NEARLY_EQUAL * groups[-1][0].worth:
            groups[-1].append(ranked)
        else:
            groups.append([ranked])

    def rank(ranked: RankedHit) -> tuple[bool, int]:
        return KnowledgeType.USER_PROFILE not in ranked.summary.types, _rank_scope(ranked.summary, ctx)

    return [ranked for group in groups for ranked in sorted(group, key=rank)]


def _rank_scope(summary: KnowledgeSummary, ctx: RequestContext) -> int:
    return scopes.rank(summary.scopes, summary.owner, ctx.visible)
