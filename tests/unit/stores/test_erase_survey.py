"""What an erasure looks for: rows with the same text, snapshots, and leftovers of restores."""

import os
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from knowhub.bootstrap import Hub
from knowhub.context.model import NODES, PARTS
from knowhub.core.errors import Conflict
from knowhub.core.operation import Draft, Row, Write
from knowhub.keywords.model import INFOS
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.erasing.erase_plan import ErasePlan, plan_erase
from knowhub.stores.files.erasing.eraser import ErasureFollowUp
from knowhub.stores.files.erasing.line_eraser import Target
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import Position, lock_shared
from knowhub.stores.files.store import FileStore
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import caller, knowledge_row, local, new_knowledge, open_files
from tests.context_rows import draft, node_row, part_rows, session_at
from tests.erasing import find_files_with
from tests.hubs import open_hub_at, open_search_hub, save_record
from tests.keyword_rows import info_row

pytestmark = pytest.mark.anyio

SECRET = "quaggaplatformnine sings the midnightsong of veldtgrass"


@pytest.mark.parametrize(("content", "named"), [("said twice", ["info-2"]), ("  ", [])])
async def test_empty_rows_are_not_copies_of_each_other(tmp_path: Path, content: str, named: Sequence[str]) -> None:
    store = open_files(tmp_path)
    for row_id in ("info-1", "info-2"):
        await create(store, info_row(row_id) | {"content": content})
    await store.close()

    found = plan(tmp_path, Target("default", INFOS, "info-1")).found

    assert [row_id for _, row_id in found.rows] == named
    assert list(found.texts) == [content]


async def create(store: FileStore, row: Row) -> None:
    """Write a row without the checks of a service, which would refuse an empty one."""
    writes = [Write(INFOS, row["id"], row)]
    await store.commit("default", "user:li", lambda _view: Draft("create_info", writes, is_checked=True))


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_merged_rows_are_named_transitively_if_visible(tmp_path: Path, *, is_compacted: bool) -> None:
    async with open_search_hub(tmp_path) as hub:
        rows: dict[str, Row] = {
            "knowledge-whole": {},
            "knowledge-gone": {"merged_into": "knowledge-whole", "deleted": True},
            "knowledge-part-of-gone": {"merged_into": "knowledge-gone"},
            "knowledge-hidden": {"merged_into": "knowledge-whole", "scopes": ["user:wu"], "owner": "user:wu"},
            "knowledge-elsewhere": {"merged_into": "knowledge-other"},
            "knowledge-other": {},
            "knowledge-freed": {"merged_into": "knowledge-whole"},
        }
        for row_id, fields in rows.items():
            await put(hub, {**knowledge_row(row_id, content=f"of {row_id}"), "owner": "user:li", **fields})
        await put(hub, {**knowledge_row("knowledge-freed", content="of freed"), "owner": "user:li", "version": 2})
        if is_compacted:
            await hub.compact(0.0)

        async def others(row_id: str) -> Sequence[str]:
            return (await hub.operations.erasure.erase(caller(user_id="li"), KNOWLEDGE, row_id)).other_rows

        assert await others("knowledge-whole") == ["knowledge-part-of-gone"]
        assert await others("knowledge-elsewhere") == ["knowledge-other"]


async def put(hub: Hub, row: Row) -> None:
    """Write a record without the checks of a service, which would not create a merged one alone."""
    await hub.store.commit(
        "default", "user:li", lambda _view: Draft("slim_knowledge", [Write(KNOWLEDGE, row["id"], row)])
    )


@pytest.mark.parametrize("account", ["default", "other"])
async def test_merged_rows_of_another_account_are_not_named(tmp_path: Path, account: str) -> None:
    store = open_files(tmp_path)
    for name in ("default", "other"):
        part = {**knowledge_row(f"knowledge-of-{name}"), "merged_into": "knowledge-same"}
        rows = [knowledge_row("knowledge-same", content=f"of {name}"), part]
        await write(store, name, *(Write(KNOWLEDGE, row["id"], row) for row in rows))
    await store.close()

    found = plan(tmp_path, Target.of(account, KNOWLEDGE, "knowledge-same", COLLECTIONS[KNOWLEDGE].erase_rules)).found

    assert list(found.texts) == [f"of {account}"]
    assert list(found.parts) == [f"knowledge-of-{account}"]


async def test_only_messages_of_the_same_account_belong_to_a_session(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    ours, theirs = part_rows(session_at(), [SECRET]), part_rows(session_at(), ["theirs 1", "theirs 2"])
    await write(store, "default", *draft(node_row(session_at()), *ours).writes)
    # No URI of the one account is an id of the other, for any service; the log would hold it.
    await write(store, "other", *draft(*theirs).writes)
    await store.close()

    made = plan(tmp_path, Target.of("default", NODES, session_at(), COLLECTIONS[NODES].erase_rules))

    assert list(made.found.below) == [(PARTS, ours[0]["id"])]
    lines = (tmp_path / "change_log" / "segment-00000001.jsonl").read_bytes().splitlines(keepends=True)
    changed = [orjson.loads(line)["account"] for line in lines if made.transform(line) != line]
    assert changed == ["default"]
    assert list(made.numbers) == [1]


async def write(store: FileStore, account: str, *writes: Write) -> None:
    await store.commit(account, "user:li", lambda _view: Draft("import", list(writes)))


def plan(folder: Path, target: Target) -> ErasePlan:
    size = (folder / "change_log" / "segment-00000001.jsonl").stat().st_size
    rules = COLLECTIONS[target.collection].erase_rules
    return plan_erase(FileSystem(), DataDirectory(folder), target, rules, Position(1, 1, size))


class VanishingFiles(FileSystem):
    """Files go between the moment at which they are named and the one at which they are opened."""

    def names(self, folder: Path) -> Sequence[str]:
        names = super().names(folder)
        for name in names:
            (folder / name).unlink()
        return names


async def test_a_snapshot_deleted_during_the_search_is_skipped(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        row_id = await save_record(hub, new_knowledge(SECRET))
        made = await hub.operations.snapshots.create()
        directory = DataDirectory(tmp_path)
        here = ErasureFollowUp(FileSystem(), directory, hub.maintenance, {})
        meanwhile = ErasureFollowUp(VanishingFiles(), directory, hub.maintenance, {})

        before = await here.snapshots_with("default", KNOWLEDGE, row_id)
        found = await meanwhile.snapshots_with("default", KNOWLEDGE, row_id)

        assert (before, found) == ([made.ts], [])


async def test_an_erasure_is_refused_during_a_restore_and_removes_leftovers(tmp_path: Path) -> None:
    scratch = tmp_path / "snapshots" / ".restore-0123"
    async with open_hub_at(tmp_path, lock_timeout_s=0.1) as hub:
        known = await save_record(hub, new_knowledge(SECRET))
        scratch.mkdir(parents=True)
        (scratch / "segment-00000001.jsonl").write_text(SECRET)
        # A running restore does the same.
        restoring = os.open(scratch.parent, os.O_RDONLY)
        lock_shared(restoring)

        with pytest.raises(Conflict, match="being made or restored"):
            await hub.operations.erasure.erase(local(), KNOWLEDGE, known)
        stands = (await hub.knowledge.records.get(local(), known)).version
        os.close(restoring)
        await hub.operations.erasure.erase(local(), KNOWLEDGE, known)

        assert stands == 1
        assert find_files_with(tmp_path, SECRET) == []
