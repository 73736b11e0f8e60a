"""A reranker's order of what was found; the search's own where it fails (G-25)."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowhub.context.search_model import RetrievedBlock
from knowhub.core.reranking import Reranker, RerankFailed

RERANKER = "reranker"
DEFAULT_BUDGET_S = 3.0


@dataclass(frozen=True, slots=True)
class Reranking:
    """Asks a reranker about the blocks of a search within `budget_s` seconds."""

    reranker: Reranker
    budget_s: float = DEFAULT_BUDGET_S

    async def ordered(self, query: str, blocks: Sequence[RetrievedBlock]) -> list[RetrievedBlock] | None:
        """Return the blocks by how well they answer; None where the reranker fails.

        Equal scores keep the order in which the blocks came, and every block the score of the search.
        """
        try:
            async with asyncio.timeout(self.budget_s):
                scores = await self.reranker.rerank(query, [block.abstract for block in blocks], self.budget_s)
        except (RerankFailed, TimeoutError):
            return None
        if len(scores) != len(blocks) or not all(map(math.isfinite, scores)):
            return None
        ranked = sorted(zip(scores, blocks, strict=True), key=lambda pair: -pair[0])
        return [
            replace(block, match_reason="; ".join(filter(None, [block.match_reason, f"reranked {rank}"])))
            for rank, (_, block) in enumerate(ranked, start=1)
        ]
