"""The embedder fails, and one text is always rejected: the index of memories ends equal to a rebuild."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub
from knowhub.context.events import EventStatus
from knowhub.context.outbox import REJECTED
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import FailureReason, TextRefused
from knowhub.search.texts import MAX_MEMORY_ATTEMPTS
from knowhub.search.vector_files import LONGEST_PAUSE_S
from tests.builders import FakeClock, local
from tests.context_rows import part_rows, session_at
from tests.fakes.hashing_embedder import Fault, HashingEmbedder
from tests.hubs import open_search_hub, read_vectors
from tests.memory_index import (
    list_live_summaries,
    rebuild_vectors,
    search_uris,
    status_of,
    vectors_of,
    write_rows,
)

pytestmark = pytest.mark.anyio

POISON = "the poisoned message"


async def commit_messages(hub: Hub, count: int, poison: str | None = None) -> None:
    """Commit messages in sessions of a hundred, one of them `poison`."""
    for start in range(0, count, 100):
        texts = [f"message {number} 消息 of widget-{number}" for number in range(start, min(start + 100, count))]
        if poison is not None and start == 0:
            texts[7] = poison
        await write_rows(hub, part_rows(session_at(f"s{start}"), texts))


async def embed_all(hub: Hub, clock: FakeClock) -> None:
    """Embed, and advance the clock past the pauses after failures, until nothing is pending."""
    async with asyncio.timeout(240):
        while True:
            try:
                await vectors_of(hub).embed_pending()
            except Unavailable:
                continue
            status = await status_of(hub)
            if not (status.pending or status.failed):
                return
            clock.advance(LONGEST_PAUSE_S)


def refuse_poison(poison: str, texts: Sequence[str]) -> Exception | None:
    refuses = any(poison in text for text in texts)
    return TextRefused(FailureReason.FAILURE, "not this one") if refuses else None


def iter_faults(share: float, poison: str, is_mended: Callable[[], bool] = lambda: False) -> Iterator[Fault | None]:
    """Yield a fault for each call: `share` of the calls fail, and `poison` is rejected until `is_mended`."""
    rng = random.Random(11)
    while True:
        if rng.random() < share:
            yield ConnectionError("shaky")
        else:
            yield lambda texts: None if is_mended() else refuse_poison(poison, texts)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
async def test_a_shaky_embedder_and_a_poisoned_text_end_as_a_rebuild_does(tmp_path: Path, count: int) -> None:
    clock, mended = FakeClock(), asyncio.Event()
    embedder = HashingEmbedder(iter_faults(0.1, POISON, mended.is_set))
    async with open_search_hub(tmp_path, embedder, clock) as hub:
        await commit_messages(hub, count, POISON)

        await embed_all(hub, clock)
        status, embedded = await status_of(hub), read_vectors(tmp_path, "context")
        (dead,) = status.dead_letters
        (poisoned,) = (summary for summary in list_live_summaries(hub).values() if summary.abstract == POISON)
        mended.set()
        revived = await hub.memories.outbox.retry(local(), dead.event_id)
        await embed_all(hub, clock)
        after, complete = await status_of(hub), read_vectors(tmp_path, "context")

        assert (status.pending, status.claimed, status.failed, status.dead) == (0, 0, 0, 1)
        assert (dead.error, dead.retry_count, dead.uri) == (REJECTED, MAX_MEMORY_ATTEMPTS, poisoned.uri)
        assert set(list_live_summaries(hub)) - set(embedded) == {poisoned.text_change}
        assert (revived.status, after.pending, after.dead) == (EventStatus.PENDING, 0, 0)
        assert len(complete) == count
        assert complete == await rebuild_until_done(tmp_path, hub)


async def rebuild_until_done(folder: Path, hub: Hub) -> object:
    """Rebuild until a shaky embedder lets it."""
    while True:
        try:
            return await rebuild_vectors(hub, folder)
        except Unavailable:
            continue


async def test_an_embedder_outage_makes_few_calls_and_no_failures(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_search_hub(tmp_path, embedder, FakeClock()) as hub:
        await commit_messages(hub, 200)
        embedder.is_down = True
        asked_before = len(embedder.asked)
        for _ in range(20):
            await hub.maintenance.tick()
            await asyncio.sleep(0.01)
        asked_while_down, named = len(embedder.asked) - asked_before, dict(hub.maintenance.failures)
        status = await status_of(hub)
        by_words = await search_uris(hub, "widget-17")

        embedder.is_down = False
        await vectors_of(hub).embed_pending()

        assert asked_while_down <= 4
        assert "the embedder gives no vectors" in named["memory_vectors"]
        assert (status.pending, status.failed, status.dead) == (200, 0, 0)
        assert by_words[0].endswith("/m17")
        assert set(read_vectors(tmp_path, "context")) == set(list_live_summaries(hub))
