"""Records whose text is nearly the same as another record's."""

from typing import TypeAlias

from knowhub.core.clock import CooperativePause
from knowhub.core.near_duplicates import (
    MIN_SIMILARITY,
    differ_in_length,
    digest,
    jaccard,
    make_similarity_query,
    shingles,
)
from knowhub.core.operation import HistoryStore
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.evolve.slim_plan import join_text
from knowhub.knowledge.model import KNOWLEDGE, KnowledgeSummary
from knowhub.knowledge.ports import KnowledgeIndex
from knowhub.knowledge.table import find_record, limit_to_visible

MAX_SHOWN = 10
MAX_CACHED = 10_000
_CANDIDATES = 20
_QUERY_CHARS = 40
_Request: TypeAlias = tuple[str, frozenset[str] | None]
"""The id of a record, and the scopes that the caller sees."""


class SimilarRecords:
    """Finds the records that share 80 % or more of their word pairs with a given record.

    The word index finds up to 20 candidates by the longest words of the record; each is then compared in full. Only
    records that the caller sees are candidates, so hidden records do not change the answer. Answers are cached until
    something is written in the account.
    """

    def __init__(self, store: HistoryStore, index: KnowledgeIndex) -> None:
        self._store = store
        self._index = index
        # By account, with the end of its log for which the answers were found.
        self._caches: dict[str, tuple[tuple[int, int], dict[_Request, list[tuple[str, float]]]]] = {}

    async def find(self, ctx: RequestContext, knowledge_id: str) -> list[tuple[str, float]]:
        """Return up to 10 ids of live records that the caller sees with their similarity, the highest first."""
        summary = find_record(self._store.view(ctx.account), knowledge_id)
        if summary is None or not summary.live:
            return []
        # A write during the search leads to another cache, so an outdated answer is never found again.
        log_end = (self._store.base_seq, self._store.last_seq_of(ctx.account))
        cached_end, cache = self._caches.get(ctx.account, (None, {}))
        if cached_end != log_end:
            cache = {}
            self._caches[ctx.account] = (log_end, cache)
        request = (knowledge_id, ctx.visible)
        if request not in cache:
            found = await self._compare(ctx, summary)
            if len(cache) >= MAX_CACHED:
                cache.clear()
            cache[request] = found
        return cache[request]

    async def _compare(self, ctx: RequestContext, summary: KnowledgeSummary) -> list[tuple[str, float]]:
        text = self._get_text(ctx.account, summary.id)
        own = shingles(text)
        query = make_similarity_query(text) or text[:_QUERY_CHARS]
        groups = limit_to_visible((), ctx)
        candidates = await self._index.search(
            ctx.account, query, groups, lambda item: item.live and item.id != summary.id, _CANDIDATES
        )
        pace = CooperativePause()
        found = []
        for hit in candidates.hits:
            await pace.pause()
            similarity = _compute_similarity(text, own, self._get_text(ctx.account, hit.summary.id))
            if similarity >= MIN_SIMILARITY:
                found.append((hit.summary.id, similarity))
        return sorted(found, key=lambda item: (-item[1], item[0]))[:MAX_SHOWN]

    def _get_text(self, account: str, knowledge_id: str) -> str:
        return join_text(self._store.view(account).get(KNOWLEDGE, knowledge_id) or {"task": "", "content": ""})


def _compute_similarity(text: str, own: frozenset[int], other: str) -> float:
    if digest(text) == digest(other):
        return 1.0
    return 0.0 if differ_in_length(text, other) else round(jaccard(own, shingles(other)), 4)
