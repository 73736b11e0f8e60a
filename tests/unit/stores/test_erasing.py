"""After an erasure no file of the directory contains the text of the row; all else is unchanged."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.erasing import EraseRequest, RowTraces, is_erased
from knowhub.core.errors import Conflict, NotFound
from knowhub.core.language_models import ChatRequest
from knowhub.core.operation import Committed, Draft, View
from knowhub.core.projection import ErasureProgress
from knowhub.core.request_context import local_context
from knowhub.keywords.model import INFOS, NewInfo, NewKeyword
from knowhub.knowledge.model import KNOWLEDGE, Feedback, OnConflict, SearchQuery, Vote
from knowhub.operations.erasure import Erased, ErasureService
from knowhub.operations.model import OperationFilter
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.eraser import ErasureFollowUp
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_lock_folder
from knowhub.stores.files.projections.log_projection import DisabledExport
from knowhub.wiring.adapters import Overrides
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import OWNER, caller, import_line, local, new_knowledge, retry_key
from tests.erasing import find_files_with, find_indexes_with
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.fakes.scripted_chat import ScriptedChat
from tests.hubs import open_search_hub, save_record

pytestmark = pytest.mark.anyio

SECRET = "quaggaplatformnine sings the midnightsong of veldtgrass"
CHINESE = "第九站台的斑驴在午夜歌唱没有人听见它的歌声"
CASE = "casequagga was seen when nobody else was looking at it"

Deed = Callable[[Hub], Awaitable[str]]


async def erase(hub: Hub, row_id: str, collection: str = KNOWLEDGE, **how: Any) -> Any:  # noqa: ANN401 -- any argument
    return await hub.operations.erasure.erase(local(), collection, row_id, **how)


async def save_and_update(hub: Hub) -> str:
    row_id = await save_record(hub, new_knowledge("harmless"))
    await hub.knowledge.records.patch(local(), row_id, {"content": SECRET, "tags": {"place": SECRET}})
    await hub.knowledge.records.patch(local(), row_id, {"content": "harmless again", "tags": {}})
    return row_id


async def save_and_vote(hub: Hub) -> str:
    row_id = await save_record(hub, new_knowledge(SECRET))
    await hub.knowledge.records.give_feedback(local(), row_id, Feedback(helpful_case={"task": SECRET, "outcome": CASE}))
    await hub.knowledge.records.give_feedback_batch(local(), [Vote(row_id, False, {"task": SECRET, "reason": CASE})])
    return row_id


async def save_and_delete(hub: Hub) -> str:
    row_id = await save_record(hub, new_knowledge(SECRET))
    await hub.knowledge.records.delete(local(), row_id)
    return row_id


async def save_undo_and_redo(hub: Hub) -> str:
    row_id = await save_record(hub, new_knowledge("harmless"))
    patch = await hub.knowledge.records.patch(local(), row_id, {"content": SECRET})
    undo = await hub.operations.log.undo(local(), patch.operation_id or "")
    await hub.operations.log.undo(local(), undo.operation_ids[0])
    return row_id


async def save_in_a_batch(hub: Hub) -> str:
    items = [new_knowledge(f"batch {number}") for number in range(999)]
    done = await hub.knowledge.records.save_batch(local(), [*items[:500], new_knowledge(SECRET), *items[500:]])
    return str(done.records[500].record["id"])


async def save_with_duplicate(hub: Hub) -> str:
    row_id = await save_record(hub, new_knowledge(SECRET))
    # The reply of this one holds the duplicate's row.
    await hub.knowledge.records.save_batch(local(), [new_knowledge(SECRET), new_knowledge("new")])
    return row_id


async def save_chinese(hub: Hub) -> str:
    return await save_record(hub, new_knowledge(f"{CHINESE}。{SECRET}", task=CHINESE, tags={"斑驴": [CHINESE]}))


async def import_with_id(hub: Hub) -> str:
    await hub.knowledge.exchange.import_lines(
        local(), [import_line("kept-id", SECRET), import_line("other", "x")], OnConflict.FAIL
    )
    return "kept-id"


@pytest.mark.parametrize(
    "deed",
    [
        save_and_update,
        save_and_vote,
        save_and_delete,
        save_undo_and_redo,
        save_in_a_batch,
        save_with_duplicate,
        save_chinese,
        import_with_id,
    ],
)
async def test_an_erased_record_leaves_no_trace_in_the_directory(tmp_path: Path, deed: Deed) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await deed(hub)
        kept = await save_record(hub, new_knowledge("what stays"))
        await hub.maintenance.tick()
        assert find_files_with(tmp_path, SECRET) != []

        done = await erase(hub, row_id)

        assert done.pending == []
        assert [find_files_with(tmp_path, text) for text in (SECRET, CHINESE, CASE)] == [[], [], []]
        assert find_indexes_with(tmp_path, SECRET) == []
        assert hub.store.status().damage == []
        assert (await hub.knowledge.records.get(local(), kept)).version == 1
        await assert_tells_only_the_fact(hub, row_id, done.operation_id)
    async with open_search_hub(tmp_path) as hub:
        assert hub.store.status().damage == []
        await assert_tells_only_the_fact(hub, row_id, done.operation_id)
        assert find_files_with(tmp_path, SECRET) == []


async def assert_tells_only_the_fact(hub: Hub, row_id: str, operation_id: str) -> None:
    with pytest.raises(NotFound):
        await hub.knowledge.records.get(local(), row_id)
    assert (await hub.knowledge.search.search(local(), SearchQuery(SECRET, min_score=1))).records == []
    entries = (await hub.knowledge.records.history(local(), row_id)).entries
    assert (entries[0].op, entries[0].actor, entries[0].operation_id) == ("erase_knowledge", OWNER, operation_id)
    assert SECRET not in str(entries)
    entry = await hub.operations.log.get(local(), operation_id)
    assert not entry.undoable
    assert all(is_erased(change.after) for change in entry.operation.changes)


async def test_visible_rows_with_the_same_text_are_named(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        li = caller(user_id="li")
        secret = str((await hub.knowledge.records.save(li, new_knowledge(SECRET, scopes=["user:owner"]))).record["id"])
        same = str(
            (await hub.knowledge.records.save(li, new_knowledge(f"  {SECRET.upper()} ", dedup=False))).record["id"]
        )
        holds = str((await hub.knowledge.records.save(li, new_knowledge(f"he said: {SECRET}!"))).record["id"])
        info = await hub.keywords.infos.create(li, NewInfo(f"seen: {SECRET}"))
        await hub.knowledge.records.save(caller(user_id="wu"), new_knowledge(SECRET))
        gone = str((await hub.knowledge.records.save(li, new_knowledge(f"not now: {SECRET}"))).record["id"])
        await hub.knowledge.records.patch(li, gone, {"content": "changed"})

        done = await hub.operations.erasure.erase(li, KNOWLEDGE, secret)

    assert set(done.other_rows) == {same, holds, info.record["id"]}


async def test_an_erasure_cannot_be_undone(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        first = await hub.knowledge.records.save(local(), new_knowledge(SECRET))
        row_id = str(first.record["id"])
        patch = await hub.knowledge.records.patch(local(), row_id, {"content": f"{SECRET}!"})
        undo = await hub.operations.log.undo(local(), patch.operation_id or "")
        deletion = await hub.knowledge.records.delete(local(), row_id)

        done = await erase(hub, row_id)

        for operation_id in (first.operation_id, patch.operation_id, undo.operation_ids[0], deletion):
            with pytest.raises(Conflict, match=row_id) as refused:
                await hub.operations.log.undo(local(), operation_id or "")
            named = {"collection": KNOWLEDGE, "id": row_id, "operation_id": done.operation_id}
            assert refused.value.extra["erased"] == [named]
            assert refused.value.extra["blocked_by"] == [named["operation_id"]]
        with pytest.raises(Conflict, match="erase_knowledge cannot be undone"):
            await hub.operations.log.undo(local(), done.operation_id)
        page = await hub.operations.log.page(local(), OperationFilter())
        assert [entry.undoable for entry in page.entries] == [False] * 5


async def test_an_operation_of_many_rows_is_not_undone_in_part(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        batch = await hub.knowledge.records.save_batch(local(), [new_knowledge(SECRET), new_knowledge("stays")])
        row_id, other = (str(item.record["id"]) for item in batch.records)
        await erase(hub, row_id)

        with pytest.raises(Conflict, match=row_id):
            await hub.operations.log.undo(local(), batch.operation_id or "")

        assert (await hub.knowledge.records.get(local(), other)).version == 1


async def test_two_erasures_in_one_batch_keep_the_other_rows(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        contents = [SECRET, CHINESE, "stays"]
        batch = await hub.knowledge.records.save_batch(local(), [new_knowledge(content) for content in contents])
        first, second, third = (str(item.record["id"]) for item in batch.records)

        await asyncio.gather(
            erase(hub, first), erase(hub, second), hub.knowledge.records.patch(local(), third, {"tags": {}})
        )

        assert find_files_with(tmp_path, SECRET) == find_files_with(tmp_path, CHINESE) == []
        assert b'"stays"' in (await hub.knowledge.records.get(local(), third)).json
        assert hub.store.status().damage == []


async def test_the_second_of_two_erasures_of_a_record_is_a_conflict(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))

        outcomes = await asyncio.gather(erase(hub, row_id), erase(hub, row_id), return_exceptions=True)

        # Which of them is the second, the lock decides.
        assert sorted(type(outcome).__name__ for outcome in outcomes) == [Conflict.__name__, Erased.__name__]
        assert hub.store.last_seq == 2


async def test_a_retry_that_the_store_answers_rewrites_nothing(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        done = await erase(hub, row_id, key=retry_key())
        before = sorted(path.name for path in (tmp_path / "change_log").iterdir())

    async with open_search_hub(tmp_path) as hub:
        # The service looks for the first answer before it asks the store: both may be asked at the same moment.
        rules = COLLECTIONS[KNOWLEDGE].erase_rules
        wanted = EraseRequest("default", OWNER, KNOWLEDGE, row_id, rules, must_not_run, retry_key())
        outcome = await hub.store.erase(wanted)

    assert isinstance(outcome, Committed)
    assert (outcome.replayed, outcome.operation.operation_id) == (True, done.operation_id)
    assert sorted(path.name for path in (tmp_path / "change_log").iterdir()) == before


def must_not_run(_view: View, _found: RowTraces) -> Draft:
    raise AssertionError("a retry is answered from the log")


async def test_a_line_of_many_megabytes_is_erased_from(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        # More than is read at once.
        row_id = await save_record(hub, new_knowledge(f"{SECRET} {'more of it ' * 500_000}"))
        other = await save_record(hub, new_knowledge("behind it"))

        await erase(hub, row_id)

        assert find_files_with(tmp_path, SECRET) == find_files_with(tmp_path, "more of it") == []
        assert (await hub.knowledge.records.get(local(), other)).version == 1
        assert hub.store.status().damage == []


async def test_the_index_of_an_emptied_account_is_removed(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        await hub.maintenance.tick()
        assert find_indexes_with(tmp_path, SECRET) != []
    async with open_search_hub(tmp_path) as hub:
        assert (await erase(hub, row_id)).pending == []
        assert find_indexes_with(tmp_path, SECRET) == []


async def test_an_index_with_a_damaged_note_is_removed(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        await hub.maintenance.tick()
        for metadata in (tmp_path / "indexes").rglob("built.json"):
            metadata.write_text("{")

        assert (await erase(hub, row_id)).pending == []
        assert find_indexes_with(tmp_path, SECRET) == []


async def test_quarantined_and_half_written_copies_are_erased(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        (tmp_path / "quarantine").mkdir()
        torn = tmp_path / "quarantine" / "segment-00000001-at-9.bytes"
        bytes_torn = b'\0\0{"seq":9}\n{"content":"' + SECRET.encode() + b'\n{"content":"another"}\n\0\0'
        torn.write_bytes(bytes_torn)
        leftovers = [
            tmp_path / "change_log" / "base-00000002.jsonl.tmp",
            tmp_path / "snapshots" / "snapshot_20260305T120000Z.tar.gz.tmp",
            tmp_path / "snapshots" / ".restore-0123" / "change_log" / "segment-00000001.jsonl",
        ]
        for path in leftovers:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SECRET)

        await erase(hub, row_id)

        assert find_files_with(tmp_path, SECRET) == []
        lost = bytes_torn.split(b"\n")[1]
        assert torn.read_bytes() == bytes_torn.replace(lost, b" " * len(lost))


async def test_bytes_after_the_durable_end_of_a_segment_are_erased(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        segment = tmp_path / "change_log" / "segment-00000001.jsonl"
        with segment.open("ab") as file:
            # The bytes of a failed write: they are never read, and the next write starts a new segment.
            file.write(segment.read_bytes().splitlines()[1][:900] + b"\n" + segment.read_bytes().splitlines()[1])
        await save_record(hub, new_knowledge("behind it"))

        await erase(hub, row_id)

        assert find_files_with(tmp_path, SECRET) == []
        assert hub.store.status().damage == []


async def test_only_model_calls_that_show_the_info_are_erased(tmp_path: Path) -> None:
    def link(question: ChatRequest) -> Mapping[str, Any]:
        return {"links": [], "suggested_names": [], "reason": "none"}

    settings = Settings(data_dir=tmp_path, owner=OWNER)
    async with open_hub(settings, Overrides(llm=ScriptedChat([link, link])), maintain=False) as hub:
        await hub.keywords.tree.create(local(), NewKeyword("quagga"))
        content = f'A quagga said: "{SECRET}"\n\\o/ and <more> 斑驴'
        secret = str((await hub.keywords.infos.create(local(), NewInfo(content, auto_link=True))).record["id"])
        other = await hub.keywords.infos.create(local(), NewInfo("Another quagga", auto_link=True))
        assert len(find_files_with(tmp_path, SECRET)) == 1

        await erase(hub, secret, INFOS)

        operations = {operation.operation_id: operation async for operation in hub.store.operations("default")}
        asked = [operation.agent_io for operation in operations.values() if operation.op == "create_info"]
        assert find_files_with(tmp_path, SECRET) == find_files_with(tmp_path, "斑驴") == []
        assert len(asked) == 2
        assert [item for item in asked if item is not None] == [operations[other.operation_id or ""].agent_io]


async def test_the_row_of_another_account_under_the_same_id_stays(tmp_path: Path) -> None:
    other = local_context(OWNER, "other")
    async with open_search_hub(tmp_path) as hub:
        for ctx in (local(), other):
            await hub.knowledge.exchange.import_lines(ctx, [import_line("same-id", SECRET)], OnConflict.FAIL)
        before = (await hub.knowledge.records.get(other, "same-id")).json

        done = await erase(hub, "same-id")

        assert done.other_rows == []
        assert (await hub.knowledge.records.get(other, "same-id")).json == before
        assert (
            len((await hub.knowledge.search.search(other, SearchQuery("quaggaplatformnine", min_score=1))).records) == 1
        )
    async with open_search_hub(tmp_path) as hub:
        assert (await hub.knowledge.records.get(other, "same-id")).json == before


async def test_snapshots_with_the_row_are_named_until_deleted(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        before = await hub.operations.snapshots.create()
        row_id = await save_record(hub, new_knowledge(SECRET))
        holds = await hub.operations.snapshots.create()

        done = await erase(hub, row_id, key=retry_key("erase"))

        assert before.ts not in done.snapshots
        assert list(done.snapshots) == [holds.ts]
        assert find_files_with(tmp_path, SECRET) == [f"snapshots/snapshot_{holds.ts}.tar.gz"]
        await hub.operations.snapshots.create()
        await hub.operations.snapshots.delete(holds.ts)
        assert (await erase(hub, row_id, key=retry_key("erase"))).snapshots == []
        assert find_files_with(tmp_path, SECRET) == []


async def test_a_snapshot_that_does_not_open_is_named_too(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        (tmp_path / "snapshots").mkdir(exist_ok=True)
        (tmp_path / "snapshots" / "snapshot_20260305T120000Z.tar.gz").write_bytes(b"no archive")

        assert (await erase(hub, row_id)).snapshots == ["20260305T120000Z"]


async def test_a_base_is_erased_from_as_the_segments_are(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        info = await hub.keywords.infos.create(local(), NewInfo(CHINESE))
        kept = await hub.keywords.infos.create(local(), NewInfo("kept"))
        await hub.compact(0.0)
        assert list((tmp_path / "change_log").glob("base-*")) != []
        assert any("base-" in name for name in find_files_with(tmp_path, SECRET))

        done = await erase(hub, row_id)
        await erase(hub, str(info.record["id"]), INFOS)

        assert done.pending == []
        assert find_files_with(tmp_path, SECRET) == find_files_with(tmp_path, CHINESE) == []
        with pytest.raises(NotFound):
            await hub.operations.log.undo(local(), info.operation_id or "")
    async with open_search_hub(tmp_path) as hub:
        assert hub.store.status().damage == []
        assert (await hub.keywords.infos.get(local(), str(kept.record["id"]))).version == 1
        assert hub.store.last_erase_seq == hub.store.last_seq
        assert [entry.op for entry in (await hub.knowledge.records.history(local(), row_id)).entries] == [
            "erase_knowledge"
        ]


async def test_an_erasure_waits_for_the_leader(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, owner=OWNER, index_interval_s=0.05)
    async with open_hub(settings) as keeping, open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        await keeping.maintenance.tick()
        assert "records/knowledge.jsonl" in find_files_with(tmp_path, SECRET)

        done = await erase(hub, row_id)

        assert keeping.maintenance.is_leader
        assert done.pending == []
        assert find_files_with(tmp_path, SECRET) == []
        assert find_indexes_with(tmp_path, SECRET) == []


async def test_unreadable_derived_files_are_reported_as_pending(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        files = FaultyFileSystem(Plan(fail_at=1, lasting=True, kinds=["look"]))
        derived: dict[str, ErasureProgress] = {
            "context": DisabledExport(files, tmp_path / "context"),
            "records": hub.exports.records,
        }
        around = ErasureFollowUp(files, DataDirectory(tmp_path), hub.maintenance, derived, wait_s=0.05)

        done = await ErasureService(hub.store, around, COLLECTIONS).erase(local(), KNOWLEDGE, row_id)

        assert done.pending == ["context"]


async def test_pending_rebuilds_of_another_process_are_reported(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as keeping, open_search_hub(tmp_path) as hub:
        row_id = await save_record(keeping, new_knowledge(SECRET))
        await keeping.maintenance.tick()
        derived: dict[str, ErasureProgress] = {
            "indexes": hub.indexes.records.lexical,
            "records": hub.exports.records,
            "files": hub.store.eraser,
        }
        impatient = ErasureFollowUp(FileSystem(), DataDirectory(tmp_path), hub.maintenance, derived, wait_s=0.05)
        erasures = ErasureService(hub.store, impatient, COLLECTIONS)

        done = await erasures.erase(local(), KNOWLEDGE, row_id)

        assert done.pending == ["indexes", "records", "files"]
        await keeping.maintenance.tick()
        with try_lock_folder(FileSystem(), DataDirectory(tmp_path).change_log) as is_locked:
            # A rewrite runs: its files are not to be touched.
            await hub.maintenance.tick()
        assert is_locked
        assert find_files_with(tmp_path, SECRET) != []
        # It has left the file that was replaced: whoever has erased the row removes that now.
        await hub.maintenance.tick()
        assert find_files_with(tmp_path, SECRET) == []
