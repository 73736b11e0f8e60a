"""Vectors follow the log: no saved text is lost, no deleted one stays, and no save waits."""

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.language_models import EmbeddingFailed, FailureReason, TextRefused
from knowhub.knowledge.model import KnowledgeSearchResult, KnowledgeSummary, Order, SearchQuery
from knowhub.knowledge.table import list_live_records
from knowhub.search.vector_index import VectorIndex
from tests.builders import local, new_knowledge
from tests.fakes.hashing_embedder import HashingEmbedder, hash_vector
from tests.hubs import embed_pending, open_search_hub, read_vectors, save_record

pytestmark = pytest.mark.anyio


def vectors_of(hub: Hub) -> VectorIndex[KnowledgeSummary]:
    assert hub.indexes.records.vectors is not None
    return hub.indexes.records.vectors


def texts_of_records(embedder: HashingEmbedder) -> list[list[str]]:
    """Return the embedded batches without the probes of the embedder's scripts."""
    return [texts for texts in embedder.asked if any("Selenium" in text for text in texts)]


def live_numbers(hub: Hub) -> set[int]:
    return {summary.text_change for summary in list_live_records(hub.store.view("default"))}


async def search(hub: Hub, text: str) -> KnowledgeSearchResult:
    return await hub.knowledge.search.search(
        local(), SearchQuery(text, top_k=10, order=Order.RELEVANCE, explain=True, min_relevance=0.0)
    )


def ids_of(found: KnowledgeSearchResult) -> list[str]:
    return [str(record["id"]) for record in found.records]


def stages_of(found: KnowledgeSearchResult) -> list[list[str]]:
    return [[stage["stage"] for stage in record["why"]["stages"]] for record in found.records]


async def test_a_reopened_hub_embeds_only_missing_texts(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        await save_record(hub, new_knowledge("first"))
        await embed_pending(hub)
        second = await save_record(hub, new_knowledge("second"))
    embedder.asked.clear()

    async with open_search_hub(tmp_path, embedder) as hub:
        await vectors_of(hub).embed_pending()

        assert texts_of_records(embedder) == [["Log in with Selenium\nsecond"]]
        assert ids_of(await search(hub, "second"))[0] == second


async def test_a_record_whose_tags_change_keeps_the_vector_of_its_text(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        zebra = await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)
        embedder.asked.clear()

        await hub.knowledge.records.patch(local(), zebra, {"tags": {"animal": "zebra"}})
        lag = hub.indexes.records.lag
        await embed_pending(hub)

        assert (lag, hub.indexes.records.lag, texts_of_records(embedder)) == (1, 0, [])
        assert live_numbers(hub) <= set(read_vectors(tmp_path))


async def test_a_new_model_embeds_everything_again_while_words_serve(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path, HashingEmbedder()) as hub:
        zebra = await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)

    async with open_search_hub(tmp_path, HashingEmbedder(model="another", dimensions=512)) as hub:
        meanwhile = await search(hub, "zebra")
        await embed_pending(hub)
        after = await search(hub, "zebra")

        assert (ids_of(meanwhile), stages_of(meanwhile), meanwhile.index_lag) == ([zebra], [["lexical"]], 1)
        assert stages_of(after) == [["lexical", "vector"]]
        assert [len(vector) for vector in read_vectors(tmp_path).values()] == [2 * 512]


def refuse_word(word: str, problem: EmbeddingFailed) -> HashingEmbedder:
    def fault(texts: Sequence[str]) -> Exception | None:
        return problem if any(word in text for text in texts) else None

    return HashingEmbedder(repeat(fault))


@pytest.mark.parametrize("kind", [TextRefused, EmbeddingFailed])
async def test_a_refused_text_blocks_no_other_and_is_reported(tmp_path: Path, kind: type[EmbeddingFailed]) -> None:
    async with open_search_hub(tmp_path, refuse_word("poison", kind(FailureReason.FAILURE, "400"))) as hub:
        poison = [await save_record(hub, new_knowledge(f"poison {number}")) for number in range(2)]
        others = [await save_record(hub, new_knowledge(f"harmless {number}")) for number in range(9)]

        await embed_pending(hub)
        found = await search(hub, "harmless")

        assert sorted(ids_of(found)[:9]) == sorted(others)
        assert len(read_vectors(tmp_path)) == 9
        assert hub.indexes.records.lag == 0
        assert "refuses 2 texts" in hub.maintenance.failures["vectors"]
        assert all(item in hub.maintenance.failures["vectors"] for item in poison)


async def test_an_erasure_removes_the_vector_from_all_files(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path, HashingEmbedder()) as hub:
        secret = await save_record(hub, new_knowledge("zebra secret", task=""))
        kept = await save_record(hub, new_knowledge("lion", task=""))
        await embed_pending(hub)
        await hub.knowledge.records.delete(local(), secret)

        erased = await hub.operations.erasure.erase(local(), "knowledge", secret)

        vector = np.array(hash_vector("zebra secret"), dtype=np.float16).tobytes()
        files = [path for path in (tmp_path / "indexes" / "vectors").rglob("*") if path.is_file()]
        assert "vectors" not in erased.pending
        assert [path for path in files if vector in path.read_bytes()] == []
        assert set(read_vectors(tmp_path)) == live_numbers(hub)
        assert ids_of(await search(hub, "lion")) == [kept]


async def test_an_erasure_removes_vectors_without_an_embedder(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path, HashingEmbedder()) as hub:
        secret = await save_record(hub, new_knowledge("zebra secret"))
        await embed_pending(hub)

    async with open_search_hub(tmp_path, None) as hub:
        await hub.maintenance.tick()
        before = len(read_vectors(tmp_path))
        await hub.knowledge.records.delete(local(), secret)
        await hub.operations.erasure.erase(local(), "knowledge", secret)

        assert before == 1
        assert read_vectors(tmp_path) == {}


async def test_a_file_with_many_outdated_rows_is_rewritten(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path, HashingEmbedder()) as hub:
        items = [new_knowledge(f"widget {number}", dedup=False) for number in range(2000)]
        batches = [await hub.knowledge.records.save_batch(local(), part) for part in (items[:1000], items[1000:2000])]
        made = [str(item.record["id"]) for batch in batches for item in batch.records]
        await embed_pending(hub)
        for knowledge_id in made[:1200]:
            await hub.knowledge.records.delete(local(), knowledge_id)
        before = len(read_vectors(tmp_path))

        await hub.maintenance.tick()

        assert before == 2000
        assert set(read_vectors(tmp_path)) == live_numbers(hub)
