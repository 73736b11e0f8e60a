"""Scheduled snapshots: when they are made, how many are kept, and how a failure is reported."""

import asyncio
import errno
from pathlib import Path

import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.store_results import SnapshotReason
from knowhub.operations.jobs import PeriodicSnapshots
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, FakeClock, local, new_knowledge
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.hubs import make_snapshot_folder, open_hub_at

pytestmark = pytest.mark.anyio

HOUR_S = 3600.0
TASK = "background-upkeep"


async def test_a_snapshot_is_made_daily_after_writes_and_old_ones_are_removed(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_hub_at(tmp_path, clock) as hub:
        asked = await hub.operations.snapshots.create()

        async def find_begin() -> float:
            return clock.now()

        periodic = PeriodicSnapshots(
            make_snapshot_folder(hub, tmp_path), clock, (24.0, 3), lambda: hub.store.last_seq, find_begin
        )

        async def a_day_later() -> int:
            clock.advance(24 * HOUR_S)
            await periodic.tick()
            await wait_for_snapshots()
            return len(
                [entry for entry in await hub.operations.snapshots.entries() if entry.reason is SnapshotReason.PERIODIC]
            )

        assert await a_day_later() == 0
        for day in range(5):
            await hub.knowledge.records.save(local(), new_knowledge(f"day {day}"))
            assert await a_day_later() == min(day + 1, 3)
        assert await a_day_later() == 3
        assert asked.ts in {entry.ts for entry in await hub.operations.snapshots.entries()}
        await periodic.close()


async def test_the_first_snapshot_is_a_day_after_the_first_write(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_hub_at(tmp_path, clock) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        begun = clock.now()

        async def find_begin() -> float:
            return begun

        never = PeriodicSnapshots(make_snapshot_folder(hub, tmp_path), clock, (0.0, 3), lambda: 1, find_begin)
        daily = PeriodicSnapshots(make_snapshot_folder(hub, tmp_path), clock, (24.0, 3), lambda: 1, find_begin)
        for hours in (1, 22):
            clock.advance(hours * HOUR_S)
            await daily.tick()
        assert await hub.operations.snapshots.entries() == []
        clock.advance(HOUR_S)

        await never.tick()
        await never.close()
        assert not any(task.get_name() == TASK for task in asyncio.all_tasks())
        await daily.tick()
        assert any(task.get_name() == TASK for task in asyncio.all_tasks())
        await daily.close()


async def test_a_failed_snapshot_is_reported_until_one_succeeds(tmp_path: Path) -> None:
    clock, files = FakeClock(), FaultyFileSystem()
    world = Overrides(clock=clock, files=files)
    async with open_hub(Settings(data_dir=tmp_path, owner=OWNER), world, maintain=False) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        clock.advance(25 * HOUR_S)
        files.begin(Plan(fail_at=1, error=errno.ENOSPC, lasting=True, kinds=("write_at",)))
        await hub.maintenance.tick()
        await wait_for_snapshots()
        files.begin(Plan())
        await hub.maintenance.tick()
        assert "disk is full" in hub.maintenance.failures["snapshots"]

        clock.advance(HOUR_S)
        await hub.maintenance.tick()
        await wait_for_snapshots()
        await hub.maintenance.tick()

        assert "snapshots" not in hub.maintenance.failures
        assert len(await hub.operations.snapshots.entries()) == 1


async def wait_for_snapshots() -> None:
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == TASK), return_exceptions=True)
