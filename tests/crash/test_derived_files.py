"""Derived files that are truncated or have a tail: answers stay those of the log, and upkeep repairs the file."""

import gc
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from knowhub.bootstrap import Hub, check_directory
from knowhub.keywords.collections import RECORD_FORMATS
from knowhub.keywords.model import NewInfo, NewKeyword, SearchStatus
from knowhub.keywords.tree import INFO_TABLE
from knowhub.knowledge.model import SearchQuery
from knowhub.settings import Settings
from knowhub.stores.files.projections.record_files import record_path
from tests.builders import local, new_knowledge
from tests.crash.repaired_logs import iter_tails
from tests.hubs import open_search_hub, save_record

pytestmark = pytest.mark.anyio

# One pattern for each kind of derived file; each has to match a file of the directory that is made here.
KINDS = (
    "records/*.jsonl",
    "records/checkpoint.json",
    "indexes/*.json",
    "indexes/lexical/*/built.json",
    "indexes/lexical/*/build-*/*",
)


@dataclass(frozen=True, slots=True)
class DirectoryAnswers:
    """The answers of a directory to the questions of these tests."""

    found: Sequence[str]
    keyword: object
    infos: Sequence[str]


async def fill(folder: Path) -> DirectoryAnswers:
    """Make a directory with one of every kind of derived file."""
    async with open_search_hub(folder) as hub:
        for number in range(3):
            await save_record(hub, new_knowledge(f"zebra {number} 登录"))
        made = await hub.keywords.tree.create_batch(local(), [NewKeyword("Python"), NewKeyword("asyncio")])
        await hub.keywords.infos.create(
            local(), NewInfo("info", keyword_ids=[str(saved.record["id"]) for saved in made.records])
        )
        await hub.keywords.search.search(local(), "python")
        await hub.maintenance.tick()
        return await ask(hub)


async def ask(hub: Hub) -> DirectoryAnswers:
    found = await hub.knowledge.search.search(local(), SearchQuery("zebra"))
    keyword = await hub.keywords.search.search(local(), "python")
    infos = [summary.id for summary in hub.store.view("default").newest(INFO_TABLE)]
    return DirectoryAnswers([str(record["id"]) for record in found.records], keyword, infos)


async def write_more(hub: Hub, name: str) -> str:
    """Write a row of every collection, so that every derived file is to be brought up."""
    keyword = (await hub.keywords.tree.create(local(), NewKeyword(name))).record
    await hub.keywords.infos.create(local(), NewInfo(name, keyword_ids=[str(keyword["id"])]))
    return await save_record(hub, new_knowledge(f"lion {name}"))


async def check_damage(
    source: Path, path: Path, data: bytes, expected: DirectoryAnswers, *, mends: bool = True
) -> None:
    """Assert that a directory with `data` in one derived file answers correctly, and that upkeep repairs the file."""
    # A fresh name each time: a thread of the index's library may still tidy up in a folder that was closed.
    folder = Path(tempfile.mkdtemp(dir=source.parent)) / "data"
    shutil.copytree(source, folder)
    (folder / path).write_bytes(data)
    async with open_search_hub(folder) as hub:
        assert await ask(hub) == expected
        if mends:
            lion = await write_more(hub, "later")
            await hub.maintenance.tick()
            assert hub.maintenance.failures == {}
            assert hub.store.status().damage == []
    if mends:
        await check_repaired(folder, lion, expected)
    shutil.rmtree(folder.parent, ignore_errors=True)


async def check_repaired(folder: Path, lion: str, expected: DirectoryAnswers) -> None:
    async with open_search_hub(folder) as hub:
        found = await hub.knowledge.search.search(local(), SearchQuery("lion"))
        assert [record["id"] for record in found.records] == [lion]
        assert (await ask(hub)).found == expected.found
        assert (await hub.keywords.search.search(local(), "later")).status is SearchStatus.MATCHED
    assert read_record_files(folder) == rows_in_log(folder)
    assert [found for found in check_directory(Settings(data_dir=folder)) if found.severity == "problem"] == []


def read_record_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "records").glob("*.jsonl")}


def rows_in_log(folder: Path) -> dict[str, bytes]:
    lines = (folder / "change_log" / "segment-00000001.jsonl").read_bytes().splitlines(keepends=True)
    texts: defaultdict[str, bytes] = defaultdict(bytes)
    for line in map(orjson.loads, lines[1:]):
        for change in line["changes"]:
            declared = RECORD_FORMATS.get(change["collection"])
            row = change["after"] if declared is None else declared.encode(change["after"])
            name = change["collection"] if declared is None else declared.name
            texts[record_path(line["account"], name)] += orjson.dumps(row) + b"\n"
    return texts


def paths_of(folder: Path, kind: str) -> list[Path]:
    paths = sorted(path.relative_to(folder) for path in folder.glob(kind))
    assert paths, f"no {kind} was made"
    return paths


def iter_damages(data: bytes) -> Iterator[bytes]:
    """Yield nothing of it, all but a byte, and all with a tail of garbage."""
    yield from (b"", data[:-1], data + random.Random(11).randbytes(8192))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_derived_file_cut_short_or_with_a_tail_changes_no_answer(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    expected = await fill(source)

    for path in paths_of(source, kind):
        for data in iter_damages((source / path).read_bytes()):
            await check_damage(source, path, data, expected)


async def test_a_flipped_bit_in_a_file_of_the_index_changes_no_answer(tmp_path: Path) -> None:
    source = tmp_path / "source"
    expected = await fill(source)

    for path in paths_of(source, "indexes/lexical/*/build-*/*.*"):
        data = bytearray((source / path).read_bytes())
        if data:
            data[len(data) // 2] ^= 4
            await check_damage(source, path, bytes(data), expected)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
async def test_every_prefix_of_every_derived_file_changes_no_answer(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    expected = await fill(source)

    for path in paths_of(source, kind):
        data = (source / path).read_bytes()
        for length in range(len(data)):
            # Upkeep takes ten times as long as asking: it is watched at every eighth.
            await check_damage(source, path, data[:length], expected, mends=length % 8 == 0)
            if length % 64 == 0:
                # A hub freezes what it has loaded: the threads of thousands of closed indexes would wait in here.
                gc.unfreeze()
                gc.collect()
        for tail in iter_tails(1, 2, 7, 64, 511, 512, 513, 4095, 4096, 4097, 8191, 8192):
            await check_damage(source, path, data + tail, expected)
