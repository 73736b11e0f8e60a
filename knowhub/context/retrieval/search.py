"""Search of memories: plan, retrieve, rerank, assemble."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from knowhub.context.ports import ContextIndex
from knowhub.context.retrieval.blocks import make_blocks
from knowhub.context.retrieval.hierarchical_searcher import rank_memories
from knowhub.context.retrieval.seeds import Seeds, find_seeds, plan_query
from knowhub.context.search_model import MemoryLimits, MemorySearchResult, RetrievedBlock, TypedQuery
from knowhub.context.times import list_range_marks, parse_time_after
from knowhub.core.clock import Clock
from knowhub.core.language_models import Reranker, rank_texts
from knowhub.core.operation import Store
from knowhub.core.recall import StageScore, get_visible_lag
from knowhub.core.request_context import RequestContext

RERANKER = "reranker"
DEFAULT_BUDGET_S = 3.0


# The reranker reads this many times `top_k` results.
_RERANKED: Final = 3
_MAX_RERANKED: Final = 50
_RELEVANCE_DIGITS: Final = 4


class MemorySearch:
    """Answers a question from L0 texts alone: no overview and no content is opened.

    A reranker, where there is one, orders the results within `rerank_budget_s` seconds.
    """

    def __init__(
        self,
        store: Store,
        index: ContextIndex,
        clock: Clock,
        reranker: Reranker | None = None,
        rerank_budget_s: float = DEFAULT_BUDGET_S,
    ) -> None:
        self._store = store
        self._index = index
        self._clock = clock
        self._reranker = reranker
        self._rerank_budget_s = rerank_budget_s

    async def search(
        self,
        ctx: RequestContext,
        query: str,
        target_uri: str | None = None,
        categories: Sequence[str] | None = None,
        top_k: int = 10,
        limits: MemoryLimits | None = None,
    ) -> MemorySearchResult:
        """Return the best blocks for a question, best first, among what the caller sees. Raises InvalidInput.

        With `limits.explain` each block has its `why`.
        """
        limits = limits or MemoryLimits()
        plan = plan_query(ctx.account, query, target_uri, categories, top_k, now=self._clock.now())
        asked = replace(plan, limits=limits)
        seeds = await self._find_seeds(asked, ctx)
        if seeds.persons:
            asked = replace(asked, hints={**asked.hints, "persons": sorted(seeds.persons)})
        max_hits = top_k if self._reranker is None else max(top_k, min(_MAX_RERANKED, _RERANKED * top_k))
        looked_for = replace(asked, top_k=max_hits)
        view = self._store.view(ctx.account)
        hits = rank_memories(view, self._index, looked_for, seeds, ctx)
        found = make_blocks(view, self._index, looked_for, hits, ctx)
        shares = [replace(block, relevance=_get_relevance(block.score, seeds)) for block in found]
        blocks = [block for block in shares if block.relevance >= limits.min_relevance]
        degraded = list(seeds.found.degraded)
        if self._reranker is not None and blocks:
            texts = [block.abstract for block in blocks]
            ranked = await rank_texts(self._reranker, asked.text, texts, self._rerank_budget_s)
            degraded += [RERANKER] if ranked is None else []
            blocks = [
                _add_rank_reason(blocks[index], rank) for rank, (index, _) in enumerate(ranked or (), 1)
            ] or blocks
        if limits.explain:
            stages = {hit.summary.uri: hit.stages for hit in seeds.found.hits}
            blocks = [replace(block, why=explain_block(block, stages.get(block.uri, ()))) for block in blocks]
        return MemorySearchResult(
            query_plan=[asked],
            seed_hits=seeds.list_hits(top_k),
            blocks=blocks[:top_k],
            total=min(len(blocks), top_k),
            index_lag=get_visible_lag(ctx, seeds.found.index_lag),
            degraded=degraded,
            max_score=seeds.found.max_score,
            sufficient_score=seeds.found.sufficient_score,
            preferences=[summary.uri for summary in seeds.preferences],
        )

    async def _find_seeds(self, asked: TypedQuery, ctx: RequestContext) -> Seeds:
        """Find the seeds of a question; where it counts from something that happened, find out first when that was."""
        after = parse_time_after(asked.text) if "after" in asked.hints else None
        if after is not None:
            event = replace(asked, text=after.event, hints={}, top_k=1)
            seeds = await find_seeds(self._index, event, ctx)
            found = rank_memories(self._store.view(ctx.account), self._index, event, seeds, ctx)
            moment = found[0].summary.occurred_at if found else None
            then = after.resolve(moment) if moment is not None else None
            if then is not None:
                hints = {**asked.hints, "days": list_range_marks(then)}
                seeds = await find_seeds(self._index, replace(asked, text=after.rest, hints=hints), ctx)
                if seeds.found.hits:
                    return seeds
        return await find_seeds(self._index, asked, ctx)


def explain_block(block: RetrievedBlock, stages: Sequence[StageScore] = ()) -> dict[str, Any]:
    """Return by which stages a block was found, with rank and score, and what was done to its place afterwards.

    A block without stages was not found itself: it belongs to what was.
    """
    return {"stages": [asdict(stage) for stage in stages], "rules": list(filter(None, block.match_reason.split("; ")))}


def _add_rank_reason(block: RetrievedBlock, rank: int) -> RetrievedBlock:
    return replace(block, match_reason="; ".join(filter(None, [block.match_reason, f"reranked {rank}"])))


def _get_relevance(score: float, seeds: Seeds) -> float:
    """Return the relevance of a block: its score, 1 for the best of this search, as a share of a perfect match."""
    return round(min(1.0, score * seeds.best_share), _RELEVANCE_DIGITS)
