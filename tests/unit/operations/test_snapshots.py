"""Restoring a snapshot: every row is as it was, other processes follow, and the restore can be undone."""

import asyncio
import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.collection import Key
from knowhub.core.errors import Conflict, InvalidInput, NotFound, StorageFull, Unavailable
from knowhub.core.operation import Draft, Row, Unchanged, View, Write
from knowhub.core.store_results import SnapshotReason
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, ROOT_ID, LinkRequest, NewInfo, NewKeyword, RelationType
from knowhub.keywords.service import DeleteOptions
from knowhub.knowledge.model import KNOWLEDGE, Feedback, OnConflict
from knowhub.knowledge.table import KNOWLEDGE_TABLE
from knowhub.operations.snapshots import Snapshots
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_flock
from knowhub.stores.files.subprocess_runner import run_in_process
from knowhub.wiring.adapters import Overrides
from knowhub.wiring.collections import COLLECTIONS
from tests.archives import Archive, read_folder
from tests.builders import OWNER, FakeClock, import_line, knowledge_row, local, new_knowledge, save_row
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.hubs import make_snapshot_folder, open_hub_at
from tests.whole_state import state_of

pytestmark = pytest.mark.anyio

HOUR_S = 3600.0


async def fill(hub: Hub) -> dict[str, str]:
    """Save records and a tree with infos; return their ids by name."""
    names = [("编程", None), ("Python", "编程"), ("asyncio", "Python"), ("pytest", "Python")]
    made = await hub.keywords.tree.create_batch(
        local(), [NewKeyword(name, ref=name, parent_ref=up) for name, up in names]
    )
    ids = {str(saved.record["name"]): str(saved.record["id"]) for saved in made.records}
    for number in range(3):
        saved = await hub.knowledge.records.save(local(), new_knowledge(f"zebra {number}"))
        ids[f"zebra {number}"] = str(saved.record["id"])
        info = await hub.keywords.infos.create(
            local(), NewInfo(f"info {number}", keyword_ids=[ids["Python"], ids["pytest"]])
        )
        ids[f"info {number}"] = str(info.record["id"])
    return ids


async def change_filled(hub: Hub, ids: dict[str, str]) -> None:
    """Do to the rows of `filled` all that can be done to them."""
    await hub.knowledge.records.give_feedback(local(), ids["zebra 0"], Feedback(helpful_case={"task": "t"}))
    await hub.knowledge.records.patch(local(), ids["zebra 1"], {"content": "lion", "tags": {"a": "b"}})
    await hub.knowledge.records.delete(local(), ids["zebra 2"])
    await hub.knowledge.records.save(local(), new_knowledge("written since"))
    await hub.keywords.tree.move(local(), ids["asyncio"], ids["编程"])
    await hub.keywords.tree.delete(local(), ids["Python"], DeleteOptions(cascade=True))
    new = await hub.keywords.tree.create(local(), NewKeyword("new"), auto_place=False)
    await hub.keywords.infos.delete(local(), ids["info 0"])
    await hub.keywords.infos.patch(local(), ids["info 1"], {"content": "changed"})
    await hub.keywords.infos.link(local(), ids["info 2"], new.record["id"], LinkRequest(RelationType.SOURCE))
    await hub.keywords.tree.update(local(), ROOT_ID, {"description": "of the root"})


async def test_a_snapshot_without_a_field_that_was_added_since_is_restored(tmp_path: Path) -> None:
    table = replace(KNOWLEDGE_TABLE, defaults={"platform": "any"})
    collections = {**COLLECTIONS, KNOWLEDGE: replace(COLLECTIONS[KNOWLEDGE], table=table)}
    async with open_hub_at(tmp_path) as hub:
        ids = await fill(hub)
        folder = make_snapshot_folder(hub, tmp_path, collections=collections)
        snapshots = Snapshots(folder, hub.store, hub.ids, collections, hub.keywords.tree.make_root)
        entry = await snapshots.create()
        await hub.knowledge.records.patch(local(), ids["zebra 0"], {"content": "lion"})

        done = await snapshots.restore(local(), entry.ts)

        assert done.restored == 1
        assert b'"content":"zebra 0' in (await hub.knowledge.records.get(local(), ids["zebra 0"])).json


