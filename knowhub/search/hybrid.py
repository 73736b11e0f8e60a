"""Recall by words and by meaning together: a weighted sum of what both say, each on a scale from 0 to 1."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic

from knowhub.core.embedding import EmbeddingFailed
from knowhub.core.recall import LEXICAL, VECTOR, Hit, Part, Recalled
from knowhub.search.analysis import query_terms
from knowhub.search.following import HeadT
from knowhub.search.lexical import LexicalIndex
from knowhub.search.query_vectors import QueryVectors
from knowhub.search.scripts import Reading
from knowhub.search.vector_index import VectorIndex

EMBEDDER: Final = "embedder"
# Each side proposes so many: what is deeper down than this in one comes up by the other or not at all.
_PROPOSED: Final = 100
_LEAST_SCALE: Final = 1e-6
# Of the way from strangers to the nearest: what is found by its meaning alone must have come so far.
_NEAR: Final = 0.5


class HybridIndex(Generic[HeadT]):
    """Implements `KnowledgeIndex` and `ContextIndex`. `weight` is the vectors' share where the query is read well."""

    def __init__(
        self, lexical: LexicalIndex[HeadT], vectors: VectorIndex[HeadT], queries: QueryVectors, weight: float
    ) -> None:
        self._lexical = lexical
        self._vectors = vectors
        self._queries = queries
        self._weight = weight

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[HeadT], bool],
        limit: int,
    ) -> Recalled[HeadT]:
        """See `KnowledgeIndex.search`. Where the embedder fails, words alone decide, and `degraded` says so."""
        if not query_terms(text):
            return await self._lexical.search(account, text, groups, accept, limit)
        asking = asyncio.create_task(self._queries.of(text), name="embedding a query")
        many = max(limit, _PROPOSED)
        try:
            words = await self._lexical.search(account, text, groups, accept, many)
            await asyncio.wait([asking])
        finally:
            asking.cancel()
        lag = max(words.index_lag, self._vectors.account(account).lag)
        try:
            query = asking.result()
        except EmbeddingFailed:
            return Recalled(words.hits[:limit], lag, [EMBEDDER])
        if query is None:
            return Recalled(words.hits[:limit], lag)
        if not self._vectors.fits(account, query.vector):
            self._queries.forget(text)
            return Recalled(words.hits[:limit], lag, [EMBEDDER])
        near = await self._vectors.search(account, query.vector, groups, accept, many)
        # What only words have found is compared too: it must not stand behind for want of a number.
        heads = [*(hit.head for hit in words.hits), *(head for _, head in near)]
        likeness = self._vectors.compared(account, query.vector, heads)
        near = [(value, head) for value, head in near if head.text_num in likeness]
        return Recalled(fused(words.hits, near, likeness, query.reading, self._weight)[:limit], lag)

    def matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of a query that stand in any of `fields`."""
        return self._lexical.matched_terms(text, *fields)


def fused(
    words: Sequence[Hit[HeadT]],
    near: Sequence[tuple[float, HeadT]],
    likeness: Mapping[int, float],
    reading: Reading,
    weight: float,
) -> list[Hit[HeadT]]:
    """Order what was found by words and what is near, best first; `likeness` is by the number of a record's text.

    Words count from 0 to the best hit's score, likeness from that of strangers to that of the nearest: so neither an
    embedder to which everything is alike nor a long query shifts the balance. A record without a vector, or with one
    that has no meaning, counts by its words alone. What only vectors propose is left out where it does not stand out
    from strangers, or is far behind the nearest: something is always nearest.
    """
    share = weight * reading.skill
    best_score = max((hit.relevance for hit in words), default=1.0)
    nearest = max(likeness.values(), default=reading.strangers)
    scale = max(nearest - reading.strangers, _LEAST_SCALE)
    floor = reading.strangers + max(reading.spread, _NEAR * scale)
    heads = {head.id: head for head in (*(hit.head for hit in words), *(head for _, head in near))}
    by_words = {hit.head.id: hit.relevance / best_score for hit in words}
    hits = []
    for head in heads.values():
        said = by_words.get(head.id)
        like = likeness.get(head.text_num)
        if said is None and (like is None or like < floor):
            continue
        said = said or 0.0
        meant = said if like is None else min(1.0, max(0.0, (like - reading.strangers) / scale))
        hits.append(Hit(head, (1 - share) * said + share * meant))
    parts = _parts(words, near)
    hits.sort(key=lambda hit: (-hit.relevance, -hit.head.text_num))
    return [replace(hit, parts=tuple(parts[hit.head.id])) for hit in hits]


def _parts(words: Sequence[Hit[HeadT]], near: Sequence[tuple[float, HeadT]]) -> Mapping[str, Sequence[Part]]:
    parts: defaultdict[str, list[Part]] = defaultdict(list)
    for rank, hit in enumerate(words, start=1):
        parts[hit.head.id].append(Part(LEXICAL, rank, hit.relevance))
    for rank, (value, head) in enumerate(near, start=1):
        parts[head.id].append(Part(VECTOR, rank, value))
    return parts
