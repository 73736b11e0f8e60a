"""What reads a question and its candidates together and says how well each answers; rerankers are adapters (CE-169)."""

import asyncio
import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from knowhub.core.chat import FailureReason, Usage


class RerankFailed(Exception):
    """The reranker gave no usable scores: it is down, late, or it answered something else."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Reranker(Protocol):
    """A model that scores texts by how well they answer a query."""

    @property
    def model(self) -> str:
        """Its name, for whoever wants to know why an order is as it is."""

    async def rerank(self, query: str, texts: Sequence[str], timeout_s: float) -> Sequence[float]:
        """Return one score for each text, in their order, within `timeout_s`, retries included; more is better.

        Scores compare the texts of one call, and nothing else: their scale is the model's own. Raises RerankFailed,
        and nothing else, whatever the model or its server does.
        """


@runtime_checkable
class CountedReranker(Reranker, Protocol):
    """A reranker that tells what it was asked and whether it is left alone at present; not every one does."""

    @property
    def is_open(self) -> bool:
        """Whether calls are refused without asking, because the reranker has failed again and again."""

    @property
    def usage(self) -> Usage:
        """What was asked up to now; calls that were refused without asking count as failures."""


async def ranked_places(
    reranker: Reranker, query: str, texts: Sequence[str], budget_s: float
) -> list[tuple[int, float]] | None:
    """Return the place of each text with its score, the best first; None where the reranker fails (G-25).

    Equal scores keep the order in which the texts came.
    """
    try:
        async with asyncio.timeout(budget_s):
            scores = await reranker.rerank(query, texts, budget_s)
    except (RerankFailed, TimeoutError):
        return None
    if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
        return None
    return sorted(enumerate(scores), key=lambda pair: -pair[1])
