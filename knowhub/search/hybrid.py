"""Hybrid search: a weighted sum of lexical and vector scores, each scaled from 0 to 1."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic

import numpy as np

from knowhub.core.language_models import EmbeddingFailed, FailureReason
from knowhub.core.recall import LEXICAL, VECTOR, SearchHit, SearchHits, StageScore
from knowhub.search.analysis import query_terms
from knowhub.search.lexical import LexicalIndex
from knowhub.search.monitored_embedder import MonitoredEmbedder
from knowhub.search.scripts import ScriptSkill, ScriptSkills, is_zero
from knowhub.search.texts import SearchableT
from knowhub.search.vector_index import VectorIndex
from knowhub.search.vectors import Matrix

EMBEDDER: Final = "embedder"
# So many hits by words, and by vectors, are combined.
_HITS_PER_SIDE: Final = 100
_MIN_SCALE: Final = 1e-6
# A vector-only result must be at least this near, between unrelated texts (0) and the nearest (1).
_NEAR: Final = 0.5
# The share of the score of words that a vector must reach. Texts of equal meaning are seldom very near.
_SUFFICIENT_SHARE: Final = 0.8
# Two products of the same vectors differ beyond so many digits.
_SCORE_DIGITS: Final = 6
_CACHED: Final = 1_000
# A call may take so many times as long as a search waits: its vector is cached for the next search.
_PATIENCE: Final = 2.0
# Longer queries are not cached.
_CACHED_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector of a query, and the embedder's skill in its script."""

    vector: Matrix
    script_skill: ScriptSkill


