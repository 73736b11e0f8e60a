"""The tree's record files: the seeds' names and times, every version of every row, and a doctor who agrees."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, World, examine, open_hub
from knowhub.core import clock
from knowhub.core.request_context import local_context
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, NewInfo, NewKeyword
from knowhub.knowledge.model import COLLECTION
from knowhub.settings import Settings
from knowhub.stores.files.derived.record_rows import record_file, record_of, record_text
from knowhub.stores.files.doctor.findings import Severity
from tests.builders import OWNER, START, FakeClock, knowledge_row, local, new_knowledge
from tests.fakes.plain_text import PlainText
from tests.keyword_rows import info_row, keyword_row, link_row


@pytest.mark.parametrize(
    ("account", "collection", "name"),
    [
        ("default", KEYWORDS, "nodes.jsonl"),
        ("default", INFOS, "infos.jsonl"),
        ("default", LINKS, "links.jsonl"),
        ("default", COLLECTION, f"{COLLECTION}.jsonl"),
        ("team a", KEYWORDS, "accounts/team%20a/nodes.jsonl"),
        ("../up", LINKS, "accounts/%2E%2E%2Fup/links.jsonl"),
    ],
)
def test_each_collection_has_the_file_that_the_seeds_name(account: str, collection: str, name: str) -> None:
    assert record_file(account, collection) == name


@pytest.mark.parametrize(
    ("collection", "row"), [(KEYWORDS, keyword_row("k", "中文")), (INFOS, info_row("i")), (LINKS, link_row("i", "k"))]
)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_row_of_the_tree_has_float_seconds_and_says_whether_it_is_deleted(
    collection: str, row: dict[str, Any], deleted: bool
) -> None:
    stored = row | {"updated_at": clock.iso(START + 0.25)} | ({"deleted": True} if deleted else {})

    written = orjson.loads(record_of(collection, stored))

    assert written == stored | {"created_at": START, "updated_at": START + 0.25, "deleted": deleted}
    assert isinstance(written["created_at"], float)
    assert record_text(collection, orjson.dumps(stored)) == record_of(collection, stored)


def test_a_record_of_another_kind_stands_as_the_log_holds_it() -> None:
    text = orjson.dumps(knowledge_row())

    assert record_text(COLLECTION, text) == text
    assert record_of(COLLECTION, knowledge_row()) == text


async def grow(hub: Hub) -> None:
    """Do something of everything, so that the files hold fresh, changed and deleted rows."""
    python = (await hub.keywords.create(local(), NewKeyword("Python"), auto_place=False)).row["id"]
    go = (await hub.keywords.create(local(), NewKeyword("Go", python), auto_place=False)).row["id"]
    info = await hub.infos.create(local(), NewInfo('中文 "quoted"', keyword_ids=[python, go]))
    await hub.infos.unlink(local(), info.row["id"], python)
    merged = await hub.keywords.merge(local(), go, python)
    await hub.operations.undo(local(), str(merged.operation_id))
    await hub.keywords.delete(local(), go)
    await hub.infos.delete(local(), info.row["id"])
    await hub.keywords.create(local_context(OWNER, "other"), NewKeyword("elsewhere"), auto_place=False)
    await hub.knowledge.save(local(), new_knowledge())


def in_a_hub(folder: Path, *, runs: int = 1) -> None:
    async def run() -> None:
        settings = Settings(data_dir=folder, owner=OWNER)
        async with open_hub(settings, World(text=PlainText(), clock=FakeClock()), keep=False) as hub:
            for _ in range(runs):
                await grow(hub)
                await hub.keeper.run_once()
                assert hub.keeper.failures == {}

    asyncio.run(run())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def logged(folder: Path, account: str, collection: str) -> list[dict[str, Any]]:
    """Return every version of every row of a collection, as the log has them."""
    lines = [line for path in sorted((folder / "change_log").glob("*.jsonl")) for line in lines_of(path)]
    operations = [line for line in lines if line.get("account") == account]
    changes = [change for operation in operations for change in operation["changes"]]
    return [change["after"] for change in changes if change["collection"] == collection]


def test_the_files_hold_every_version_of_every_row_in_the_order_of_the_log(tmp_path: Path) -> None:
    in_a_hub(tmp_path, runs=2)

    for collection, name in ((KEYWORDS, "nodes"), (INFOS, "infos"), (LINKS, "links")):
        written, rows = lines_of(tmp_path / "records" / f"{name}.jsonl"), logged(tmp_path, "default", collection)
        assert len(written) == len(rows) > 0
        for line, row in zip(written, rows, strict=True):
            times = {field: clock.parse_iso(row[field]) for field in ("created_at", "updated_at")}
            assert line == {**row, **times, "deleted": row.get("deleted", False)}
        assert {line["deleted"] for line in written} == {True, False}
    elsewhere = lines_of(tmp_path / "records" / "accounts" / "other" / "nodes.jsonl")
    assert [line["name"] for line in elsewhere] == ["root", "elsewhere", "elsewhere"]


def test_the_doctor_finds_nothing_after_a_tidy_close(tmp_path: Path) -> None:
    in_a_hub(tmp_path)
    in_a_hub(tmp_path)

    findings = examine(Settings(data_dir=tmp_path, owner=OWNER))

    assert [one for one in findings if one.severity is Severity.PROBLEM] == []
    records = [one for one in findings if one.subject == "records"]
    assert [(one.severity, one.detail) for one in records] == [(Severity.OK, "as the log says")]


@pytest.mark.parametrize("name", ["nodes", "infos", "links"])
def test_the_doctor_names_a_file_of_the_tree_that_says_something_else(tmp_path: Path, name: str) -> None:
    in_a_hub(tmp_path)
    path = tmp_path / "records" / f"{name}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":7', 1))

    problems = [one for one in examine(Settings(data_dir=tmp_path, owner=OWNER)) if one.severity is Severity.PROBLEM]

    assert [one.subject for one in problems] == [str(path)]


def test_files_that_are_gone_are_written_anew_from_the_log(tmp_path: Path) -> None:
    in_a_hub(tmp_path)
    written = {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.jsonl")}
    (tmp_path / "records" / "nodes.jsonl").unlink()

    async def open_and_close() -> None:
        async with open_hub(Settings(data_dir=tmp_path, owner=OWNER), World(text=PlainText()), keep=False):
            pass

    asyncio.run(open_and_close())

    assert {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.jsonl")} == written
