"""Search of memories: plan, retrieve, rerank, assemble."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from knowhub.context.ports import ContextIndex
from knowhub.context.retrieval.assembler import RetrievalAssembler
from knowhub.context.retrieval.hierarchical_searcher import HierarchicalSearcher
from knowhub.context.retrieval.l0_retriever import L0Retriever, Seeds
from knowhub.context.retrieval.query_planner import QueryPlanner
from knowhub.context.search_model import MemoryLimits, MemorySearchResult, RetrievedBlock, TypedQuery
from knowhub.context.times import time_after
from knowhub.core.clock import Clock
from knowhub.core.language_models import Reranker, rank_texts
from knowhub.core.operation import Store
from knowhub.core.recall import LEXICAL, StageScore, get_visible_lag
from knowhub.core.request_context import RequestContext

RERANKER = "reranker"
DEFAULT_BUDGET_S = 3.0


@dataclass(frozen=True, slots=True)
class MemoryReranking:
    """Asks a reranker about the blocks of a search within `budget_s` seconds."""

    reranker: Reranker
    budget_s: float = DEFAULT_BUDGET_S

    async def rerank_blocks(self, query: str, blocks: Sequence[RetrievedBlock]) -> list[RetrievedBlock] | None:
        """Return the blocks by how well they answer; None where the reranker fails.

        Equal scores keep the order in which the blocks came, and every block the score of the search.
        """
        found = await rank_texts(self.reranker, query, [block.abstract for block in blocks], self.budget_s)
        if found is None:
            return None
        ranked = enumerate((blocks[place] for place, _ in found), start=1)
        return [
            replace(block, match_reason="; ".join(filter(None, [block.match_reason, f"reranked {rank}"])))
            for rank, block in ranked
        ]


# The reranker reads this many times `top_k` results.
_RERANKED: Final = 3
_MOST_RERANKED: Final = 50
_RELEVANCE_DIGITS: Final = 4


class MemorySearch:
    """Answers a question from L0 texts alone: no overview and no content is opened."""

    def __init__(
        self, store: Store, index: ContextIndex, clock: Clock, reranking: MemoryReranking | None = None
    ) -> None:
        self._clock = clock
        self._planner = QueryPlanner()
        self._retriever = L0Retriever(index)
        self._searcher = HierarchicalSearcher(store, index)
        self._assembler = RetrievalAssembler(store, index)
        self._reranking = reranking

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
        named = {"target_uri": target_uri, "categories": categories, "top_k": top_k}
        plan = self._planner.plan(query, hints=named, ctx=ctx, now=self._clock.now())
        limits = limits or MemoryLimits()
        asked = replace(plan[0], limits=limits)
        seeds = await self._seeds(asked, ctx)
        if seeds.persons:
            asked = replace(asked, hints={**asked.hints, "persons": list(seeds.persons)})
        looked_for = asked
        if self._reranking is not None:
            looked_for = replace(asked, top_k=max(top_k, min(_MOST_RERANKED, _RERANKED * top_k)))
        hits = self._searcher.expand(looked_for, seeds, ctx)
        found = self._assembler.assemble(looked_for, hits, ctx)
        shares = [replace(block, relevance=_share(block.score, seeds)) for block in found]
        blocks = [block for block in shares if block.relevance >= limits.min_relevance]
        degraded = list(seeds.degraded)
        if self._reranking is not None and blocks:
            ordered = await self._reranking.rerank_blocks(asked.text, blocks)
            if ordered is None:
                degraded.append(RERANKER)
            blocks = ordered or blocks
        if limits.explain:
            # Where nothing has a vector, words alone found it.
            stages = {
                hit.head.uri: hit.parts or (StageScore(LEXICAL, rank, hit.relevance),)
                for rank, hit in enumerate(seeds.hits, start=1)
            }
            blocks = [replace(block, why=explain_block(block, stages.get(block.uri, ()))) for block in blocks]
        return MemorySearchResult(
            query_plan=[asked],
            seed_hits=seeds.list_hits(top_k),
            blocks=blocks[:top_k],
            total=min(len(blocks), top_k),
            index_lag=get_visible_lag(ctx, seeds.index_lag),
            degraded=degraded,
            reach=seeds.reach,
            enough=seeds.enough,
        )

    async def _seeds(self, asked: TypedQuery, ctx: RequestContext) -> Seeds:
        """Find the seeds of a question; where it counts from something that happened, find out first when that was."""
        after = time_after(asked.text) if "after" in asked.hints else None
        if after is None:
            return await self._retriever.search(asked, ctx)
        event = replace(asked, text=after.event, hints={}, top_k=1)
        found = self._searcher.expand(event, await self._retriever.search(event, ctx), ctx)
        moment = self._searcher.get_hit_time(found[0], ctx) if found else None
        then = after.resolve(moment) if moment is not None else None
        if then is None:
            return await self._retriever.search(asked, ctx)
        hints = {**asked.hints, "days": then.marks()}
        seeds = await self._retriever.search(replace(asked, text=after.rest, hints=hints), ctx)
        return seeds if seeds.hits else await self._retriever.search(asked, ctx)


def explain_block(block: RetrievedBlock, stages: Sequence[StageScore] = ()) -> dict[str, Any]:
    """Return by which stages a block was found, with rank and score, and what was done to its place afterwards.

    A block without stages was not found itself: it belongs to what was.
    """
    return {"stages": [asdict(stage) for stage in stages], "rules": list(filter(None, block.match_reason.split("; ")))}


def _share(score: float, seeds: Seeds) -> float:
    """Return the score of a block, 1 for the best match of this search, as a share of what a perfect match has."""
    return round(min(1.0, score * seeds.best_share), _RELEVANCE_DIGITS)
