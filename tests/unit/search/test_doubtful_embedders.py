"""An embedder that changes: other dimensions, zero vectors while it starts, and a text that it refuses."""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import FailureReason, TextRefused, Vector
from knowhub.knowledge.model import KnowledgeSummary
from knowhub.search.vector_index import VectorIndex
from tests.builders import FakeClock, local, new_knowledge
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import embed_pending, open_search_hub, read_vectors, save_record
from tests.unit.search.test_vector_index import (
    ids_of,
    refuse_word,
    search,
    stages_of,
    vectors_of,
)

pytestmark = pytest.mark.anyio


class ZeroEmbedder(HashingEmbedder):
    """Answers zeros to every text that contains `zero_word`; "" is in every text, None in no text."""

    zero_word: str | None = ""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        vectors = await super().embed(texts, timeout_s, query=query)
        is_zero = [self.zero_word is not None and self.zero_word in text for text in texts]
        return [
            array("f", bytes(4 * len(vector))) if zero else vector
            for vector, zero in zip(vectors, is_zero, strict=True)
        ]


async def tick_until(hub: Hub, is_so: Callable[[VectorIndex[KnowledgeSummary]], bool]) -> None:
    """Run the upkeep until something is so."""
    async with asyncio.timeout(30):
        while not is_so(vectors_of(hub)):
            await hub.maintenance.tick()
            await asyncio.sleep(0.01)


def blank_rows(folder: Path) -> int:
    return sum(not any(vector) for vector in read_vectors(folder).values())


async def test_new_dimensions_are_noticed_without_searches_or_saves(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path, HashingEmbedder()) as hub:
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)

    async with open_search_hub(tmp_path, HashingEmbedder(dimensions=512)) as hub:
        await tick_until(
            hub,
            lambda vectors: [len(item) for item in read_vectors(tmp_path).values()] == [2 * 512] and not vectors.lag,
        )

        assert (await search(hub, "zebra")).degraded == []


async def test_a_change_of_dimensions_while_running_is_handled(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)
        await search(hub, "zebra")
        embedder._dimensions = 512  # noqa: SLF001 -- of the fake

        await search(hub, "zebra stripes")
        await embed_pending(hub)
        kept_query, new_query = await search(hub, "zebra"), await search(hub, "zebra hooves")
        again = await search(hub, "zebra")

        assert (kept_query.degraded, stages_of(new_query), stages_of(again)) == (
            ["embedder"], [["lexical", "vector"]], [["lexical", "vector"]],
        )  # fmt: skip


async def test_zero_vectors_of_a_starting_embedder_are_not_stored(tmp_path: Path) -> None:
    embedder = ZeroEmbedder()
    async with open_search_hub(tmp_path, embedder) as hub:
        zebra = await save_record(hub, new_knowledge("zebra"))
        with pytest.raises(Unavailable, match="zeros"):
            await vectors_of(hub).embed_pending()
        asleep, lag = await search(hub, "zebra"), hub.indexes.records.lag

        embedder.zero_word = None
        await embed_pending(hub)
        awake = await search(hub, "zebra")

        assert (ids_of(asleep), asleep.degraded, lag) == ([zebra], ["embedder"], 1)
        assert (stages_of(awake), awake.degraded, awake.index_lag) == ([["lexical", "vector"]], [], 0)
        assert blank_rows(tmp_path) == 0


async def test_a_query_answered_with_zeros_is_embedded_again(tmp_path: Path) -> None:
    embedder = ZeroEmbedder()
    embedder.zero_word = None
    async with open_search_hub(tmp_path, embedder) as hub:
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)

        embedder.zero_word = "zebra"
        asleep = await search(hub, "zebra")
        embedder.zero_word = None
        awake = await search(hub, "zebra")

        assert (asleep.degraded, awake.degraded, stages_of(awake)) == (["embedder"], [], [["lexical", "vector"]])


async def test_a_text_with_a_zero_vector_is_reported_and_retried(tmp_path: Path) -> None:
    clock, embedder = FakeClock(), ZeroEmbedder()
    embedder.zero_word = "tulip"
    async with open_search_hub(tmp_path, embedder, clock) as hub:
        tulip = await save_record(hub, new_knowledge("tulip"))
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)
        named, lag, blank = dict(hub.maintenance.failures), hub.indexes.records.lag, blank_rows(tmp_path)

        embedder.zero_word = None
        clock.advance(2)
        await embed_pending(hub)

        assert (lag, blank) == (0, 0)
        assert tulip in named["vectors"]
        assert (len(read_vectors(tmp_path)), hub.maintenance.failures) == (2, {})


async def test_other_processes_report_refused_texts_like_the_leader(tmp_path: Path) -> None:
    refused = TextRefused(FailureReason.FAILURE, "400")
    async with (
        open_search_hub(tmp_path, refuse_word("poison", refused)) as hub,
        open_search_hub(tmp_path, HashingEmbedder()) as other,
    ):
        await hub.maintenance.tick()
        await other.maintenance.tick()
        poison = await save_record(hub, new_knowledge("poison"))
        await save_record(hub, new_knowledge("zebra"))
        await embed_pending(hub)
        await hub.maintenance.tick()
        await search(other, "zebra")
        await other.maintenance.tick()
        lags, named = (
            (hub.indexes.records.lag, other.indexes.records.lag),
            other.maintenance.failures.get("vectors", ""),
        )

        await hub.knowledge.records.patch(local(), poison, {"content": "harmless"})
        await embed_pending(hub)
        await hub.maintenance.tick()
        await search(other, "zebra")
        await other.maintenance.tick()

        assert not other.maintenance.is_leader
        assert lags == (0, 0)
        assert poison in named
        assert (other.indexes.records.lag, other.maintenance.failures) == (0, {})
