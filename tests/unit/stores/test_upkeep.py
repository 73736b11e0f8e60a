"""The files that the leader of a directory writes: record files that match the log, by independent jobs."""

import asyncio
import shutil
from pathlib import Path

import orjson
import pytest

from knowhub.bootstrap import Hub
from knowhub.context.commit_model import SessionCommit
from knowhub.conversations.messages import Message
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.maintenance import Maintenance
from tests.builders import local, new_knowledge
from tests.hubs import open_search_hub, save_record

pytestmark = pytest.mark.anyio


async def list_logged_rows(hub: Hub) -> list[bytes]:
    operations = [operation async for operation in hub.store.operations("default")]
    return [orjson.dumps(change.after) for operation in reversed(operations) for change in operation.changes]


async def test_record_files_of_a_damaged_log_equal_the_served_rows(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        for number in range(5):
            await save_record(hub, new_knowledge(f"zebra {number}"))
    shutil.rmtree(tmp_path / "records")
    segment = tmp_path / "change_log" / "segment-00000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:3], b"#" + lines[3][1:], *lines[4:]]))

    async with open_search_hub(tmp_path) as hub:
        await hub.maintenance.tick()

        rows = (tmp_path / "records" / "knowledge.jsonl").read_bytes().splitlines()
        assert len(hub.store.status().damage) == 1
        assert hub.maintenance.failures == {}
        assert [orjson.loads(row)["content"] for row in rows] == ["zebra 0", "zebra 1", "zebra 3", "zebra 4"]
        assert hub.indexes.records.lexical.lag == 0


async def test_a_failing_job_is_reported_and_blocks_no_other(tmp_path: Path) -> None:
    ran: list[str] = []

    async def breaks() -> None:
        raise OSError(5, "the disk")

    async def works() -> None:
        ran.append("works")

    maintenance = Maintenance(FileSystem(), tmp_path / "KEEPER", 60, {"breaks": breaks, "works": works}, {})
    await maintenance.tick()
    failures = dict(maintenance.failures)
    await maintenance.close()

    assert list(failures) == ["breaks"]
    assert ran == ["works", "works"]


async def test_closing_lets_a_running_job_finish(tmp_path: Path) -> None:
    started, ended = asyncio.Event(), []

    async def slow() -> None:
        started.set()
        await asyncio.sleep(0.05)
        ended.append("slow")

    maintenance = Maintenance(FileSystem(), tmp_path / "KEEPER", 0.001, {"slow": slow}, {})
    maintenance.start()
    await started.wait()
    await maintenance.close()

    assert ended[0] == "slow"
    assert len(ended) >= 2


async def test_record_files_are_correct_beyond_the_memory_limit(tmp_path: Path) -> None:
    async with open_search_hub(tmp_path) as hub:
        for number in range(20):
            await save_record(hub, new_knowledge(f"{number} " + "long " * 200_000))

        await hub.maintenance.tick()

        assert (tmp_path / "records" / "knowledge.jsonl").read_bytes().splitlines() == await list_logged_rows(hub)


def open_to_all(folder: Path) -> None:
    folder.chmod(0o755)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_folders_of_a_world_readable_directory_are_private(tmp_path: Path) -> None:
    open_to_all(tmp_path)

    async with open_search_hub(tmp_path) as hub:
        await save_record(hub, new_knowledge("for nobody else"))
        await hub.memories.commits.commit(local(), SessionCommit("s1", [Message("user", "I prefer tea.")]))
        await hub.maintenance.tick()
        await hub.operations.snapshots.create()

    modes = modes_in(tmp_path)
    assert {"records", "indexes", "context", "snapshots", "change_log"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o007} == {}
