"""Search, from a question to ordered results, and the profile of the caller.

1. The index recalls records with a score. Filters (`SearchFilter`) are applied there. The score as a share of the
   highest one that the question allows is the relevance (`SearchHits.get_relevance`).
2. A router may pick among them; if none does, what is below the floor is left out. Then a reranker may order them
   (`HitPool`).
3. Relevance, votes, runs and age order them (`ranking.rank_hits`), and the best `top_k` remain.
4. A budget of tokens may leave out more. What is answered is recorded as shown, for the outcome of the goal.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from knowhub.core import scopes
from knowhub.core.clock import Clock
from knowhub.core.operation import HistoryStore
from knowhub.core.recall import SearchHits, get_visible_lag
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import table
from knowhub.knowledge.evidence import (
    DEFAULT_HALF_LIFE_DAYS,
    DOWNVOTED_WARNING,
    compute_quality,
    is_downvoted,
    sum_votes,
)
from knowhub.knowledge.impressions import ImpressionLog, ImpressionScope
from knowhub.knowledge.model import (
    RECORD_FIELDS,
    KnowledgeSearchResult,
    KnowledgeSummary,
    KnowledgeType,
    ListQuery,
    SearchQuery,
)
from knowhub.knowledge.ports import KnowledgeIndex
from knowhub.knowledge.search import ranking
from knowhub.knowledge.search.filters import OVER_BUDGET, SearchFilter
from knowhub.knowledge.search.ranking import RankedHit, RankingInputs, RecordHit
from knowhub.knowledge.search.routing import HitPool, KnowledgeReranking, Router
from knowhub.knowledge.table import list_records
from knowhub.knowledge.visibility import render_record_json

_FIELDS: Final = [item.name for item in RECORD_FIELDS if item.is_found]
_EVAL_FIELDS: Final = ("score", "helpful", "harmful", "confidence")
# The beginning of a record says what it is about; a long one must not hold up the search.
_MATCHED_CHARS: Final = 1_000
_SCORE_DIGITS: Final = 4
_PROFILE_CANDIDATES: Final = 1_000
_ANY_SCORE: Final = 1
_ELLIPSIS: Final = "…"
_CHARS_PER_TOKEN: Final = 4
# Scripts from here on are written without spaces, or a character is a syllable: each character is about a token.
_WIDE_FROM: Final = "\u1100"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What a search needs beside the records and their index.

    `floor` is the share of the sufficient score below which a record is not about the query (`SearchHits.get_floor`),
    `half_life_days` the age at which a vote weighs half.
    """

    impressions: ImpressionLog
    router: Router | None = None
    reranking: KnowledgeReranking | None = None
    floor: float = ranking.DEFAULT_FLOOR
    half_life_days: float = DEFAULT_HALF_LIFE_DAYS


