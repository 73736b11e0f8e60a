"""The record files of the tree: their names and times, and every version of every row."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core import clock
from knowhub.core.request_context import local_context
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, NewInfo, NewKeyword
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.settings import Settings
from knowhub.stores.files.projections.record_files import record_path
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, FakeClock, local, new_knowledge
from tests.fakes.plain_text import PlainText


@pytest.mark.parametrize(
    ("account", "name", "path"),
    [
        ("default", "nodes", "nodes.jsonl"),
        ("default", KNOWLEDGE, f"{KNOWLEDGE}.jsonl"),
        ("team a", "nodes", "accounts/team%20a/nodes.jsonl"),
        ("../up", "links", "accounts/%2E%2E%2Fup/links.jsonl"),
    ],
)
def test_each_account_has_its_own_files(account: str, name: str, path: str) -> None:
    assert record_path(account, name) == path


async def write_everything(hub: Hub) -> None:
    """Do something of everything, so that the files hold fresh, changed and deleted rows."""
    python = (
        await hub.keywords.tree.create(local(), NewKeyword("Python", allow_duplicate=True), auto_place=False)
    ).record["id"]
    go = (await hub.keywords.tree.create(local(), NewKeyword("Go", python), auto_place=False)).record["id"]
    info = await hub.keywords.infos.create(local(), NewInfo('中文 "quoted"', keyword_ids=[python, go]))
    await hub.keywords.infos.unlink(local(), info.record["id"], python)
    merged = await hub.keywords.tree.merge(local(), go, python)
    await hub.operations.log.undo(local(), str(merged.operation_id))
    await hub.keywords.tree.delete(local(), go)
    await hub.keywords.infos.delete(local(), info.record["id"])
    await hub.keywords.tree.create(
        local_context(OWNER, "other"), NewKeyword("elsewhere", allow_duplicate=True), auto_place=False
    )
    await hub.knowledge.records.save(local(), new_knowledge())


def run_in_hub(folder: Path, *, runs: int = 1) -> None:
    async def run() -> None:
        settings = Settings(data_dir=folder, owner=OWNER)
        async with open_hub(settings, Overrides(text=PlainText(), clock=FakeClock()), maintain=False) as hub:
            for _ in range(runs):
                await write_everything(hub)
                await hub.maintenance.tick()
                assert hub.maintenance.failures == {}

    asyncio.run(run())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def list_versions(folder: Path, account: str, collection: str) -> list[dict[str, Any]]:
    """Return every version of every row of a collection, as the log has them."""
    lines = [line for path in sorted((folder / "change_log").glob("*.jsonl")) for line in lines_of(path)]
    operations = [line for line in lines if line.get("account") == account]
    changes = [change for operation in operations for change in operation["changes"]]
    return [change["after"] for change in changes if change["collection"] == collection]


def test_the_files_hold_every_version_of_every_row_in_the_order_of_the_log(tmp_path: Path) -> None:
    run_in_hub(tmp_path, runs=2)

    for collection, name in ((KEYWORDS, "nodes"), (INFOS, "infos"), (LINKS, "links")):
        written, rows = lines_of(tmp_path / "records" / f"{name}.jsonl"), list_versions(tmp_path, "default", collection)
        assert len(written) == len(rows) > 0
        for line, row in zip(written, rows, strict=True):
            times = {field: clock.parse_iso(row[field]) for field in ("created_at", "updated_at")}
            assert line == {**row, **times, "deleted": row.get("deleted", False)}
            assert isinstance(line["created_at"], float)
        assert {line["deleted"] for line in written} == {True, False}
    elsewhere = lines_of(tmp_path / "records" / "accounts" / "other" / "nodes.jsonl")
    assert [line["name"] for line in elsewhere] == ["root", "elsewhere", "elsewhere"]


def test_an_account_of_any_name_has_a_folder_that_the_disk_takes() -> None:
    names = ["数" * 200, "数" * 199 + "据", "..", "a/b", "x" * 200]

    folders = [record_path(name, "knowledge").split("/")[1] for name in names]

    assert max(len(folder.encode()) for folder in folders) <= 255
    assert len(set(folders)) == len(names)
    assert not {".", ".."} & set(folders)
