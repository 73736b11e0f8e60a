"""The vector of a query, within its time: kept for the next who asks the same, and none where it would mislead."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np

from knowhub.core.chat import FailureReason
from knowhub.core.embedding import Embedder, EmbeddingFailed
from knowhub.search.scripts import Literacy, Reading, is_blank
from knowhub.search.vectors import Matrix

_KEPT: Final = 1_000
# Nobody asks twice in so many words.
_KEPT_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector, and how well the embedder reads the script of the query."""

    vector: Matrix
    reading: Reading


class QueryVectors:
    """Asks the embedder about queries; `budget_s` is how long one may wait."""

    def __init__(self, embedder: Embedder, literacy: Literacy, budget_s: float) -> None:
        self._embedder = embedder
        self._budget_s = budget_s
        self._literacy = literacy
        self._kept: OrderedDict[str, QueryVector | None] = OrderedDict()

    async def of(self, text: str) -> QueryVector | None:
        """Return a query's vector; None where the embedder cannot read it. Raises EmbeddingFailed."""
        if text in self._kept:
            self._kept.move_to_end(text)
            return self._kept[text]
        try:
            found = await asyncio.wait_for(self._asked(text), self._budget_s)
        except TimeoutError as problem:
            raise EmbeddingFailed(FailureReason.TIMEOUT, f"no answer within {self._budget_s} s") from problem
        if len(text) <= _KEPT_CHARS:
            self._kept[text] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def forget(self, text: str) -> None:
        """Ask again the next time: what the embedder said of a query no longer fits the records' vectors."""
        self._kept.pop(text, None)

    async def _asked(self, text: str) -> QueryVector | None:
        reading = await self._literacy.reading(text)
        if not reading.skill:
            return None
        vectors = await self._embedder.embed([text], self._budget_s, query=True)
        if is_blank(vectors[0]):
            raise EmbeddingFailed(FailureReason.FAILURE, "it answered zeros")
        return QueryVector(np.array(vectors[0], dtype=np.float32), reading)
