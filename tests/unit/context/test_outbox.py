"""The outbox of a hub: what waits is what the vectors lack, seen by whom it concerns, the same after every restart."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from knowhub.context.events import MOVED_FROM, EventStatus
from knowhub.context.model import PARTS, MemoryCategory
from tests.builders import FakeClock, local
from tests.context_rows import memory_at, node_row, part_row, part_rows, session_at
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.hubs import open_search_hub, read_vectors
from tests.memory_index import (
    POISON,
    TEXTS,
    PickyEmbedder,
    drain_outbox,
    list_live_summaries,
    make_dead_letter,
    search_uris,
    status_of,
    vectors_of,
    write_rows,
)

pytestmark = pytest.mark.anyio


async def test_a_failed_text_is_retried_with_doubling_pauses(tmp_path: Path) -> None:
    clock, embedder = FakeClock(), PickyEmbedder()
    async with open_search_hub(tmp_path, embedder, clock) as hub:
        await write_rows(hub, [part_row(session_at(), 0, POISON)])
        waits = []
        for _ in range(40):
            asked = len(embedder.asked)
            await vectors_of(hub).embed_pending()
            if len(embedder.asked) > asked:
                waits.append(clock.now())
            clock.advance(1)
        status = await status_of(hub)

        assert [later - earlier for earlier, later in pairwise(waits)] == [2, 4, 8, 16]
        assert (status.failed, status.dead) == (0, 1)


async def test_failures_survive_a_restart_and_are_not_retried_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_search_hub(tmp_path, PickyEmbedder(), clock) as hub:
        dead = await make_dead_letter(hub, clock)
        await write_rows(hub, [part_row(session_at(), 9, f"{POISON} again")])
        await vectors_of(hub).embed_pending()
        await hub.maintenance.tick()
        failed = (await status_of(hub)).failed

    embedder = PickyEmbedder()
    async with open_search_hub(tmp_path, embedder, clock) as hub:
        await vectors_of(hub).embed_pending()
        status = await status_of(hub)

        assert failed == 1
        assert (status.dead, status.failed, status.pending) == (1, 1, 0)
        assert status.dead_letters == [dead]
        assert not [texts for texts in embedder.asked if any(POISON in text for text in texts)]


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"log_id":"other","rejected":[]}', b"\xff" * 40, None])
async def test_without_a_readable_failure_file_texts_are_retried(tmp_path: Path, damage: bytes | None) -> None:
    clock = FakeClock()
    async with open_search_hub(tmp_path, PickyEmbedder(), clock) as hub:
        await make_dead_letter(hub, clock)
    (note,) = (tmp_path / "indexes" / "context" / "vectors").glob("*/refused.json")
    if damage is None:
        note.unlink()
    else:
        note.write_bytes(damage)

    embedder = PickyEmbedder()
    embedder.is_mended = True
    async with open_search_hub(tmp_path, embedder, clock) as hub:
        await vectors_of(hub).embed_pending()

        assert (await status_of(hub)).dead == 0
        assert set(read_vectors(tmp_path, "context")) == set(list_live_summaries(hub))


async def test_only_the_leader_embeds_and_other_processes_can_request_retries(tmp_path: Path) -> None:
    clock, embedder = FakeClock(), PickyEmbedder()
    async with (
        open_search_hub(tmp_path, embedder, clock) as leader,
        open_search_hub(tmp_path, idle := PickyEmbedder(), clock) as other,
    ):
        await leader.maintenance.tick()
        await other.maintenance.tick()
        dead = await make_dead_letter(leader, clock)
        await other.maintenance.tick()
        seen = await status_of(other)
        embedder.is_mended = True

        wished = await other.memories.outbox.retry(local(), dead.event_id)
        await other.maintenance.tick()
        asked_for = await status_of(other)
        await leader.maintenance.tick()
        await drain_outbox(leader, clock)
        await asyncio.sleep(0)
        await other.maintenance.tick()
        after = await status_of(other)

        assert (seen.dead, seen.dead_letters, seen.pending) == (1, [dead], 0)
        assert (wished.status, asked_for.dead, asked_for.pending) == (EventStatus.PENDING, 0, 1)
        assert (after.dead, after.pending, other.indexes.memories.lag) == (0, 0, 0)
        assert not [texts for texts in idle.asked if any(POISON in text for text in texts)]
        assert set(read_vectors(tmp_path, "context")) == set(list_live_summaries(leader))


async def test_a_newer_text_or_a_deletion_ends_a_dead_letter(tmp_path: Path) -> None:
    clock = FakeClock()
    trip, plan = memory_at(MemoryCategory.EVENTS, "trip"), memory_at(MemoryCategory.EVENTS, "plan")
    async with open_search_hub(tmp_path, PickyEmbedder(), clock) as hub:
        await write_rows(hub, [node_row(row, abstract=f"{POISON} of {row}") for row in (trip, plan)])
        await drain_outbox(hub, clock)
        dead = (await status_of(hub)).dead

        await write_rows(hub, [node_row(trip, abstract="a trip to Rome", version=2)])
        await write_rows(hub, [node_row(plan, abstract="", deleted=True, version=2)])
        await drain_outbox(hub, clock)

        assert (dead, (await status_of(hub)).dead, hub.maintenance.failures) == (2, 0, {})
        assert set(read_vectors(tmp_path, "context")) == set(list_live_summaries(hub))


async def test_a_change_of_other_fields_needs_no_embedding(tmp_path: Path) -> None:
    trip = memory_at(MemoryCategory.EVENTS, "trip")
    async with open_search_hub(tmp_path, embedder := HashingEmbedder()) as hub:
        await write_rows(hub, [node_row(trip, abstract="a trip to Rome")])
        await vectors_of(hub).embed_pending()
        asked = len(embedder.asked)

        await write_rows(hub, [node_row(trip, abstract="a trip to Rome", overview="longer", version=2)])
        await vectors_of(hub).embed_pending()

        assert len(embedder.asked) == asked
        assert len(read_vectors(tmp_path, "context")) == 1


async def test_a_moved_subtree_keeps_its_vectors_under_new_uris(tmp_path: Path) -> None:
    old, new = session_at("old"), session_at("new")
    async with open_search_hub(tmp_path, embedder := HashingEmbedder()) as hub:
        before = [node_row(old, abstract="about zebras"), *part_rows(old, TEXTS)]
        await write_rows(hub, before)
        await vectors_of(hub).embed_pending()
        asked = len(embedder.asked)
        gone = [row | {"deleted": True, "version": 2} for row in before]
        moved = [node_row(new, abstract="about zebras") | {MOVED_FROM: old}]
        moved += [row | {MOVED_FROM: f"{old}/m{row['number']}"} for row in part_rows(new, TEXTS)]

        await write_rows(hub, [*gone, *moved])
        await vectors_of(hub).embed_pending()

        assert len(embedder.asked) == asked
        assert await search_uris(hub, "zebra striped") == [f"{new}/m0", new]
        assert set(list_live_summaries(hub)) <= set(read_vectors(tmp_path, "context"))
        assert (await status_of(hub)).pending == 0


async def test_erasing_a_message_removes_its_vector(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_search_hub(tmp_path, PickyEmbedder(), clock) as hub:
        dead = await make_dead_letter(hub, clock)
        zebra = f"{session_at()}/m0"
        secret = {number for number, summary in list_live_summaries(hub).items() if summary.uri == zebra}
        before = set(read_vectors(tmp_path, "context"))
        for address in (zebra, dead.uri):
            await write_rows(hub, [part_row(session_at(), 0, "", id=address, deleted=True, version=2)])

        for address in (zebra, dead.uri):
            await hub.operations.erasure.erase(local(), PARTS, address)

        assert secret <= before
        assert set(read_vectors(tmp_path, "context")) == set(list_live_summaries(hub)) == before - secret
        assert (await status_of(hub)).dead == 0