class KnowledgeRetrieval:
    """Searches the records that the caller sees. Without any model the result is exact arithmetic."""

    def __init__(self, store: HistoryStore, index: KnowledgeIndex, clock: Clock, options: SearchOptions) -> None:
        self._store = store
        self._index = index
        self._clock = clock
        self._options = options

    async def search(self, ctx: RequestContext, query: SearchQuery) -> KnowledgeSearchResult:
        """Return the best `top_k` records: fewer only if fewer match, or if the token budget ends before.

        A model that fails is named in `degraded`; the search goes on without it.
        """
        await self._store.refresh(ctx.account)
        scope, impressions = ImpressionScope(query.session_id, query.goal_id), self._options.impressions
        known = impressions.list_shown(ctx, scope) if scope.is_named else {}
        now = self._clock.now()
        as_of, skipped_ids = now if query.as_of is None else query.as_of, frozenset(known if query.unseen else ())
        rules = SearchFilter(self._store.view(ctx.account), ctx, query, as_of, skipped_ids)
        recalled = await self._recall(rules)
        pool = await self._select(rules, recalled)
        ranked = _apply_budget(rules, ranking.rank_hits(pool.hits, self._make_inputs(rules, now)))
        records = [self._render(rules, hit) for hit in ranked]
        ids = [hit.summary.id for hit in ranked]
        if scope.is_named:
            tags = impressions.tag_ids(ctx, scope, ids)
            records = [{**record, "shown": record["id"] in known, "tag": tags.get(record["id"])} for record in records]
            impressions.record(ctx, scope, ids)
        return KnowledgeSearchResult(
            records,
            get_visible_lag(ctx, recalled.index_lag),
            rules.explain() if query.explain else None,
            [*recalled.degraded, *pool.degraded],
            None if query.budget_tokens is None else sum(map(_count_tokens, records)),
            pool.routed,
            pool.dropped,
        )

    async def _recall(self, rules: SearchFilter) -> SearchHits[KnowledgeSummary]:
        """Return the best hits by words and meaning: as many as the ranking and the models read."""
        router, reranking = self._options.router, self._options.reranking
        read_by_models = (router.max_candidates if router else 0, reranking.max_records if reranking else 0)
        limit = max(ranking.get_pool_size(rules.query.top_k), *read_by_models)
        return await self._index.search(rules.ctx.account, rules.query.text, rules.make_groups(), rules.accept, limit)

    async def _select(self, rules: SearchFilter, recalled: SearchHits[KnowledgeSummary]) -> HitPool:
        """Return the hits that are about the question, by the floor or by a model."""
        query, router, reranking = rules.query, self._options.router, self._options.reranking
        is_relevant = self._make_relevance_test(query, recalled)
        hits = [RecordHit(hit.summary, recalled.get_relevance(hit), hit.stages) for hit in recalled.hits]
        pool = HitPool(rules, hits)
        if router is not None and query.asks_models:
            await pool.route(router, is_relevant)
        # A model needs no floor to leave out what does not fit. What the caller asks for holds for its picks too.
        if pool.routed is None or query.min_relevance is not None:
            pool.drop_irrelevant(is_relevant)
        if reranking is not None and query.asks_models:
            await pool.rerank(reranking)
        return pool

    def _make_relevance_test(
        self, query: SearchQuery, recalled: SearchHits[KnowledgeSummary]
    ) -> Callable[[RecordHit], bool]:
        """Return the function that says whether a hit is relevant enough to be shown."""
        least = query.min_relevance
        if least is not None:
            return lambda hit: hit.relevance >= least
        share = self._options.floor if query.floor is None else query.floor
        floor, is_any_near = recalled.get_floor(share), recalled.nearest >= ranking.MIN_NEAREST
        return lambda hit: hit.relevance >= floor and (is_any_near or hit.has_words)

    def _make_inputs(self, rules: SearchFilter, now: float) -> RankingInputs:
        query = rules.query

        def match_terms(question: str, text: str) -> Sequence[str]:
            return self._index.list_matched_terms(question, text[:_MATCHED_CHARS])

        return RankingInputs(
            rules.ctx,
            query.text,
            query.order,
            query.top_k,
            now,
            rules.get_row,
            match_terms,
            self._options.half_life_days,
        )

    def _render(self, rules: SearchFilter, hit: RankedHit) -> Mapping[str, Any]:
        query, row = rules.query, rules.get_row(hit.summary.id)
        record = {name: row[name] for name in _FIELDS}
        votes = {"helpful": round(hit.votes.helpful, 2), "harmful": round(hit.votes.harmful, 2)}
        record["eval"] = {**{name: row["eval"][name] for name in _EVAL_FIELDS}, "effective": votes}
        record["quality_score"] = _count_quality(hit.summary)
        record["relevance"] = round(min(1.0, hit.relevance), _SCORE_DIGITS)
        if is_downvoted(hit.summary.score, hit.votes):
            record["warning"] = DOWNVOTED_WARNING
        if query.budget_tokens is not None:
            task = truncate_to(row["task"], query.budget_tokens)
            content = truncate_to(row["content"], query.budget_tokens - estimate_tokens(task))
            is_truncated = (task, content) != (row["task"], row["content"])
            record |= {"task": task, "content": content, "truncated": is_truncated}
        if query.explain:
            tags = " ".join(f"{name} {value}" for name, value in row["tags"].items())
            matched = self._index.list_matched_terms(query.text, row["task"], row["content"], tags)
            record["why"] = _explain_hit(rules, hit, matched)
        return record

    async def list_profile(self, ctx: RequestContext, limit: int) -> list[bytes]:
        """Return the profile that an agent loads when it starts, as JSON text: by confidence, then helpful votes.

        These are up to `limit` of the newest 1,000 profile records. A named caller gets those of their user and agent:
        not what others share about themselves, and not what only an admin sees. The local principal gets all.
        """
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        now = self._clock.now()
        rules = SearchFilter(view, ctx, SearchQuery("", min_score=_ANY_SCORE), now)
        filters = table.make_filters({"types": [KnowledgeType.USER_PROFILE]})
        if not ctx.is_root:
            filters.append(scopes.visibility_facets(ctx.own))
        found = [item for item in list_records(view, ListQuery(filters, _PROFILE_CANDIDATES)) if rules.accept(item)]

        def rank(summary: KnowledgeSummary) -> tuple[float, float]:
            return -rules.get_row(summary.id)["eval"]["confidence"], -sum_votes(summary.votes, now).helpful

        return [render_record_json(view, ctx, summary) for summary in sorted(found, key=rank)[:limit]]


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text. The error is usually below a fifth, rarely a half (docs/explanation/finding.md).

    Four ASCII characters are one token, as is each Han, kana or Hangul character or emoji; other characters are half a
    token. Each run of one kind is rounded up.
    """
    if text.isascii():
        return math.ceil(len(text) / _CHARS_PER_TOKEN)
    return sum(math.ceil(sum(1 for _ in run) * cost) for cost, run in groupby(text, key=_estimate_char))


def truncate_to(text: str, tokens: int) -> str:
    """Return the longest beginning of a text that costs at most `tokens`; a truncated text ends in an ellipsis."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle] + _ELLIPSIS) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low] + _ELLIPSIS if low else ""


