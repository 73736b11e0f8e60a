"""Files of a data directory that are removed or replaced: nothing acknowledged is overwritten."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from knowhub.core.errors import ReadOnly, Unavailable
from knowhub.stores.files.data_directory import PUT_LOG_BACK, DataDirectory, write_format
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.archives import read_folder
from tests.builders import local, new_knowledge, open_domain, open_files, rows_of
from tests.doctoring import inspect
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

SMALL = StoreOptions(segment_bytes=1)


async def save_records(folder: Path, count: int = 4, options: StoreOptions | None = None) -> list[str]:
    async with open_domain(folder, None, options) as hub:
        return [
            str((await hub.knowledge.records.save(local(), new_knowledge(f"number {number}"))).record["id"])
            for number in range(count)
        ]


async def test_a_missing_last_segment_is_reported_and_no_number_reused(tmp_path: Path) -> None:
    ids = await save_records(tmp_path, options=SMALL)
    last = max((tmp_path / "change_log").iterdir())
    last.unlink()
    before = read_folder(tmp_path)

    async with open_domain(tmp_path, None, SMALL) as hub:
        status = hub.store.status()
        with pytest.raises(ReadOnly, match=last.name):
            await hub.knowledge.records.save(local(), new_knowledge("refused"))
        rows = list(rows_of(hub.store))

    assert [damage.path for damage in status.damage] == [str(last)]
    assert not status.writable
    assert rows == ids[:-1]
    assert read_folder(tmp_path) == before


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("lose", [remove, empty])
@pytest.mark.parametrize("witness", ["LOCK", "records"])
async def test_a_missing_log_is_not_created_again(tmp_path: Path, lose: Callable[[Path], None], witness: str) -> None:
    await save_records(tmp_path)
    if witness == "records":
        (tmp_path / "LOCK").unlink()
        (tmp_path / "records").mkdir()
        (tmp_path / "records" / "knowledge.jsonl").write_bytes(b"{}\n")
    lose(tmp_path / "change_log")
    before = read_folder(tmp_path)

    with pytest.raises(Unavailable) as refused:
        open_files(tmp_path)
    advice = [finding.advice for finding in inspect(tmp_path)]

    assert PUT_LOG_BACK in refused.value.detail
    assert PUT_LOG_BACK in advice
    assert read_folder(tmp_path) == before


@pytest.mark.parametrize("lock", [None, b"", b"short", bytes(4096)], ids=["none", "empty", "short", "never published"])
async def test_a_directory_without_its_first_segment_opens(tmp_path: Path, lock: bytes | None) -> None:
    write_format(FileSystem(), DataDirectory(tmp_path))
    (tmp_path / "change_log").mkdir()
    if lock is not None:
        (tmp_path / "LOCK").write_bytes(lock)

    ids = await save_records(tmp_path)

    assert len(ids) == 4


def without_lock(folder: Path) -> None:
    (folder / "LOCK").unlink()


def with_another_lock(folder: Path) -> None:
    shutil.copyfile(folder / "LOCK", folder / "other")
    (folder / "other").rename(folder / "LOCK")


def with_another_segment(folder: Path) -> None:
    segment = folder / "change_log" / "segment-00000001.jsonl"
    shutil.copyfile(segment, folder / "other")
    (folder / "other").rename(segment)


@pytest.mark.parametrize("replace", [without_lock, with_another_lock, with_another_segment, remove])
async def test_a_process_with_replaced_files_stops_writing(tmp_path: Path, replace: Callable[[Path], None]) -> None:
    folder = tmp_path / "data"
    async with open_domain(folder) as hub:
        kept = (await hub.knowledge.records.save(local(), new_knowledge("kept"))).record["id"]
        replace(folder)

        with pytest.raises(ReadOnly, match=r"was replaced or removed under this process; restart it"):
            await hub.knowledge.records.save(local(), new_knowledge("refused"))
        read = await hub.knowledge.records.get(local(), kept)

        assert read.version == 1
        assert list(rows_of(hub.store)) == [kept]
        assert not hub.store.status().writable


async def test_two_processes_never_write_under_two_locks(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as first:
        kept = (await first.knowledge.records.save(local(), new_knowledge("kept"))).record["id"]
        (tmp_path / "LOCK").unlink()
        async with open_domain(tmp_path) as second:
            later = (await second.knowledge.records.save(local(), new_knowledge("later"))).record["id"]

            with pytest.raises(ReadOnly, match="LOCK was replaced"):
                await first.knowledge.records.save(local(), new_knowledge("refused"))

    async with open_domain(tmp_path) as hub:
        assert list(rows_of(hub.store)) == [kept, later]


async def test_looking_for_replaced_files_costs_two_stats_a_batch(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    async with open_domain(tmp_path, files) as hub:
        files.begin(Plan())
        for number in range(5):
            await hub.knowledge.records.save(local(), new_knowledge(f"number {number}"))

        assert files.counts["inode_at"] == 10


async def test_a_base_without_its_next_segment_is_not_opened(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
        await hub.store.compact(0.0, run_in_process(FileSystem()))
    (segment,) = (tmp_path / "change_log").glob("segment-*")
    segment.rename(tmp_path / "elsewhere")
    before = read_folder(tmp_path)

    with pytest.raises(Unavailable, match=f"{segment.name} is missing"):
        open_files(tmp_path)

    assert read_folder(tmp_path) == before
    (tmp_path / "elsewhere").rename(segment)
    async with open_domain(tmp_path) as hub:
        assert len(rows_of(hub.store)) == 1
