"""Compaction drops operations and never rows; other processes keep reading, and a crash loses nothing."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import NotFound
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import lock_shared
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.subprocess_runner import run_in_process, run_in_subprocess
from tests.builders import FakeClock, domain_on, local, new_knowledge, open_files, retry_key
from tests.crash.compaction_store import (
    DAY_S,
    SMALL_SEGMENTS,
    compact,
    fill,
    list_log_files,
    open_store,
    state_of,
)
from tests.crash.process_death import NEVER_REACHED, open_doomed, wait_for_death
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio


async def test_rows_stay_and_operations_go(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        known = await fill(store)
        before, last_seq = state_of(store, known), store.last_seq

        done = await compact(store)

        assert (done.operations, done.rows) == (last_seq, len(known.keys))
        assert done.bytes_after < done.bytes_before
        assert state_of(store, known) == before
        assert [operation async for operation in store.operations("default")] == []
        with pytest.raises(NotFound):
            await domain_on(store).operations.log.undo(local(), known.operation_id)
    async with open_store(tmp_path) as store:
        assert (state_of(store, known), store.last_seq) == (before, last_seq)
        assert store.status().damage == []
        patched = await domain_on(store).knowledge.records.patch(
            local(), known.knowledge_id, {"content": "written since"}
        )
        undone = await domain_on(store).operations.log.undo(local(), patched.operation_id or "")
        assert (patched.record["version"], undone.changes[0].after["version"]) == (3, 4)


async def test_compacted_segments_are_closed_and_removed(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        known = await fill(store)
        before = state_of(store, known)

        await compact(store)
        first = list_log_files(tmp_path)
        await fill(store)
        await compact(store)

        assert state_of(store, known) == before
    assert [name[:5] for name in first] == ["base-", "segme"]
    assert [name[:5] for name in list_log_files(tmp_path)] == ["base-", "segme"]
    assert list_log_files(tmp_path) != first


async def test_a_child_process_writes_the_same_base(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        known = await fill(store)
        before = state_of(store, known)

        done = await store.compact(0.0, run_in_subprocess)

        assert (done.rows, state_of(store, known)) == (len(known.keys), before)
    async with open_store(tmp_path) as store:
        assert state_of(store, known) == before


async def test_operations_within_the_retention_can_still_be_undone(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_store(tmp_path, clock) as store:
        known = await fill(store)
        clock.advance(20 * DAY_S)
        young = await domain_on(store).knowledge.records.patch(local(), known.knowledge_id, {"content": "young"})
        clock.advance(15 * DAY_S)

        done = await compact(store, 30 * DAY_S)
        undone = await domain_on(store).operations.log.undo(local(), young.operation_id or "")

        assert 0 < done.operations < store.last_seq
        assert undone.changes[0].after["content"].startswith("changed")
        with pytest.raises(NotFound):
            await domain_on(store).operations.log.undo(local(), known.operation_id)


async def test_without_old_operations_nothing_is_compacted(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        known = await fill(store)
        before = list_log_files(tmp_path)

        done = await compact(store, DAY_S)

        assert (done.operations, done.held_by_others, done.bytes_after) == (0, False, done.bytes_before)
        assert (await domain_on(store).operations.log.undo(local(), known.operation_id)).changes
    assert set(before) <= set(list_log_files(tmp_path))


async def test_an_operation_that_a_retry_may_ask_for_stays(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_store(tmp_path, clock) as store:
        first = await domain_on(store).knowledge.records.save(local(), new_knowledge("once"), retry_key())
        await fill(store)

        held = await compact(store)
        again = await domain_on(store).knowledge.records.save(local(), new_knowledge("once"), retry_key())
        clock.advance(2 * DAY_S)
        done = await compact(store)

        assert (held.operations, again.record["id"]) == (0, first.record["id"])
        assert done.operations == store.last_seq


async def test_another_process_reads_on_and_follows(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store, open_store(tmp_path) as other:
        known = await fill(store)
        await other.refresh()
        before = state_of(store, known)

        done = await compact(store)
        as_it_was = state_of(other, known)
        await domain_on(store).knowledge.records.patch(local(), known.knowledge_id, {"content": "after the compaction"})
        await other.refresh()

        # The other one is at the position where the store wrote last.
        assert (done.operations > 0, done.held_by_others) == (True, True)
        assert as_it_was == before
        assert state_of(other, known) == state_of(store, known)
        saved = await domain_on(other).knowledge.records.save(local(), new_knowledge("by the other"))
        await store.refresh()
        assert store.account("default").table("knowledge").text(saved.record["id"])
        assert (await compact(other)).operations > 0
        assert state_of(store, known) == state_of(other, known)


async def test_operations_unread_by_another_process_are_not_dropped(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store, open_store(tmp_path) as other:
        known = await fill(store)

        held = await compact(store)
        await other.refresh()
        done = await compact(store)

        assert (held.operations, held.held_by_others) == (0, True)
        assert done.operations == store.last_seq
        assert state_of(other, known) == state_of(store, known)


async def test_a_crash_at_any_call_of_a_compaction_changes_no_row(tmp_path: Path) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        async with open_store(folder) as store:
            known = await fill(store, 9)
            before = state_of(store, known)
        store, files = open_doomed(folder, Plan(crash_at=call, half_written=True), SMALL_SEGMENTS)

        died = await wait_for_death(store, files, compact(store, files=files))

        async with open_store(folder) as reopened:
            assert (state_of(reopened, known), reopened.status().damage) == (before, [])
            await domain_on(reopened).knowledge.records.patch(
                local(), known.knowledge_id, {"content": "after the crash"}
            )
            assert (await compact(reopened)).held_by_others is False
        async with open_store(folder) as reopened:
            changed = {key for key, text in state_of(reopened, known).items() if text != before[key]}
            assert changed == {("knowledge", known.knowledge_id)}
            left = [name for name in list_log_files(folder) if not name.endswith(".tmp")]
            assert [name[:5] for name in left] == ["base-", "segme"]
        if not died:
            break
        deaths += 1
    assert deaths >= 10


async def test_another_process_continues_after_a_death_at_any_call(tmp_path: Path) -> None:
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        # One segment, which the compaction must close while the other process is inside it.
        other = open_files(folder)
        known = await fill(other, 3)
        store, files = open_doomed(folder, Plan(crash_at=call))

        died = await wait_for_death(store, files, compact(store, files=files))

        patched = {"content": "written after the death"}
        await domain_on(other).knowledge.records.patch(local(), known.knowledge_id, patched)
        state = state_of(other, known)
        await other.close()
        async with open_store(folder) as reopened:
            assert (state_of(reopened, known), reopened.status().damage) == (state, [])
        if not died:
            break
    # The other process is inside the segment: the segment is closed, and nothing is dropped yet.
    assert call > 4


# The second sync of the folder is that after the new manifest has replaced the old one: the base is in use by then.
@pytest.mark.parametrize(
    ("kind", "call"), [("write_at", 1), ("sync", 1), ("sync_folder", 1), ("sync_folder", 2), ("rename", 1)]
)
async def test_a_failed_compaction_loses_nothing(tmp_path: Path, kind: str, call: int) -> None:
    files = FaultyFileSystem()
    async with open_store(tmp_path, files=files) as store:
        known = await fill(store)
        before = state_of(store, known)
        # Close the segment first, so that writing the base fails.
        await compact(store, DAY_S)
        files.begin(Plan(fail_at=call, error=28, kinds=(kind,)))

        problem: Any = None
        try:
            await compact(store, files=files)
        except Exception as raised:  # noqa: BLE001 -- whatever it is, it must be named
            problem = raised

        assert problem is not None
        assert state_of(store, known) == before
        assert not ChangeLog(FileSystem(), tmp_path / "change_log").is_manifest_due
    async with open_store(tmp_path) as store:
        assert (state_of(store, known), store.status().damage) == (before, [])
        await compact(store)
        assert state_of(store, known) == before
    # Where the folder could not be synced, the segment that was begun stays, with nothing in it.
    assert [name[:5] for name in list_log_files(tmp_path)][:2] == ["base-", "segme"]
    assert len(list_log_files(tmp_path)) <= 3


def spoil(folder: Path, where: float) -> None:
    (base,) = (folder / "change_log").glob("base-*")
    data = bytearray(base.read_bytes())
    data[int(len(data) * where)] ^= 4
    base.write_bytes(data)


async def test_an_open_store_survives_a_damaged_base_header(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store, open_store(tmp_path) as other:
        known = await fill(store)
        await other.refresh()
        before = state_of(other, known)
        await compact(store)
        spoil(tmp_path, 0.001)

        await other.refresh()

        assert state_of(other, known) == before
        assert await other.operation("default", known.operation_id) is not None


async def test_an_open_store_reports_a_damaged_row_of_a_base(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store, open_store(tmp_path) as other:
        known = await fill(store, 150)
        await other.refresh()
        before = state_of(other, known)
        await compact(store)
        spoil(tmp_path, 0.5)

        await other.refresh()
        while not other.status().damage:  # noqa: ASYNC110 -- what the store does behind a read sets no event
            await asyncio.sleep(0)

        assert "base-" in other.status().damage[0].path
        assert not other.status().writable
        assert state_of(other, known) == before


async def test_segments_open_in_another_process_are_dropped_later(tmp_path: Path) -> None:
    oldest = tmp_path / "change_log" / "segment-00000001.jsonl"
    async with open_store(tmp_path) as store:
        known = await fill(store)
        before = state_of(store, known)
        looking: list[int] = []

        async def while_one_looks(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
            looking.append(os.open(oldest, os.O_RDONLY))
            lock_shared(looking[0])
            return await run_in_process(FileSystem())(name, root, arguments)

        done = await store.compact(0.0, while_one_looks)
        still_there = oldest.exists()
        os.close(looking[0])
        await compact(store)

        assert (done.operations, still_there) == (store.last_seq, True)
        assert [name[:5] for name in list_log_files(tmp_path)] == ["base-", "segme"]
        assert state_of(store, known) == before