def select_within(costs: Sequence[int], budget: int) -> list[int]:
    """Return the positions of the items that fit the budget, earlier ones first. The first item always fits."""
    selected, left = [], budget
    for position, cost in enumerate(costs):
        if cost <= left or not position:
            selected.append(position)
            left -= cost
    return selected


def _apply_budget(rules: SearchFilter, selected: Sequence[RankedHit]) -> Sequence[RankedHit]:
    """Return the hits whose texts fit the token budget together, better ones first; always the best one."""
    if rules.query.budget_tokens is None:
        return selected
    costs = [_count_tokens(rules.get_row(hit.summary.id)) for hit in selected]
    fitting = select_within(costs, rules.query.budget_tokens)
    for position in set(range(len(selected))).difference(fitting):
        rules.drop(selected[position].summary.id, OVER_BUDGET)
    return [selected[position] for position in fitting]


def _count_tokens(texts: Mapping[str, Any]) -> int:
    return estimate_tokens(texts["task"]) + estimate_tokens(texts["content"])


def _estimate_char(char: str) -> float:
    if char.isascii():
        return 1 / _CHARS_PER_TOKEN
    return 1.0 if char >= _WIDE_FROM else 0.5


def _count_quality(summary: KnowledgeSummary) -> float:
    """Return the quality of a record by its counters: everything that was said counts."""
    return compute_quality(summary.score, summary.helpful, summary.harmful)


def _explain_hit(rules: SearchFilter, ranked: RankedHit, matched: Sequence[str]) -> dict[str, Any]:
    """Return why a record is in the result: its stages, its evidence, and the scope by which the caller sees it."""
    summary, visible = ranked.summary, rules.ctx.visible
    stages = [
        {
            "stage": stage.stage,
            "rank": stage.rank,
            "score": None if stage.score is None else round(stage.score, _SCORE_DIGITS),
        }
        for stage in ranked.hit.stages
    ]
    factors = {
        "relevance": ranked.relevance,
        "evidence": ranked.evidence,
        "weak": ranked.weak_evidence,
        "newer": ranked.newer,
    }
    return {
        "recall": {**stages[0], "matched": matched},
        "stages": stages,
        "ranking": {
            **{name: round(value, _SCORE_DIGITS) for name, value in factors.items()},
            "formula": "relevance * evidence * weak * newer",
            "worth": round(ranked.worth, _SCORE_DIGITS),
        },
        "quality": {
            "score": summary.score,
            "helpful": summary.helpful,
            "harmful": summary.harmful,
            "formula": "score + helpful - 2.0*harmful",
            "quality_score": _count_quality(summary),
        },
        "scope": {
            "seen_by": scopes.best(summary.scopes, summary.owner, visible),
            "rank": scopes.rank(summary.scopes, summary.owner, visible),
        },
        "order": rules.query.order.value,
    }
