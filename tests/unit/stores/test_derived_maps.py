"""The maps of the tree in indexes/: their content, when they are written, and that erased text is not in them."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.request_context import RequestContext, local_context
from knowhub.keywords.model import ROOT_ID, NewInfo, NewKeyword
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.projections.json_maps import MAP_NAMES, JsonMaps, write_maps
from knowhub.stores.files.projections.record_files import RecordFiles
from knowhub.stores.files.subprocess_runner import run_in_subprocess
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, FakeClock, local, new_knowledge
from tests.fakes.faulty_files import FaultyFileSystem
from tests.fakes.plain_text import PlainText
from tests.keyword_rows import keyword_row

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def hub_on(folder: Path, interval_s: float = 0, files: FaultyFileSystem | None = None) -> AsyncIterator[Hub]:
    settings = Settings(data_dir=folder, owner=OWNER, maps_interval_s=interval_s)
    async with open_hub(settings, Overrides(text=PlainText(), clock=FakeClock(), files=files), maintain=False) as hub:
        yield hub


async def create_keyword(hub: Hub, name: str, parent_id: str | None = None, ctx: RequestContext | None = None) -> str:
    new = NewKeyword(name, parent_id) if parent_id else NewKeyword(name)
    return str((await hub.keywords.tree.create(ctx or local(), new, auto_place=False)).record["id"])


async def create_info(hub: Hub, content: str, *keyword_ids: str) -> str:
    return str((await hub.keywords.infos.create(local(), NewInfo(content, keyword_ids=list(keyword_ids)))).record["id"])


def records_of(hub: Hub) -> RecordFiles:
    assert isinstance(hub.exports.records, RecordFiles)
    return hub.exports.records


def read_map(folder: Path, name: str, account: str = "") -> Any:  # noqa: ANN401 -- any JSON of the file
    return orjson.loads((folder / "indexes" / account / name).read_bytes())


def lines_by_offset(folder: Path, index: str, file: str) -> dict[str, Any]:
    """Return, for each id of an index, the line of the record file at its offset."""
    data = (folder / "records" / file).read_bytes()
    return {
        row_id: orjson.loads(data[offset : data.index(b"\n", offset)])
        for row_id, offset in read_map(folder, index).items()
    }


async def test_the_maps_describe_the_tree(tmp_path: Path) -> None:
    async with hub_on(tmp_path) as hub:
        python = await create_keyword(hub, "Python")
        go = await create_keyword(hub, "Go", python)
        gone = await create_keyword(hub, "Gone")
        first = await create_info(hub, "用 undetected_chromedriver", python, go)
        second = await create_info(hub, "Wait", go)
        third = await create_info(hub, "unsaid", go)
        await hub.keywords.infos.unlink(local(), first, python)
        await hub.keywords.infos.delete(local(), third)
        await hub.keywords.tree.delete(local(), gone)
        await hub.keywords.tree.update(local(), go, {"description": "said later"})
        await hub.maintenance.tick()

        assert hub.maintenance.failures == {}
        assert read_map(tmp_path, "inverted.json") == {"python": [python], "go": [go]}
        assert read_map(tmp_path, "children.json") == {ROOT_ID: [python], python: [go]}
        assert read_map(tmp_path, "info_by_kw.json") == {go: [first, second]}
        assert read_map(tmp_path, "kw_by_info.json") == {first: [go], second: [go]}
        nodes = lines_by_offset(tmp_path, "nodes.index.json", "nodes.jsonl")
        assert {row["id"]: row["version"] for row in nodes.values()} == {ROOT_ID: 1, python: 1, go: 2}
        infos = lines_by_offset(tmp_path, "infos.index.json", "infos.jsonl")
        assert {row_id: row["content"] for row_id, row in infos.items()} == {
            first: "用 undetected_chromedriver",
            second: "Wait",
        }


async def test_every_entry_is_on_its_own_line(tmp_path: Path) -> None:
    async with hub_on(tmp_path) as hub:
        python, go = await create_keyword(hub, "Python"), await create_keyword(hub, "Go")
        await hub.maintenance.tick()

        text = (tmp_path / "indexes/inverted.json").read_text()
        assert text == f'{{\n"python":["{python}"],\n"go":["{go}"]\n}}\n'
        assert (tmp_path / "indexes/info_by_kw.json").read_text() == "{}\n"


async def test_maps_are_written_only_after_tree_changes(tmp_path: Path) -> None:
    async with hub_on(tmp_path) as hub:
        await create_keyword(hub, "Python")
        await create_keyword(hub, "there", ctx=local_context(OWNER, "other"))
        await hub.maintenance.tick()
        written = [path for path in (tmp_path / "indexes").rglob("*.json") if "lexical" not in path.parts]
        for path in written:
            os.utime(path, (0, 0))

        await hub.knowledge.records.save(local(), new_knowledge())
        await create_keyword(hub, "Go", ctx=local_context(OWNER, "other"))
        await hub.maintenance.tick()

        names = {str(path.relative_to(tmp_path / "indexes")) for path in written if path.stat().st_mtime_ns}
        assert names == {"derived.json", *(f"accounts/other/{name}" for name in MAP_NAMES)}
        assert hub.exports.maps.lag == 0


async def test_maps_wait_for_their_interval_and_are_written_at_the_end(tmp_path: Path) -> None:
    async with hub_on(tmp_path, interval_s=3600) as hub:
        await create_keyword(hub, "Python")
        await hub.maintenance.tick()
        await hub.maintenance.tick()

        assert not (tmp_path / "indexes/children.json").exists()
        assert hub.exports.maps.lag == hub.store.last_seq
    assert read_map(tmp_path, "inverted.json").keys() == {"python"}


async def test_a_truncated_record_file_makes_no_map(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records/nodes.jsonl").write_bytes(b"{}")

    with pytest.raises(OSError, match="has 2 bytes, and 10 were noted"):
        write_maps(FileSystem(), tmp_path, {"account": "", "lengths": {"nodes.jsonl": 10}})


def test_a_line_that_was_appended_meanwhile_is_in_no_map(tmp_path: Path) -> None:
    lines = [orjson.dumps(keyword_row(row_id, deleted=False)) + b"\n" for row_id in ("known", "newer")]
    (tmp_path / "records").mkdir()
    (tmp_path / "records/nodes.jsonl").write_bytes(b"".join(lines))

    write_maps(FileSystem(), tmp_path, {"account": "", "lengths": {"nodes.jsonl": len(lines[0])}})

    assert read_map(tmp_path, "nodes.index.json") == {"known": 0}


async def test_a_second_turn_of_the_keeper_waits_for_the_first(tmp_path: Path) -> None:
    async with hub_on(tmp_path) as hub:
        for number in range(30):
            await create_keyword(hub, f"number {number}")

        await asyncio.gather(*(hub.maintenance.tick() for _ in range(3)))

        assert hub.maintenance.failures == {}
        assert len(read_map(tmp_path, "nodes.index.json")) == 31


async def test_large_maps_are_written_in_a_subprocess(tmp_path: Path) -> None:
    async with hub_on(tmp_path) as hub:
        python = await create_keyword(hub, "Python")
        infos = [await create_info(hub, f"{number} " + "long " * 200_000, python) for number in range(3)]
        asked: list[str] = []

        async def run(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
            asked.append(name)
            return await run_in_subprocess(name, root, arguments)

        await hub.exports.records.catch_up()
        directory, files = DataDirectory(tmp_path), FileSystem()
        await JsonMaps(directory, hub.store, records_of(hub), run, 0, files).catch_up()

        assert asked == ["write_maps"]
        assert read_map(tmp_path, "info_by_kw.json") == {python: infos}
