"""Failures of the outbox meet newer texts and other keepers: none is tried too often, and none is forgotten."""

from pathlib import Path

import pytest

from knowhub.context.model import MemoryCategory
from tests.builders import FakeClock
from tests.context_rows import memory_at, node_row
from tests.memory_index import (
    POISON,
    PickyEmbedder,
    live_heads,
    memory_hub,
    on_disk,
    status_of,
    with_a_dead_letter,
    worked_off,
    worker_of,
    written,
)

pytestmark = pytest.mark.anyio

TRIP = memory_at(MemoryCategory.EVENTS, "trip")


async def test_a_text_that_was_written_while_nobody_embedded_is_tried_though_the_one_before_it_is_dead(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with memory_hub(tmp_path, PickyEmbedder(), clock) as hub:
        await written(hub, [node_row(TRIP, abstract=POISON)])
        await worked_off(hub, clock)
        dead = (await status_of(hub)).dead
    async with memory_hub(tmp_path, None, clock) as hub:
        await written(hub, [node_row(TRIP, abstract="a trip to Rome", version=2)])

    async with memory_hub(tmp_path, PickyEmbedder(), clock) as hub:
        await worked_off(hub, clock)

        assert (dead, (await status_of(hub)).dead) == (1, 0)
        assert set(on_disk(tmp_path)) == set(live_heads(hub))


async def test_who_becomes_keeper_without_a_note_of_failures_tries_what_the_last_keeper_had_given_up(
    tmp_path: Path,
) -> None:
    clock, mended = FakeClock(), PickyEmbedder()
    mended.is_mended = True
    async with memory_hub(tmp_path, mended, clock) as heir:
        async with memory_hub(tmp_path, PickyEmbedder(), clock) as keeper:
            await keeper.maintenance.tick()
            await with_a_dead_letter(keeper, clock)
            await heir.maintenance.tick()
            lag = heir.indexes.memories.lag
        (tmp_path / "indexes" / "context" / "outbox.json").unlink()

        await heir.maintenance.tick()
        await worked_off(heir, clock)

        assert lag == 0
        assert set(on_disk(tmp_path)) == set(live_heads(heir))


async def test_a_dead_memory_of_which_something_else_is_edited_is_tried_again(tmp_path: Path) -> None:
    clock, embedder = FakeClock(), PickyEmbedder()
    async with memory_hub(tmp_path, embedder, clock) as hub:
        await written(hub, [node_row(TRIP, abstract=POISON)])
        await worked_off(hub, clock)
        embedder.is_mended = True

        await written(hub, [node_row(TRIP, abstract=POISON, overview="three days", version=2)])
        await worker_of(hub).run_once()

        assert (await status_of(hub)).dead == 0
        assert set(on_disk(tmp_path)) == set(live_heads(hub))


async def test_a_failure_waits_out_its_pause_though_something_else_was_edited_since_its_text_was_written(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with memory_hub(tmp_path, PickyEmbedder(), clock) as hub:
        await hub.memories.outbox.catch_up()
        await written(hub, [node_row(TRIP, abstract=POISON)])
        await written(hub, [node_row(TRIP, abstract=POISON, overview="three days", version=2)])
        first = await worker_of(hub).run_once()

        second = await worker_of(hub).run_once()
        clock.advance(600)
        third = await worker_of(hub).run_once()

        assert [one.retried for one in (first, second, third)] == [1, 0, 1]
        assert (second.claimed, (await status_of(hub)).failed) == (0, 1)
