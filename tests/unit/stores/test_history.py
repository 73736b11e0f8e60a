"""The history in the log: operations by account, and lines that were damaged later."""

import asyncio
from pathlib import Path

import pytest

from knowhub.core.errors import ReadOnly
from knowhub.core.operation import Decide, Draft, View, Write
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import knowledge_row, open_files, save_row

pytestmark = pytest.mark.anyio

SEGMENT = Path("change_log") / "segment-00000001.jsonl"


class CountingFiles(FileSystem):
    """A file system that keeps the length of each write."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        self.written.append(len(data))
        return super().write_at(descriptor, data, offset)


async def find_by_row(store: FileStore, row_id: str, account: str = "default") -> list[int]:
    return [operation.seq async for operation in store.operations_on(account, KNOWLEDGE, row_id)]


async def test_an_id_that_two_accounts_use_has_a_history_in_each(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    for account in ("default", "other", "default"):
        await save_row(store, "a", account=account)

    assert (await find_by_row(store, "a"), await find_by_row(store, "a", "other")) == ([3, 1], [2])
    await store.close()


async def test_the_history_of_an_account_reads_no_line_of_another(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    for account, row_id in (("default", "a"), ("other", "b"), ("default", "c")):
        await save_row(store, row_id, account=account, content=f"content of {row_id}")
    path = tmp_path / SEGMENT
    data = bytearray(path.read_bytes())
    data[data.index(b"content of b")] ^= 1
    path.write_bytes(data)

    listed = [operation.seq async for operation in store.operations("default")]

    assert (listed, await find_by_row(store, "a")) == ([3, 1], [1])
    assert (store.last_seq_of("default"), store.last_seq_of("other"), store.last_seq_of("nobody")) == (3, 2, 0)
    # Reading the line of the other account would have found the damage.
    assert store.status().writable
    await store.close()


async def test_a_line_that_was_damaged_since_it_was_read_is_named_once_and_ends_writing(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    for row_id in ("a", "b", "a"):
        await save_row(store, row_id, content=f"content of {row_id}")
    path = tmp_path / SEGMENT
    data = bytearray(path.read_bytes())
    data[data.index(b"content of b")] ^= 1
    path.write_bytes(data)

    for _ in range(3):
        assert await find_by_row(store, "b") == []

    (damage,) = store.status().damage
    assert (damage.path, damage.offset) == (str(path), data.rindex(b"\n", 0, data.index(b"ontent of b")) + 1)
    assert await find_by_row(store, "a") == [3, 1]
    with pytest.raises(ReadOnly, match="damaged since it was read"):
        await save_row(store, "c")
    await store.close()


async def test_a_long_line_is_read_from_a_file_that_is_closed_meanwhile(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    await save_row(store, "a", content="long " * 200_000)
    expected = store.history.line(1)

    reading = asyncio.create_task(store.history.line_async(1))
    await asyncio.sleep(0)
    await store.close()

    assert expected is not None
    assert await reading == expected


async def test_a_group_of_many_megabytes_is_written_in_pieces(tmp_path: Path) -> None:
    files = CountingFiles()
    store = open_files(tmp_path, files)
    row = knowledge_row("a", content="long " * 400_000)

    def decide_on(row_id: str) -> Decide[View]:
        return lambda _view: Draft("save_knowledge", [Write(KNOWLEDGE, row_id, {**row, "id": row_id})])

    await store.commit_group("default", "user:li", [decide_on(f"r{number}") for number in range(9)])
    await store.close()

    assert max(files.written) < 8 * 1024 * 1024 < sum(files.written)
    reopened = open_files(tmp_path)
    assert reopened.history.last_seq == 9
    await reopened.close()


async def test_history_ignores_a_base_that_was_not_loaded(tmp_path: Path) -> None:
    store, other = (open_files(tmp_path, options=StoreOptions(segment_bytes=1)) for _ in range(2))
    for row_id in ("a", "b"):
        await save_row(store, row_id)
    await other.refresh()
    await store.compact(0.0, run_in_process(FileSystem()))

    before = list(other.history.base_lines())
    await other.refresh()

    assert (before, len(list(other.history.base_lines()))) == ([], 1)
    assert list(other.history.base_lines()) == list(store.history.base_lines())
    await store.close()
    await other.close()
