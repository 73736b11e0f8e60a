"""A reranker's order of what was recalled; recall's own where it fails (G-25)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowhub.core.recall import Hit, Part
from knowhub.core.reranking import Reranker, ranked_places
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
        found = await ranked_places(self.reranker, query, texts, self.budget_s)
        if found is None:
            return None
        return [
            replace(hits[place], parts=(*hits[place].parts, Part(RERANK, rank, score)))
            for rank, (place, score) in enumerate(found, 1)
        ]
