"""Group commits: how much is written at once, and what happens to a commit whose caller is cancelled."""

import asyncio
from pathlib import Path

import pytest

from knowhub.core.operation import Committed, Outcome
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.store import FileStore, StoreOptions
from tests.builders import open_files, save_row
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

ACCOUNT = "default"
HALF_A_BATCH = 33 * 1024 * 1024


def start_save(store: FileStore, row_id: str, content: str = "said") -> "asyncio.Task[Outcome]":
    return asyncio.create_task(save_row(store, row_id, content))


async def test_writes_over_the_batch_limit_go_to_the_next_batch(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    store = open_files(tmp_path, files)
    files.begin(Plan())

    done = await asyncio.gather(*(start_save(store, row_id, "x" * HALF_A_BATCH) for row_id in "abc"))
    await store.close()

    assert [item.operation.seq for item in done if isinstance(item, Committed)] == [1, 2, 3]
    assert files.log_syncs == 2


async def test_a_write_survives_the_cancellation_of_its_caller(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    gone = start_save(store, "a")
    await asyncio.sleep(0)

    gone.cancel()
    later = await start_save(store, "b")

    assert gone.cancelled()
    assert isinstance(later, Committed)
    assert later.operation.seq == 2
    assert store.view(ACCOUNT).get(KNOWLEDGE, "a") is not None
    await store.close()


@pytest.mark.parametrize("writes", [False, True], ids=["by reading", "by writing"])
async def test_a_process_that_is_many_megabytes_behind_catches_up(tmp_path: Path, writes: bool) -> None:
    options = StoreOptions(segment_bytes=8 * 1024 * 1024)
    first, other = (open_files(tmp_path, options=options) for _ in range(2))
    for number in range(6):
        await start_save(first, f"row-{number}", "x" * 3_000_000)

    if writes:
        await start_save(other, "mine")
    else:
        await other.refresh()

    assert other.last_seq == 6 + writes
    assert all(other.view(ACCOUNT).get(KNOWLEDGE, f"row-{number}") for number in range(6))
    await first.close()
    await other.close()


async def test_another_process_reports_a_damaged_segment_header(tmp_path: Path) -> None:
    options = StoreOptions(segment_bytes=1)
    first, other = (open_files(tmp_path, options=options) for _ in range(2))
    await start_save(first, "a")
    newest = tmp_path / "change_log" / "segment-00000002.jsonl"
    newest.write_bytes(b"#" + newest.read_bytes()[1:])

    for _ in range(2):
        await other.refresh()

    (damage,) = other.status().damage
    assert (damage.path, damage.reason) == (str(newest), "the segment's header is damaged")
    assert not other.status().writable
    await first.close()
    await other.close()
