"""A reranker's order of what was recalled; recall's own where it fails (G-25)."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowhub.core.recall import Hit, Part
from knowhub.core.reranking import Reranker, RerankFailed
from knowhub.knowledge.model import RERANK, Head

DEFAULT_BUDGET_S = 3.0
DEFAULT_CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class Reranking:
    """Asks a reranker within `budget_s` seconds, about `most` records at once."""

    reranker: Reranker
    budget_s: float = DEFAULT_BUDGET_S
    most: int = DEFAULT_CANDIDATES

    async def ordered(self, query: str, hits: Sequence[Hit[Head]], texts: Sequence[str]) -> list[Hit[Head]] | None:
        """Return the hits, whose texts these are, by how well they answer; None where the reranker fails.

        Equal scores keep the order in which the hits came.
        """
        try:
            async with asyncio.timeout(self.budget_s):
                scores = await self.reranker.rerank(query, texts, self.budget_s)
        except (RerankFailed, TimeoutError):
            return None
        if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
            return None
        ranked = sorted(zip(scores, hits, strict=True), key=lambda pair: -pair[0])
        return [
            replace(hit, parts=(*hit.parts, Part(RERANK, rank, score))) for rank, (score, hit) in enumerate(ranked, 1)
        ]
