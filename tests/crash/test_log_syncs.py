"""How often the log is synced, counted at the file-system seam, which is free of noise."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import open_hub
from knowhub.context.commit_model import SessionCommit
from knowhub.conversations.messages import Message
from knowhub.core.ids import seq_of
from knowhub.core.operation import Change, Unchanged
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import Domain, caller, local, new_knowledge, open_domain
from tests.fakes.faulty_files import CHANGES, FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio


class SyncCounter:
    """Notes how many syncs there were when an operation was applied, which is before it is acknowledged."""

    def __init__(self, files: FaultyFileSystem) -> None:
        self._files = files
        self.after: dict[int | None, int] = {}

    def follow(self, account: str, seq: int, changes: Sequence[Change]) -> None:
        self.after[seq] = self._files.log_syncs


async def test_one_writer_costs_one_sync_per_write(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    async with open_domain(tmp_path, files) as hub:
        files.begin(Plan())
        for number in range(20):
            await hub.knowledge.records.save(local(), new_knowledge(f"number {number}"))

        changes = {kind: files.counts[kind] for kind in CHANGES if files.counts[kind]}

    assert changes == {"write_at": 20, "sync_data": 20}


async def test_sixty_four_writes_that_are_queued_together_cost_two_syncs_at_most(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    async with open_domain(tmp_path, files) as hub:
        files.begin(Plan())

        await asyncio.gather(*(hub.knowledge.records.save(local(), new_knowledge(f"number {n}")) for n in range(64)))

        assert files.log_syncs in {1, 2}
        assert hub.store.last_seq == 64


async def test_no_write_waits_for_more_than_two_syncs(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    counter = SyncCounter(files)
    waits: list[int] = []

    async def writer(hub: Domain, name: int) -> None:
        for number in range(10):
            before = files.log_syncs
            saved = await hub.knowledge.records.save(local(), new_knowledge(f"{name} {number}"))
            waits.append(counter.after[seq_of(saved.operation_id or "")] - before)
            # Writers that are not in step meet a sync that is under way.
            await asyncio.sleep(name / 100_000)

    async with open_domain(tmp_path, files) as hub:
        hub.store.subscribe(counter)
        await asyncio.gather(*(writer(hub, name) for name in range(64)))

    assert len(waits) == 640
    assert {*waits} <= {1, 2}


async def test_unchanged_decisions_are_neither_written_nor_synced(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    async with open_domain(tmp_path, files) as hub:
        saved = await hub.knowledge.records.save(local(), new_knowledge())
        files.begin(Plan())

        duplicate = await hub.knowledge.records.save(local(), new_knowledge())
        await hub.knowledge.records.patch(local(), saved.record["id"], {"content": saved.record["content"]})
        await hub.store.commit("default", "user:li", lambda _view: Unchanged())
        await hub.knowledge.records.get(local(), saved.record["id"])

        assert duplicate.duplicate_of == saved.record["id"]
        assert files.calls == 0


async def test_a_session_of_two_hundred_messages_costs_one_sync(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    said = [Message("user", f"In week {number} we shipped release {number} of Apollo.") for number in range(200)]
    async with open_hub(Settings(data_dir=tmp_path), Overrides(files=files), maintain=False) as hub:
        files.begin(Plan())

        done = await hub.memories.commits.commit(caller(user_id="li"), SessionCommit("s1", said))

        assert (done.status, hub.store.last_seq) == ("committed", 1)
        assert files.counts["sync_data"] == 1
        assert files.log_syncs == 1
