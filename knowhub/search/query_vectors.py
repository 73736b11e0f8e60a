"""The vector of a query, with a time limit and a cache."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np

from knowhub.core.language_models import Embedder, EmbeddingFailed, FailureReason
from knowhub.search.scripts import ScriptSkill, ScriptSkills, is_zero
from knowhub.search.vectors import Matrix

_KEPT: Final = 1_000
# Longer queries are not cached.
_KEPT_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector of a query, and the embedder's skill in its script."""

    vector: Matrix
    reading: ScriptSkill


class QueryVectors:
    """Embeds queries; `budget_s` limits the wait."""

    def __init__(self, embedder: Embedder, literacy: ScriptSkills, budget_s: float) -> None:
        self._embedder = embedder
        self._budget_s = budget_s
        self._literacy = literacy
        self._kept: OrderedDict[str, QueryVector | None] = OrderedDict()

    async def get(self, text: str) -> QueryVector | None:
        """Return the vector of a query; None if the embedder cannot read it. Raises EmbeddingFailed."""
        if text in self._kept:
            self._kept.move_to_end(text)
            return self._kept[text]
        try:
            found = await asyncio.wait_for(self._embed(text), self._budget_s)
        except TimeoutError as problem:
            raise EmbeddingFailed(FailureReason.TIMEOUT, f"no answer within {self._budget_s} s") from problem
        if len(text) <= _KEPT_CHARS:
            self._kept[text] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    async def get_skill(self, text: str) -> ScriptSkill:
        """Return the skill of the embedder in the scripts of a text. Raises EmbeddingFailed."""
        return await self._literacy.get_skill(text)

    def remove(self, text: str) -> None:
        """Forget a cached vector, because its dimensions no longer fit."""
        self._kept.pop(text, None)

    async def _embed(self, text: str) -> QueryVector | None:
        reading = await self._literacy.get_skill(text)
        if not reading.skill:
            return None
        vectors = await self._embedder.embed([text], self._budget_s, query=True)
        if is_zero(vectors[0]):
            raise EmbeddingFailed(FailureReason.FAILURE, "it answered zeros")
        return QueryVector(np.array(vectors[0], dtype=np.float32), reading)
