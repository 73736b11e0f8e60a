"""The floor of relevance: vectors alone find nothing if even the nearest record is far from the question."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub
from knowhub.core.recall import LEXICAL, VECTOR, SearchHit, SearchHits, StageScore
from knowhub.knowledge.model import KnowledgeSummary, SearchQuery
from knowhub.knowledge.search.retrieval import KnowledgeRetrieval, SearchOptions
from knowhub.knowledge.table import find_record
from tests.builders import local, new_knowledge
from tests.hubs import open_hub_at, save_record

pytestmark = pytest.mark.anyio


class FoundHits:
    """An index that found a record, whatever is asked, and says how near the nearest record is in meaning."""

    def __init__(self, hit: SearchHit[KnowledgeSummary], nearest: float) -> None:
        self._found = SearchHits([hit], 0, nearest=nearest)

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[KnowledgeSummary], bool],
        limit: int,
    ) -> SearchHits[KnowledgeSummary]:
        del account, text, groups, accept, limit
        return self._found

    def list_matched_terms(self, text: str, *fields: str) -> list[str]:
        del text, fields
        return []


async def count_found(hub: Hub, stage: str, nearest: float, min_relevance: float | None = None) -> int:
    """Return how many results a search has whose index found one record by this stage."""
    row_id = await save_record(hub, new_knowledge(f"Water the ferns {stage} {nearest} {min_relevance}."))
    summary = find_record(hub.store.view(local().account), row_id)
    assert summary is not None
    index = FoundHits(SearchHit(summary, 0.2, (StageScore(stage, 1, 0.2),)), nearest)
    retrieval = KnowledgeRetrieval(hub.store, index, hub.clock, SearchOptions(hub.knowledge.impressions))
    query = SearchQuery("when do the ferns need water", min_relevance=min_relevance)
    return len((await retrieval.search(local(), query)).records)


async def test_vectors_alone_find_nothing_if_no_record_is_near(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        by_words = [await count_found(hub, LEXICAL, nearest) for nearest in (0.0, 0.1, 0.4)]
        by_vectors = [await count_found(hub, VECTOR, nearest) for nearest in (0.0, 0.1, 0.4)]
        asked = [await count_found(hub, VECTOR, 0.1, min_relevance=least) for least in (0.1, 0.3)]

    assert (by_words, by_vectors, asked) == ([1, 1, 1], [0, 0, 1], [1, 0])
