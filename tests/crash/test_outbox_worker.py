"""The worker of the outbox dies, its embedder fails, one text is poison: the index ends as a rebuild makes it."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub
from knowhub.context.index.index_ports import VectorStore
from knowhub.context.index.index_worker import REFUSED, IndexWorker
from knowhub.context.index.outbox_store import RetryPolicy
from knowhub.context.index_model import EventStatus, TextToEmbed
from knowhub.context.model import ContextSummary
from knowhub.context.queries import SEARCHED_TEXTS
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import FailureReason, TextRefused, Vector
from knowhub.engine.searchable import SearchableRows
from knowhub.search.context_vectors import ContextVectors
from knowhub.search.ports import Records
from tests.builders import FakeClock, local
from tests.context_rows import said, session_at
from tests.fakes.hashing_embedder import Fault, HashingEmbedder
from tests.memory_index import (
    found,
    live_heads,
    memory_hub,
    on_disk,
    rebuilt,
    status_of,
    vectors_of,
    written,
)

pytestmark = pytest.mark.anyio

LEASE_S = RetryPolicy().lease_s
A_PAUSE_S = RetryPolicy().longest_pause_s
STEPS = ["claim", "embed", "write", "mark"]
POISON = "the poisoned message"


class Killed(BaseException):
    """Ends a worker as a killed process ends: whatever it held is not given back."""


class DyingVectors:
    """Implements `VectorStore` over the real one, and kills who uses it at one step."""

    def __init__(self, vectors: VectorStore, dies_at: str) -> None:
        self._vectors = vectors
        self._dies_at = dies_at

    def missing_number(self, account: str, address: str) -> int | None:
        self._die("claim")
        return self._vectors.missing_number(account, address)

    async def embed_texts(self, texts: Sequence[str]) -> "list[Vector | None]":
        self._die("embed")
        return await self._vectors.embed_texts(texts)

    async def reuse_vectors(self, account: str, texts: Sequence[TextToEmbed]) -> Sequence[TextToEmbed]:
        return await self._vectors.reuse_vectors(account, texts)

    async def upsert(self, account: str, texts: Sequence[TextToEmbed], vectors: "Sequence[Vector]") -> bool:
        self._die("write")
        await self._vectors.upsert(account, texts, vectors)
        self._die("mark")
        return True

    async def delete_by_uri(self, account: str, address: str) -> None:
        await self._vectors.delete_by_uri(account, address)

    async def move_uri(self, account: str, from_uri: str, to_uri: str) -> None:
        await self._vectors.move_uri(account, from_uri, to_uri)

    def _die(self, step: str) -> None:
        if step == self._dies_at:
            raise Killed


def real_vectors(hub: Hub) -> ContextVectors:
    def records(name: str) -> Records[ContextSummary]:
        return SearchableRows(hub.store.state(name), SEARCHED_TEXTS)

    return ContextVectors(vectors_of(hub), records, hub.store.history)


def worker_on(hub: Hub, worker_id: str, dies_at: str = "") -> IndexWorker:
    vectors = DyingVectors(real_vectors(hub), dies_at)
    return IndexWorker(hub.memories.outbox, hub.store, vectors, worker_id=worker_id)


async def many_messages(hub: Hub, count: int, poison: str | None = None) -> None:
    """Commit messages in sessions of a hundred, one of them `poison`."""
    for start in range(0, count, 100):
        texts = [f"message {number} 消息 of widget-{number}" for number in range(start, min(start + 100, count))]
        if poison is not None and start == 0:
            texts[7] = poison
        await written(hub, said(session_at(f"s{start}"), texts))


async def brought_up(hub: Hub, clock: FakeClock, *workers: IndexWorker) -> None:
    """Let workers work at once, and the pauses of what failed go by, until nothing waits."""
    await hub.memories.outbox.catch_up()
    async with asyncio.timeout(240):
        while vectors_of(hub).lag:
            await asyncio.gather(*(worker.run_once(64) for worker in workers))
            clock.advance(A_PAUSE_S)
    await hub.memories.outbox.catch_up()


def refusing(poison: str, texts: Sequence[str]) -> Exception | None:
    refuses = any(poison in text for text in texts)
    return TextRefused(FailureReason.FAILURE, "not this one") if refuses else None


def flaky(share: float, poison: str, is_mended: Callable[[], bool] = lambda: False) -> Iterator[Fault | None]:
    """Yield a fault for each call: so large a share fails, and the poison is never taken until it is mended."""
    rng = random.Random(11)
    while True:
        if rng.random() < share:
            yield ConnectionError("shaky")
        else:
            yield lambda texts: None if is_mended() else refusing(poison, texts)


@pytest.mark.parametrize("step", STEPS)
async def test_a_process_that_dies_at_any_step_loses_nothing_and_the_next_brings_all_up(
    tmp_path: Path, step: str
) -> None:
    async with memory_hub(tmp_path, HashingEmbedder()) as hub:
        await many_messages(hub, 40)
        await hub.memories.outbox.catch_up()
        with pytest.raises(Killed):
            await worker_on(hub, "dying", step).run_once(16)
        before = len(on_disk(tmp_path))

    async with memory_hub(tmp_path, HashingEmbedder()) as hub:
        waiting = (await status_of(hub)).pending
        await vectors_of(hub).embed_pending()
        embedded = on_disk(tmp_path)

        assert (before, waiting) == ((16, 24) if step == "mark" else (0, 40))
        assert embedded == await rebuilt(hub, tmp_path)
        assert set(embedded) == set(live_heads(hub))


async def test_what_a_dead_worker_holds_comes_to_another_when_its_lease_has_ended(tmp_path: Path) -> None:
    clock = FakeClock()
    async with memory_hub(tmp_path, HashingEmbedder(), clock) as hub:
        await many_messages(hub, 30)
        outbox, living = hub.memories.outbox, worker_on(hub, "living")
        await outbox.catch_up()
        await outbox.claim_batch("dead", 20)

        first = await living.run_once()
        in_lease = await living.run_once()
        held = (await status_of(hub)).claimed
        clock.advance(LEASE_S)
        after = await living.run_once()

        assert (first.claimed, in_lease.claimed, held, after.claimed) == (10, 0, 20, 20)
        assert set(on_disk(tmp_path)) == set(live_heads(hub))


async def test_a_worker_that_is_broken_off_gives_back_what_it_holds(tmp_path: Path) -> None:
    async with memory_hub(tmp_path, HashingEmbedder()) as hub:
        await many_messages(hub, 10)
        await hub.memories.outbox.catch_up()
        with pytest.raises(Killed):
            await worker_on(hub, "broken off", "embed").run_once()

        again = await worker_on(hub, "next").run_once()

        assert (again.claimed, again.succeeded, again.retried) == (10, 10, 0)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
async def test_two_workers_a_shaky_embedder_and_a_poisoned_text_end_as_a_rebuild_does(
    tmp_path: Path, count: int
) -> None:
    clock, mended = FakeClock(), asyncio.Event()
    embedder = HashingEmbedder(flaky(0.1, POISON, mended.is_set))
    async with memory_hub(tmp_path, embedder, clock) as hub:
        await many_messages(hub, count, POISON)
        workers = worker_on(hub, "one"), worker_on(hub, "two")

        await brought_up(hub, clock, *workers)
        status, embedded = await status_of(hub), on_disk(tmp_path)
        (dead,) = status.dead_letters
        (poisoned,) = (head for head in live_heads(hub).values() if head.abstract == POISON)
        mended.set()
        revived = await hub.memories.outbox.retry(local(), dead.event_id)
        await brought_up(hub, clock, *workers)
        after, complete = await status_of(hub), on_disk(tmp_path)

        assert (status.pending, status.claimed, status.failed, status.dead) == (0, 0, 0, 1)
        assert (dead.error, dead.retry_count, dead.uri) == (REFUSED, RetryPolicy().max_attempts, poisoned.uri)
        assert set(live_heads(hub)) - set(embedded) == {poisoned.text_num}
        assert (revived.status, after.pending, after.dead) == (EventStatus.PENDING, 0, 0)
        assert len(complete) == count
        assert complete == await rebuilt_calmly(tmp_path, hub)


async def rebuilt_calmly(folder: Path, hub: Hub) -> object:
    """Rebuild until a shaky embedder lets it."""
    while True:
        try:
            return await rebuilt(hub, folder)
        except Unavailable:
            continue


async def test_an_embedder_that_is_down_is_asked_little_and_no_event_counts_it_as_a_failure(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with memory_hub(tmp_path, embedder) as hub:
        await many_messages(hub, 200)
        embedder.is_down = True
        asked_before = len(embedder.asked)
        for _ in range(20):
            await hub.maintenance.tick()
            await asyncio.sleep(0.01)
        asked_while_down, named = len(embedder.asked) - asked_before, dict(hub.maintenance.failures)
        status = await status_of(hub)
        by_words = await found(hub, "widget-17")

        embedder.is_down = False
        await vectors_of(hub).embed_pending()

        assert asked_while_down <= 4
        assert "the embedder gives no vectors" in named["memory_vectors"]
        assert (status.pending, status.failed, status.dead) == (200, 0, 0)
        assert by_words[0].endswith("/m17")
        assert set(on_disk(tmp_path)) == set(live_heads(hub))
