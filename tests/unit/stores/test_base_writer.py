"""A base holds every row unchanged, of any size, and is written only from the expected log."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from knowhub.knowledge.model import KNOWLEDGE, Feedback
from knowhub.stores.files.compaction import write_base
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_line import BaseHeader
from knowhub.stores.files.log.log_reader import DamagedLog
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import FakeClock, local, new_knowledge, open_domain, open_files, rows_of, save_row

pytestmark = pytest.mark.anyio

ACCOUNT = "default"
MIB = 1024 * 1024
ONE_LINE_EACH = StoreOptions(segment_bytes=1)


class UnsyncedFiles(FileSystem):
    """Counts the bytes written to each file since its last sync, and records the maximum."""

    def __init__(self) -> None:
        self.most = 0
        self._unsynced: Counter[int] = Counter()

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        written = super().write_at(descriptor, data, offset)
        self._unsynced[descriptor] += written
        return written

    def sync_data(self, descriptor: int) -> None:
        super().sync_data(descriptor)
        self._note(descriptor)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self._note(descriptor)

    def _note(self, descriptor: int) -> None:
        self.most = max(self.most, self._unsynced.pop(descriptor, 0))


async def test_a_base_of_megabytes_is_whole_and_synced_a_little_at_a_time(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), UnsyncedFiles()
    # Each is longer than a line of a base is to be, so that none is left over at the end.
    for number in range(24):
        await save_row(store, f"knowledge-{number}", "x" * MIB)
    before = rows_of(store)

    done = await store.compact(0.0, run_in_process(files))
    await store.close()

    reopened = open_files(tmp_path)
    assert (rows_of(reopened), reopened.status().damage) == (before, [])
    await reopened.close()
    assert done.rows == 24
    assert sum(path.stat().st_size for path in (tmp_path / "change_log").glob("base-*")) > 24 * MIB
    assert MIB < files.most < 12 * MIB


async def test_rows_keep_their_order_their_newest_text_and_their_text_numbers(tmp_path: Path) -> None:
    clock = FakeClock()
    before = after = None
    for turn in (1, 2):
        # The second base is made of the first one and of the segments after it.
        async with open_domain(tmp_path, clock=clock) as hub:
            ids = [
                (await hub.knowledge.records.save(local(), new_knowledge(f"{word} {turn}"))).record["id"]
                for word in ("a", "b")
            ]
            await save_row(hub.store, "elsewhere", f"another account {turn}", account="other")
            await hub.knowledge.records.save(local(), new_knowledge(f"c {turn}"))
            await hub.knowledge.records.patch(local(), ids[0], {"content": f"a {turn} again"})
            await hub.knowledge.records.give_feedback(local(), ids[1], Feedback(helpful_case={"task": "t"}))
            await hub.knowledge.records.delete(local(), ids[0])
            clock.advance(48 * 3600.0)
            before = read_rows(hub.store)
            await hub.store.compact(0.0, run_in_process(FileSystem()))
        async with open_domain(tmp_path, clock=clock) as hub:
            after = read_rows(hub.store)

            assert after == before
            assert [name.name[:5] for name in (tmp_path / "change_log").iterdir()].count("base-") == 1
    assert after is not None
    assert [len(rows) for rows in after] == [6, 1]


def read_rows(store: FileStore) -> list[list[tuple[str, bytes, int]]]:
    """Return id, text and text number of all rows of two accounts, in their order."""
    found = []
    for account in (ACCOUNT, "other"):
        state = store.account(account)
        table = state.memory_table(KNOWLEDGE)
        found.append([(row_id, text, table.summary(row_id).text_change) for row_id, text in table.texts()])
    return found


@pytest.mark.parametrize("said", [{"last_seq": 2}, {"checksum": "00000000"}, {"log_id": "another"}])
async def test_a_base_is_not_written_from_another_log(tmp_path: Path, said: Mapping[str, Any]) -> None:
    header = await write_two_segments(tmp_path)
    order = {"header": {**msgspec.to_builtins(header), **said}, "path": str(tmp_path / "base.tmp")}

    with pytest.raises(DamagedLog, match="was to stand before it"):
        write_base(FileSystem(), tmp_path, order)

    assert not (tmp_path / "base.tmp").exists()


async def write_two_segments(folder: Path) -> BaseHeader:
    """Write a log whose first segment ends with operation 1; return the header of a base that replaces it."""
    store = open_files(folder, options=ONE_LINE_EACH)
    for row_id in ("a", "b"):
        await save_row(store, row_id, "said")
    # The first segment was full before anything was written to it.
    header = BaseHeader(store.log_id, 3, 2, 1, store.checksum(1), 0.0, 0)
    await store.close()
    return header
