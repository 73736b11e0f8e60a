"""A reranker's order of what was found; the search's own where it fails (G-25)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowhub.context.search_model import RetrievedBlock
from knowhub.core.reranking import Reranker, ranked_places

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
        found = await ranked_places(self.reranker, query, [block.abstract for block in blocks], self.budget_s)
        if found is None:
            return None
        ranked = enumerate((blocks[place] for place, _ in found), start=1)
        return [
            replace(block, match_reason="; ".join(filter(None, [block.match_reason, f"reranked {rank}"])))
            for rank, block in ranked
        ]