async def test_a_restore_brings_back_the_state_of_the_snapshot(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        ids = await fill(hub)
        entry = await hub.operations.snapshots.create()
        await change_filled(hub, ids)
        now = state_of(hub.store)
        done = await hub.operations.snapshots.restore(local(), entry.ts)

        await hub.operations.snapshots.restore(local(), str(done.safety_snapshot))

        assert state_of(hub.store) == now
        reasons = {item.ts: item.reason for item in await hub.operations.snapshots.entries()}
        assert reasons[str(done.safety_snapshot)] is SnapshotReason.BEFORE_RESTORE


async def test_a_large_restore_is_several_operations_undone_as_one(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await fill(hub)
        entry = await hub.operations.snapshots.create()
        lines = [import_line(f"import-{number}", f"line {number}") for number in range(2600)]
        await hub.knowledge.exchange.import_lines(local(), lines, OnConflict.FAIL)
        now = state_of(hub.store)

        done = await hub.operations.snapshots.restore(local(), entry.ts)
        undone = await hub.operations.log.undo(local(), done.operation_ids[0])

        sizes = [len(item.changes) for item in await hub.store.group("default", str(done.restore_id))]
        assert sizes == [500, 1000, 1000, 100]
        assert len(undone.undone) == len(done.operation_ids) == 4
        assert state_of(hub.store) == now


async def test_writes_during_the_preparation_are_restored_too(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        ids = await fill(hub)
        then, entry = state_of(hub.store), await hub.operations.snapshots.create()
        await hub.knowledge.records.delete(local(), ids["zebra 1"])
        restoring = asyncio.create_task(hub.operations.snapshots.restore(local(), entry.ts))
        # Until the restore has decided, each turn of the loop brings one more record.
        written = 0
        while not restoring.done():
            await hub.knowledge.records.save(local(), new_knowledge(f"meanwhile {written}"))
            await hub.knowledge.records.patch(local(), ids["zebra 0"], {"content": f"meanwhile {written}"})
            written += 1

        done = await restoring

        group = await hub.store.group("default", str(done.restore_id))
        assert written
        async for operation in hub.store.operations("default"):
            if operation.seq > group[-1].seq:
                await hub.operations.log.undo(local(), operation.operation_id)
        assert state_of(hub.store) == then


async def test_a_restore_looks_at_what_its_account_has_changed_since_also_in_its_own_batch(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        entry, seen = await hub.operations.snapshots.create(), dict[Key, Row | None]()
        async with make_snapshot_folder(hub, tmp_path).prepare(entry.ts, "default") as prepared:
            await save_row(hub.store, "theirs", account="other")
            await save_row(hub.store, "ours")

            def save_one_more(_view: View) -> Draft:
                return Draft("save_knowledge", [Write(KNOWLEDGE, "pending", knowledge_row("pending"))])

            def look(view: View) -> Unchanged:
                seen.update(prepared.list_changes(prepared.last_seq, view))
                return Unchanged(None)

            await hub.store.commit_group("default", OWNER, [save_one_more, look])

    assert seen == {(KNOWLEDGE, "ours"): None, (KNOWLEDGE, "pending"): None}


async def test_a_restore_keeps_erased_rows_erased_and_names_them(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        ids = await fill(hub)
        then, entry = state_of(hub.store), await hub.operations.snapshots.create()
        await hub.keywords.tree.delete(local(), ids["Python"], DeleteOptions(cascade=True))
        # As erasing leaves them.
        erased = [(KNOWLEDGE, ids["zebra 0"]), (KEYWORDS, ids["Python"]), (INFOS, ids["info 0"])]
        view = hub.store.view("default")
        writes = [Write(*key, {**(view.get(*key) or {}), "deleted": True, "erased": True}) for key in erased]
        await hub.store.commit("default", OWNER, lambda _view: Draft("erase_rows", writes))

        done = await hub.operations.snapshots.restore(local(), entry.ts)

        now = state_of(hub.store)
        gone = {key for key in then if any(row_id in key[1] for _, row_id in erased)}
        links = {(LINKS, key[1]) for key in gone if key[0] == LINKS}
        assert set(done.erased) == {*erased, *links}
        assert now.keys() == then.keys() - gone
        # What hung on the keyword hangs on the one above it.
        parents = {row["name"]: row.get("parent_id") for (kind, _), row in now.items() if kind == KEYWORDS}
        assert (parents["asyncio"], parents["pytest"]) == (ids["编程"], ids["编程"])
        assert all((view.get(*key) or {})["erased"] for key in erased)
        await hub.operations.log.undo(local(), str(done.restore_id))


async def test_another_process_sees_a_restore_in_search_and_caches(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub, open_hub_at(tmp_path) as other:
        ids = await fill(hub)
        then, entry = state_of(hub.store), await other.operations.snapshots.create()
        await hub.keywords.tree.update(local(), ids["asyncio"], {"name": "trio"})
        assert (await other.keywords.search.search(local(), "asyncio", expand=False)).node is None

        await hub.operations.snapshots.restore(local(), entry.ts)

        assert (await other.keywords.search.search(local(), "asyncio", expand=False)).node is not None
        assert (await other.keywords.search.search(local(), "trio", expand=False)).node is None
        assert state_of(other.store) == then
        assert [item.ts for item in await other.operations.snapshots.entries()] == [f"{entry.ts}-2", entry.ts]


async def test_a_snapshot_of_another_directory_restores_into_a_fresh_one(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path / "old") as hub:
        await fill(hub)
        then, entry = state_of(hub.store), await hub.operations.snapshots.create()
    async with open_hub_at(tmp_path / "new") as hub:
        shutil.copytree(tmp_path / "old" / "snapshots", tmp_path / "new" / "snapshots")

        done = await hub.operations.snapshots.restore(local(), entry.ts)

        restored = state_of(hub.store)
        assert {key: row for key, row in restored.items() if key[1] != ROOT_ID} == {
            key: row for key, row in then.items() if key[1] != ROOT_ID
        }
        await hub.operations.log.undo(local(), str(done.restore_id))
        assert list(state_of(hub.store)) == [(KEYWORDS, ROOT_ID)]


async def test_a_snapshot_of_a_compacted_log_restores(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_hub_at(tmp_path, clock) as hub:
        ids = await fill(hub)
        then = state_of(hub.store)
        clock.advance(48 * HOUR_S)
        await hub.store.compact(0.0, run_in_process(FileSystem()))
        entry = await hub.operations.snapshots.create()
        await change_filled(hub, ids)

        await hub.operations.snapshots.restore(local(), entry.ts)

        assert state_of(hub.store) == then
        names = [piece.name for piece in Archive.read(Path(entry.path)).members]
        assert [name.partition("-")[0] for name in names] == ["FORMAT", "change_log/base", "change_log/segment"]


async def test_missing_and_damaged_snapshots_are_refused(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        ids = await fill(hub)
        entry = await hub.operations.snapshots.create()
        await change_filled(hub, ids)
        now, spoilt = state_of(hub.store), tmp_path / "snapshots" / "snapshot_20200101T000000Z.tar.gz"
        spoilt.write_bytes(Path(entry.path).read_bytes()[:-100])  # noqa: ASYNC240 -- a test may wait
        before = read_folder(tmp_path).keys()

        for ts in ("20190101T000000Z", "../../etc", f"{entry.ts}/../x"):
            with pytest.raises(NotFound):
                await hub.operations.snapshots.restore(local(), ts)
            with pytest.raises(NotFound):
                await hub.operations.snapshots.delete(ts)
        with pytest.raises(InvalidInput, match=r"change_log/segment-00000001\.jsonl"):
            await hub.operations.snapshots.restore(local(), "20200101T000000Z")

        assert state_of(hub.store) == now
        assert read_folder(tmp_path).keys() == before


async def test_leftovers_are_removed_and_unreadable_snapshots_reported(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await fill(hub)
        folder = tmp_path / "snapshots"
        (folder / ".restore-dead" / "change_log").mkdir(parents=True)
        (folder / ".restore-dead" / "change_log" / "segment-00000001.jsonl").write_bytes(b"x")
        (folder / "snapshot_20200101T000000Z.tar.gz.tmp").write_bytes(b"half")
        (folder / "snapshot_20200101T000000Z.tar.gz").write_bytes(b"no snapshot")
        (folder / "a note of mine.txt").write_bytes(b"stays")
        (folder / "snapshot_20190101T000000Z.tar.gz").symlink_to(tmp_path / "nowhere")

        entry = await hub.operations.snapshots.create()

        found = await hub.operations.snapshots.entries()
        assert [(item.ts, item.problem is None) for item in found] == [(entry.ts, True), ("20200101T000000Z", False)]
        names = {path.name for path in folder.iterdir()}
        assert names - {"snapshot_20190101T000000Z.tar.gz"} == {
            Path(entry.path).name,
            "snapshot_20200101T000000Z.tar.gz",
            "a note of mine.txt",
        }


async def test_changes_of_the_snapshot_folder_are_serialised(tmp_path: Path) -> None:
    async with (
        open_hub_at(tmp_path) as hub,
        open_hub_at(tmp_path) as other,
        open_hub_at(tmp_path, lock_timeout_s=0.05) as hurried,
    ):
        await fill(hub)
        made = await asyncio.gather(*(item.operations.snapshots.create() for item in (other, hub, other, hub)))
        descriptor = os.open(tmp_path / "snapshots", os.O_RDONLY)
        assert try_flock(descriptor)

        with pytest.raises(Conflict, match="another snapshot is being made"):
            await hurried.operations.snapshots.create()

        os.close(descriptor)
        assert len({entry.ts for entry in made}) == 4


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
async def test_a_full_or_failing_disk_leaves_no_partial_snapshot(tmp_path: Path, error: int) -> None:
    files = FaultyFileSystem()
    async with open_hub(Settings(data_dir=tmp_path, owner=OWNER), Overrides(files=files), maintain=False) as hub:
        ids = await fill(hub)
        entry = await hub.operations.snapshots.create()
        await change_filled(hub, ids)
        now = state_of(hub.store)
        for call in range(1, 5):
            files.begin(Plan(fail_at=call, error=error, kinds=("write_at",)))
            with pytest.raises(StorageFull if error == errno.ENOSPC else Unavailable):
                await hub.operations.snapshots.restore(local(), entry.ts)
            files.begin(Plan())

            assert state_of(hub.store) == now
            assert [path.name for path in (tmp_path / "snapshots").iterdir()] == [Path(entry.path).name]