class QueryVectors:
    """Embeds queries, and remembers their vectors; `budget_s` limits the wait.

    The searches of a request, which come one after another, share one call for their query, and wait for it once.
    """

    def __init__(self, embedder: MonitoredEmbedder, skills: ScriptSkills, budget_s: float) -> None:
        self.embedder = embedder
        self._budget_s = budget_s
        self.skills = skills
        self._cache: OrderedDict[str, QueryVector | None] = OrderedDict()
        # With the time at which nobody waits any longer.
        self._running: dict[str, tuple[asyncio.Task[QueryVector | None], float]] = {}

    async def get(self, text: str) -> QueryVector | None:
        """Return the vector of a query; None if the embedder cannot read it. Raises EmbeddingFailed."""
        self.embedder.check_in_use()
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        now = asyncio.get_running_loop().time()
        if text not in self._running:
            task = asyncio.create_task(self._embed(text), name="embedding a shared query")
            task.add_done_callback(lambda _: self._running.pop(text))
            self._running[text] = task, now + self._budget_s
        running, deadline = self._running[text]
        try:
            return await asyncio.wait_for(asyncio.shield(running), deadline - now)
        except TimeoutError as problem:
            detail = f"no answer within {self._budget_s:g} s"
            self.embedder.last_failure = detail
            raise EmbeddingFailed(FailureReason.TIMEOUT, detail) from problem

    async def close(self) -> None:
        """Give up what is being embedded."""
        running = [task for task, _ in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def remove(self, text: str) -> None:
        """Forget a cached vector, because its dimensions no longer fit."""
        self._cache.pop(text, None)

    async def _embed(self, text: str) -> QueryVector | None:
        script_skill = await self.skills.get_skill(text)
        found = None
        if script_skill.skill:
            vectors = await self.embedder.embed([text], _PATIENCE * self._budget_s, query=True)
            if is_zero(vectors[0]):
                self.embedder.last_failure = "it answered zeros"
                raise EmbeddingFailed(FailureReason.FAILURE, self.embedder.last_failure)
            found = QueryVector(np.array(vectors[0], dtype=np.float32), script_skill)
        if len(text) <= _CACHED_CHARS:
            self._cache[text] = found
            while len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return found


class HybridIndex(Generic[SearchableT]):
    """Implements the index ports of knowledge, memories and the tree.

    `get_vector_weight` returns the share of vectors in the score of a row.
    """

    def __init__(
        self,
        lexical: LexicalIndex[SearchableT],
        vectors: VectorIndex[SearchableT],
        queries: QueryVectors,
        get_vector_weight: Callable[[SearchableT], float],
    ) -> None:
        self._lexical = lexical
        self._vectors = vectors
        self._queries = queries
        self._get_vector_weight = get_vector_weight

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[SearchableT], bool],
        limit: int,
    ) -> SearchHits[SearchableT]:
        """See `SearchIndex.search`. If the embedder fails, the search is lexical and `degraded` says so."""
        if not query_terms(text):
            return await self._lexical.search(account, text, groups, accept, limit)
        query_task = asyncio.create_task(self._queries.get(text), name="embedding a query")
        side_limit = max(limit, _HITS_PER_SIDE)
        try:
            words = await self._lexical.search(account, text, groups, accept, side_limit)
            await asyncio.wait([query_task])
        finally:
            query_task.cancel()
        vectors = self._vectors.account(account)
        lag = max(words.index_lag, vectors.lag)
        query, degraded = None, list(words.degraded)
        try:
            query = query_task.result()
        except EmbeddingFailed:
            degraded.append(EMBEDDER)
        if query is not None and not self._vectors.can_compare(account, query.vector):
            self._queries.remove(text)
            query = None
            degraded.append(EMBEDDER)
        if query is None:
            return replace(words, hits=words.hits[:limit], index_lag=lag, degraded=degraded)
        accepted = {hit.summary.id for hit in words.hits}
        similarities = await vectors.compare(query.vector, groups)
        near = await vectors.find_best(
            similarities, lambda summary: summary.id in accepted or accept(summary), side_limit
        )
        # Lexical results are compared with the query too.
        similarity_of = similarities.get_by_number(
            summary.text_change for summary in (*(hit.summary for hit in words.hits), *(summary for _, summary in near))
        )
        hits = combine_results(words.hits, near, similarity_of, query.script_skill, self._get_vector_weight, limit)
        nearest = _get_nearest(similarity_of, query.script_skill)
        by_words = words.get_relevance(words.hits[0]) if words.hits else 0.0
        # The best hit has about 1. How far a perfect one is above it, the better of words and vectors says.
        max_score = 1 / max(by_words, nearest, _MIN_SCALE)
        sufficient_score = _SUFFICIENT_SHARE * max_score * words.sufficient_score / words.max_score
        return SearchHits(hits, lag, words.degraded, max_score, sufficient_score, nearest)

    async def find_similar(
        self,
        account: str,
        summary: SearchableT,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[SearchableT], bool],
        limit: int,
    ) -> list[tuple[float, SearchableT]]:
        """Return the rows whose vectors are nearest to that of a row with this text, each with its similarity.

        It is 0 between unrelated texts and 1 for the same. Nothing is found for a row without a vector, and in
        scripts that the embedder does not read.
        """
        index = self._vectors.account(account)
        own = None if index.vectors is None else index.vectors.get(summary.text_change)
        try:
            script_skill = await self._queries.skills.get_skill(text)
        except EmbeddingFailed:
            return []
        if own is None or not script_skill.skill:
            return []
        near = await index.find_best(await index.compare(own, groups), accept, limit)
        return [
            ((value - script_skill.unrelated_similarity) / (1 - script_skill.unrelated_similarity), row)
            for value, row in near
        ]

    def list_matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of a query that occur in `fields`."""
        return self._lexical.list_matched_terms(text, *fields)


def combine_results(
    words: Sequence[SearchHit[SearchableT]],
    near: Sequence[tuple[float, SearchableT]],
    similarity_of: Mapping[int, float],
    script_skill: ScriptSkill,
    get_vector_weight: Callable[[SearchableT], float],
    limit: int,
) -> list[SearchHit[SearchableT]]:
    """Return the `limit` best results by their combined score.

    `similarity_of` has the similarity of rows to the query, by the number of the change that wrote their text.
    Lexical scores are scaled by the best one, similarities from that of unrelated texts to the nearest. A record
    without a vector is scored by words only. A record found only by its vector is left out if it is not much nearer
    than unrelated texts, or far behind the nearest.
    """
    best_score = max((hit.score for hit in words), default=1.0)
    nearest = max(similarity_of.values(), default=script_skill.unrelated_similarity)
    scale = max(nearest - script_skill.unrelated_similarity, _MIN_SCALE)
    floor = script_skill.unrelated_similarity + max(script_skill.spread, _NEAR * scale)
    summaries = {
        summary.id: summary for summary in (*(hit.summary for hit in words), *(summary for _, summary in near))
    }
    by_words = {hit.summary.id: (rank, hit.score) for rank, hit in enumerate(words, start=1)}
    by_vector = {summary.id: (rank, value) for rank, (value, summary) in enumerate(near, start=1)}
    scored = []
    for summary in summaries.values():
        similarity = similarity_of.get(summary.text_change)
        if summary.id not in by_words and (similarity is None or similarity < floor):
            continue
        lexical = by_words[summary.id][1] / best_score if summary.id in by_words else 0.0
        if similarity is None:
            semantic = lexical
        else:
            semantic = min(1.0, max(0.0, (similarity - script_skill.unrelated_similarity) / scale))
        share = get_vector_weight(summary) * script_skill.skill
        scored.append(((1 - share) * lexical + share * semantic, summary))
    scored.sort(key=lambda item: (-round(item[0], _SCORE_DIGITS), -item[1].text_change))
    stages = ((LEXICAL, by_words), (VECTOR, by_vector))
    return [
        SearchHit(
            summary,
            score,
            tuple(StageScore(stage, *found[summary.id]) for stage, found in stages if summary.id in found),
        )
        for score, summary in scored[:limit]
    ]


def _get_nearest(similarity_of: Mapping[int, float], script_skill: ScriptSkill) -> float:
    """Return the best similarity on a scale from that of unrelated texts, 0, to that of the same text, 1."""
    best = max(similarity_of.values(), default=script_skill.unrelated_similarity)
    return (best - script_skill.unrelated_similarity) / (1 - script_skill.unrelated_similarity)
