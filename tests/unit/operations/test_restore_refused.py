"""Restores and snapshots that fail: each gives its reason and changes nothing."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.errors import Conflict, InvalidInput, StorageFull, Unavailable
from knowhub.core.operation import Draft, Outcome, Write
from knowhub.core.store_results import SnapshotReason
from knowhub.knowledge.model import KNOWLEDGE, OnConflict
from knowhub.operations.snapshots import Snapshots
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_line import add_checksum
from knowhub.stores.files.subprocess_runner import run_in_process
from knowhub.wiring.adapters import Overrides
from knowhub.wiring.collections import COLLECTIONS
from tests.archives import Archive, ArchiveMember
from tests.builders import OWNER, FakeClock, import_line, local, new_knowledge
from tests.fakes.concurrent_snapshots import ConcurrentSnapshots
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.hubs import make_snapshot_folder, open_hub_at
from tests.whole_state import state_of

pytestmark = pytest.mark.anyio

TS = "20200101T000000Z"
HOUR_S = 3600.0


async def add_snapshot_with_row(hub: Hub, root: Path, collection: str, row_id: str, row: Mapping[str, Any]) -> None:
    """Add a snapshot with one more row, as another program could write it."""
    entry = await hub.operations.snapshots.create()
    archive = Archive.read(Path(entry.path))
    layout, log = archive.members
    seq = archive.manifest["last_seq"] + 1
    change = {"collection": collection, "id": row_id, "before": None, "after": row}
    line = {
        "seq": seq,
        "batch": 0,
        "op": "x",
        "operation_id": "x",
        "account": "default",
        "actor": OWNER,
        "timestamp": 1.0,
        "changes": [change],
        "agent_io": None,
        "undo_of": None,
        "idempotency": None,
    }
    spoilt = archive.with_members(layout, ArchiveMember(log.name, log.data + add_checksum(orjson.dumps(line)[:-1])))
    spoilt.with_manifest(last_seq=seq).write(root / "snapshots" / f"snapshot_{TS}.tar.gz")


@pytest.mark.parametrize(
    ("collection", "row_id", "row"),
    [
        (KNOWLEDGE, "a", {"id": "a", "version": 1}),
        (KNOWLEDGE, "a", {"id": "b", "version": 1}),
        ("keywords", "a", {"id": "a", "parent_id": 5}),
        ("infos", "a", {"id": "a", "version": 1, "owner": "user:li", "scopes": None}),
        ("links", "a:b", {"info_id": "a", "keyword_id": "b", "relation": "NONE", "version": 1}),
        ("links", "a:b", {"info_id": "a", "keyword_id": "c", "relation": "PRIMARY", "version": 1}),
        ("infos", "a", {"id": "a", "version": "one", "owner": "user:li", "scopes": []}),
    ],
)
async def test_an_invalid_row_of_a_snapshot_is_named(
    tmp_path: Path, collection: str, row_id: str, row: dict[str, Any]
) -> None:
    async with open_hub_at(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        await add_snapshot_with_row(hub, tmp_path, collection, row_id, row)
        now = state_of(hub.store)

        with pytest.raises(InvalidInput, match=f"{collection} '{row_id}' is no row of this KnowHub"):
            await hub.operations.snapshots.restore(local(), TS)

        assert state_of(hub.store) == now


async def test_a_manifest_of_another_log_is_refused(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        entry = await hub.operations.snapshots.create()
        Archive.read(Path(entry.path)).with_manifest(log_id="another").write(Path(entry.path))

        with pytest.raises(InvalidInput, match=r"manifest\.json: tells of another log"):
            await hub.operations.snapshots.restore(local(), entry.ts)


async def test_a_restore_over_a_damaged_log_is_refused(tmp_path: Path) -> None:
    async with open_hub_at(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge("zebra"))
        entry = await hub.operations.snapshots.create()
        segment = tmp_path / "change_log" / "segment-00000001.jsonl"

        segment.write_bytes(segment.read_bytes().replace(b"zebra", b"zebrA"))
        with pytest.raises(Unavailable, match="the log is damaged"):
            await hub.operations.snapshots.restore(local(), entry.ts)


async def test_a_full_disk_refuses_a_restore(tmp_path: Path) -> None:
    class Full(FileSystem):
        def free(self, folder: Path) -> int:
            return 1024

    async with open_hub_at(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        entry = await hub.operations.snapshots.create()
        folder = make_snapshot_folder(hub, tmp_path, run_in_process(Full()))

        with pytest.raises(StorageFull, match="1024 are free"):
            async with folder.prepare(entry.ts, "default"):
                pass


async def test_a_compaction_waits_for_a_snapshot(tmp_path: Path) -> None:
    async def compacting(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with pytest.raises(Conflict, match="copied to a snapshot"):
            await hub.compact(0.0)
        return await run_in_process(FileSystem())(name, root, arguments)

    async with open_hub_at(tmp_path, lock_timeout_s=0.1) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())

        entry = await make_snapshot_folder(hub, tmp_path, compacting).create(SnapshotReason.DEMAND)

        assert entry.last_seq == hub.store.last_seq
        assert (await hub.compact(0.0)).operations == entry.last_seq


async def test_a_compaction_during_a_restore_is_a_conflict(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_hub_at(tmp_path, clock) as hub:
        await hub.knowledge.records.save(local(), new_knowledge("as it was"))
        entry = await hub.operations.snapshots.create()
        async with make_snapshot_folder(hub, tmp_path).prepare(entry.ts, "default") as prepared:
            await hub.knowledge.records.save(local(), new_knowledge("written since"))
            clock.advance(48 * HOUR_S)
            await hub.store.compact(0.0, run_in_process(FileSystem()))

            with pytest.raises(Conflict, match="compacted while the restore was prepared"):
                list(prepared.list_changes(prepared.last_seq, hub.store.view("default")))


@pytest.mark.parametrize("kind", ["remove", "sync_folder"])
async def test_snapshots_that_cannot_be_deleted_or_read_are_reported(tmp_path: Path, kind: str) -> None:
    files = FaultyFileSystem()
    async with open_hub(Settings(data_dir=tmp_path, owner=OWNER), Overrides(files=files), maintain=False) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        entry = await hub.operations.snapshots.create()
        files.begin(Plan(fail_at=1, kinds=("open_existing",)))
        listed = await hub.operations.snapshots.entries()
        files.begin(Plan(fail_at=1, kinds=(kind,)))

        with pytest.raises(Unavailable, match="is not certain that snapshot"):
            await hub.operations.snapshots.delete(entry.ts)

        files.begin(Plan())
        assert [(item.ts, "Input/output error" in str(item.problem)) for item in listed] == [(entry.ts, True)]


@pytest.mark.parametrize(("rows", "is_restored"), [(500, True), (501, False)])
async def test_a_restore_accepts_some_writes_and_gives_up_after_ten_attempts(
    tmp_path: Path, rows: int, is_restored: bool
) -> None:
    async with open_hub_at(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge("as it was"))
        then, entry = state_of(hub.store), await hub.operations.snapshots.create()
        await hub.knowledge.records.save(local(), new_knowledge("written since"))
        now = state_of(hub.store)
        snapshots = snapshots_of(hub, ConcurrentSnapshots(make_snapshot_folder(hub, tmp_path), rows))

        outcome = (await asyncio.gather(snapshots.restore(local(), entry.ts), return_exceptions=True))[0]

        assert isinstance(outcome, Conflict) is not is_restored
        assert state_of(hub.store) == (then if is_restored else now)


@pytest.mark.parametrize("by_hand", [500, 700])
async def test_rows_written_by_others_at_the_last_moment_are_kept(tmp_path: Path, by_hand: int) -> None:
    async with open_hub_at(tmp_path) as hub:
        lines = [import_line(f"import-{number}", f"line {number}") for number in range(700)]
        before = await hub.knowledge.exchange.import_lines(local(), lines, OnConflict.FAIL)
        then, entry = state_of(hub.store), await hub.operations.snapshots.create()
        await hub.operations.log.undo(local(), str(before.import_id))
        writing: list[asyncio.Task[Outcome]] = []

        def write_by_hand() -> None:
            rows = [{**then[KNOWLEDGE, f"import-{number}"], "version": 9} for number in range(by_hand)]
            writes = [Write(KNOWLEDGE, row["id"], {**row, "updated_at": row["created_at"]}) for row in rows]
            committing = hub.store.commit("default", OWNER, lambda _view: Draft("import_knowledge", writes))
            writing.append(asyncio.create_task(committing))

        snapshots = snapshots_of(hub, ConcurrentSnapshots(make_snapshot_folder(hub, tmp_path), at_last=write_by_hand))
        done = await snapshots.restore(local(), entry.ts)

        await asyncio.gather(*writing)
        assert state_of(hub.store) == then
        assert done.restored + by_hand >= 700
        if done.restore_id is not None:
            group = await hub.store.group("default", done.restore_id)
            assert all(operation.changes for operation in group)


def snapshots_of(hub: Hub, folder: ConcurrentSnapshots) -> Snapshots:
    return Snapshots(folder, hub.store, hub.ids, COLLECTIONS, hub.keywords.tree.make_root)
