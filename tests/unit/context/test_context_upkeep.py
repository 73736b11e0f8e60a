"""Memories in a whole hub: their directories follow a restore, an erasing and a compaction, and outlive a restart."""

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub
from knowhub.context.model import MemoryCategory
from knowhub.core.operation import Committed
from knowhub.stores.files.filesystem import FilePath, FileSystem
from tests.builders import FakeClock, local
from tests.context_directories import directory_of, has_directory, make_export, read_context_files, read_text
from tests.context_rows import ACCOUNT, draft, memory_at, node_row, part_rows, session_at
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.hubs import open_hub_at

pytestmark = pytest.mark.anyio

SESSION, EVENT = session_at(), memory_at(MemoryCategory.EVENTS, "a")
ROWS = [node_row(SESSION), *part_rows(SESSION, ["one", "two"]), node_row(EVENT, content="as it was")]


async def put_rows(hub: Hub, *rows: Mapping[str, Any]) -> None:
    await hub.store.commit(ACCOUNT, "user:li", lambda _view: draft(*rows))
    await hub.maintenance.tick()


def read_texts(folder: Path) -> dict[str, bytes]:
    return {name: text for name, text in read_context_files(folder).items() if not name.endswith(".meta.json")}


async def commit_edit(hub: Hub, version: int) -> Committed:
    row = {**ROWS[3], "content": f"text {version}", "version": version}
    outcome = await hub.store.commit(ACCOUNT, "user:li", lambda _view: draft(row))
    assert isinstance(outcome, Committed)
    return outcome


async def test_directories_follow_a_restore(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_hub_at(tmp_path, clock) as hub:
        await put_rows(hub, *ROWS)
        before = read_texts(tmp_path)
        snapshot = await hub.operations.snapshots.create()
        clock.advance(60)
        later = node_row(memory_at(MemoryCategory.EVENTS, "later"))
        gone = {**ROWS[0], "deleted": True, "version": 2}
        parts = [{**part, "deleted": True, "version": 2} for part in ROWS[1:3]]
        await put_rows(hub, {**ROWS[3], "content": "changed", "version": 2}, later, gone, *parts)
        assert read_texts(tmp_path) != before

        await hub.operations.snapshots.restore(local(), snapshot.ts)
        await hub.maintenance.tick()

        assert read_texts(tmp_path) == before
        assert hub.maintenance.failures == {}


@pytest.mark.parametrize("account", [None, ACCOUNT])
async def test_reindexing_repairs_damaged_directories(tmp_path: Path, account: str | None) -> None:
    async with open_hub_at(tmp_path) as hub:
        await put_rows(hub, *ROWS)
        before = read_context_files(tmp_path)
        removed, scribbled = sorted(path.parent for path in (tmp_path / "context").rglob(".meta.json"))
        shutil.rmtree(removed)
        (scribbled / "content.md").write_text("mine")
        (scribbled.parent / "mine.txt").write_text("mine")

        await hub.reindex(lambda _done, _total: None, account)

        assert read_context_files(tmp_path) == before


async def test_the_next_commit_repairs_a_damaged_directory(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await put_rows(hub, *ROWS)
        scribbled = directory_of(tmp_path, EVENT)
        (scribbled / "content.md").write_text("mine")
        (scribbled / ".abstract.md").unlink()

        await put_rows(hub, {**ROWS[3], "version": 2})

        assert has_directory(tmp_path, EVENT)
        assert read_text(tmp_path, EVENT) == "as it was"


async def test_two_processes_that_write_in_turn_leave_the_newest_state(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub, open_hub_at(tmp_path) as other:
        await put_rows(hub, *ROWS)
        for number in range(2, 8):
            whose = (hub, other)[number % 2]
            outcome = await commit_edit(whose, number)
            assert await whose.exports.directories.project(ACCOUNT, outcome.operation)

        assert read_text(tmp_path, EVENT) == "text 7"
        assert other.exports.directories.lag == hub.exports.directories.lag == 0


# What it opens to read is first the folder, to lock it, and then a file that it would replace.
@pytest.mark.parametrize(
    "plan", [Plan(fail_at=1, lasting=True), Plan(fail_at=2, kinds=["open_existing"])], ids=["writing", "reading"]
)
async def test_after_a_disk_error_the_leader_writes_the_directory(tmp_path: Path, plan: Plan) -> None:
    async with open_hub_at(tmp_path) as hub:
        await put_rows(hub, *ROWS)
        faulty = make_export(hub.store, tmp_path, FaultyFileSystem(plan))
        outcome = await hub.store.commit(ACCOUNT, "user:li", lambda _view: draft({**ROWS[3], "version": 2}))
        assert isinstance(outcome, Committed)

        is_written = await faulty.project(ACCOUNT, outcome.operation)
        await hub.maintenance.tick()

        assert not is_written
        assert has_directory(tmp_path, EVENT)


async def test_closing_waits_for_the_directory_of_a_cancelled_request(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await put_rows(hub, *ROWS)
        directories, outcome = make_export(hub.store, tmp_path), await commit_edit(hub, 2)
        request = asyncio.create_task(directories.project(ACCOUNT, outcome.operation))
        await asyncio.sleep(0)

        request.cancel()
        await directories.close()

        assert request.cancelled()
        assert read_text(tmp_path, EVENT) == "text 2"


async def test_a_check_leaves_out_what_is_not_written_yet(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await put_rows(hub, *ROWS)
        await commit_edit(hub, 2)

        found = hub.exports.directories.check()

        assert (found.fits, list(found.differences)) == (True, [])


class OvertakenFiles(FileSystem):
    """Something else happens before its first look at a path."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = [meanwhile]

    def lstat(self, path: FilePath) -> os.stat_result | None:
        while self._meanwhile:
            self._meanwhile.pop()()
        return super().lstat(path)


async def test_a_check_names_nothing_where_a_server_writes_on_meanwhile(tmp_path: Path) -> None:
    now, earlier, later = (tmp_path / name for name in ("context", "earlier", "later"))

    def write_on() -> None:
        shutil.rmtree(now)
        later.rename(now)

    async with open_hub_at(tmp_path) as hub, open_hub_at(tmp_path) as other:
        await put_rows(hub, *ROWS)
        await other.store.refresh()
        shutil.copytree(now, earlier)
        await put_rows(hub, {**ROWS[3], "content": "written on", "version": 2})
        now.rename(later)
        earlier.rename(now)

        found = make_export(other.store, tmp_path, OvertakenFiles(write_on)).check()

        assert (found.fits, list(found.differences)) == (True, [])
        assert read_text(tmp_path, EVENT) == "written on"


async def test_many_operations_are_left_to_the_leader(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        for number in range(2, 110):
            outcome = await commit_edit(hub, number)

        is_written = await hub.exports.directories.project(ACCOUNT, outcome.operation)
        await hub.maintenance.tick()

        assert not is_written
        assert read_text(tmp_path, EVENT) == "text 109"
