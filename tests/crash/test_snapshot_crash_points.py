"""The process dies at each file-system call of a snapshot, a restore and an unpacking: the state is before or after."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.ids import RandomIds
from knowhub.core.request_context import RequestContext
from knowhub.operations.snapshots import Snapshots
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.snapshots.archive import check_snapshot
from knowhub.stores.files.snapshots.restore import unpack_directory
from knowhub.stores.files.snapshots.snapshots import SnapshotFolder
from knowhub.stores.files.store import FileStore
from knowhub.stores.files.subprocess_runner import run_in_process
from knowhub.wiring.collections import COLLECTIONS, FIXED_IDS
from tests.archives import read_folder
from tests.builders import FakeClock, domain_on, local, new_knowledge, open_domain
from tests.crash.process_death import MANY_SEGMENTS, open_doomed, wait_for_death
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan
from tests.whole_state import State, state_of

pytestmark = pytest.mark.anyio

NEVER_REACHED = 300
MANY = 10**9

Verb = Callable[[Snapshots], Coroutine[Any, Any, object]]


def snapshots_on(store: FileStore, root: Path, files: FileSystem) -> Snapshots:
    ids = RandomIds()
    fixed = FIXED_IDS
    folder = SnapshotFolder(
        files, DataDirectory(root), store, FakeClock(), ids, run_in_process(files), fixed, COLLECTIONS
    )

    async def make_nothing(_ctx: RequestContext) -> None:
        pass

    return Snapshots(folder, store, ids, COLLECTIONS, make_nothing)


async def prepare(folder: Path) -> tuple[str, State, State]:
    """Make a folder with a snapshot and changes since; return its name, the state in it, and the state now."""
    async with open_domain(folder, None, MANY_SEGMENTS) as hub:
        saved = [await hub.knowledge.records.save(local(), new_knowledge(f"zebra {number}")) for number in range(3)]
        then = state_of(hub.store)
        entry = await snapshots_on(hub.store, folder, FileSystem()).create()
        await hub.knowledge.records.patch(local(), saved[0].record["id"], {"content": "lion"})
        await hub.knowledge.records.delete(local(), saved[1].record["id"])
        await hub.knowledge.records.save(local(), new_knowledge("written since"))
        return entry.ts, then, state_of(hub.store)


async def write_and_restore(folder: Path, found: State) -> None:
    """Write, make a snapshot and restore it: leftovers of a dead process do not interfere and are removed."""
    async with open_domain(folder, None, MANY_SEGMENTS) as hub:
        assert hub.store.status().damage == []
        assert state_of(hub.store) == found
        snapshots = snapshots_on(hub.store, folder, FileSystem())
        entry = await snapshots.create()
        await hub.knowledge.records.save(local(), new_knowledge("written after the crash"))
        await snapshots.restore(local(), entry.ts)
        assert state_of(hub.store) == found
        for item in await snapshots.entries():
            check_snapshot(FileSystem(), Path(item.path))
        assert not any(name.startswith(".") or name.endswith(".tmp") for name in read_folder(folder / "snapshots"))


@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("verb", ["create", "restore", "delete"])
async def test_a_crash_leaves_the_state_before_or_after_and_no_partial_snapshot(
    tmp_path: Path, verb: str, half_written: bool
) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        ts, then, before = await prepare(folder)
        store, files = open_doomed(folder, Plan(crash_at=call, half_written=half_written), MANY_SEGMENTS)
        snapshots = snapshots_on(store, folder, files)
        doing: dict[str, Coroutine[Any, Any, object]] = {
            "create": snapshots.create(),
            "restore": snapshots.restore(local(), ts),
            "delete": snapshots.delete(ts),
        }
        chosen = doing.pop(verb)
        for other in doing.values():
            other.close()

        died = await wait_for_death(store, files, chosen)

        async with open_domain(folder, None, MANY_SEGMENTS) as hub:
            found = state_of(hub.store)
        if not died:
            assert found == (then if verb == "restore" else before)
            break
        deaths += 1
        assert found == before or (verb == "restore" and found == then)
        await write_and_restore(folder, found)
    assert deaths >= {"create": 5, "restore": 25, "delete": 2}[verb]


async def test_a_crash_while_a_restore_is_undone_leaves_the_state_before_or_after(tmp_path: Path) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        ts, then, before = await prepare(folder)
        async with open_domain(folder, None, MANY_SEGMENTS) as hub:
            done = await snapshots_on(hub.store, folder, FileSystem()).restore(local(), ts)
        store, files = open_doomed(folder, Plan(crash_at=call), MANY_SEGMENTS)
        undoing = domain_on(store).operations.log.undo(local(), str(done.restore_id))

        died = await wait_for_death(store, files, undoing)

        async with open_domain(folder, None, MANY_SEGMENTS) as hub:
            found = state_of(hub.store)
        if not died:
            assert found == before
            break
        deaths += 1
        assert found in (then, before)
        await write_and_restore(folder, found)
    assert deaths >= 2


@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
async def test_a_crash_while_unpacking_can_be_retried_or_is_complete(tmp_path: Path, half_written: bool) -> None:
    ts, then, _ = await prepare(tmp_path / "old")
    archive = tmp_path / "old" / "snapshots" / f"snapshot_{ts}.tar.gz"
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        files = FaultyFileSystem(Plan(crash_at=call, half_written=half_written))
        died = False
        try:
            unpack_directory(files, archive, folder, MANY)
        except CrashNow:
            files.bury()
            died = True
            deaths += 1

        if not (folder / "change_log").exists():
            unpack_directory(FileSystem(), archive, folder, MANY)

        async with open_domain(folder, None, MANY_SEGMENTS) as hub:
            assert state_of(hub.store) == then
        await write_and_restore(folder, then)
        if not died:
            break
    assert deaths >= 15
