"""Records that are looked up for several texts at once: the order of what is found, and a degraded index."""

import pytest

from knowhub.core.model_calls import search_texts
from knowhub.core.recall import SearchHit, SearchHits

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("degraded", "found"),
    [((), ["a1", "b1", "c1", "a2", "b2", "c2"]), (("embedder",), ["a1", "a2"])],
    ids=["a whole index", "a degraded index"],
)
async def test_the_best_of_each_text_come_first_and_a_degraded_index_is_asked_once(
    degraded: tuple[str, ...], found: list[str]
) -> None:
    async def search(text: str) -> SearchHits[str]:
        return SearchHits([SearchHit(f"{text}{rank}", 1.0 / rank) for rank in (1, 2)], 0, degraded)

    hits = await search_texts("abc", search)

    assert [hit.summary for hit in hits] == found
