"""Rewriting the log uses little memory, blocks no request, and lets other processes read."""

import asyncio
import gc
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.filesystem import FilePath, FileSystem
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.log.log_line import Header, add_checksum
from knowhub.stores.files.log.rewrite import rewrite_file
from knowhub.stores.files.store import StoreOptions
from tests.builders import local, open_files, save_row
from tests.erasing import find_files_with
from tests.fakes.no_follow_up import erasures_on

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SECRET = "quaggaplatformnine sings the midnightsong of veldtgrass"
LONGEST_STALL_S = 0.05


def close_segment(folder: Path, lines: int) -> ChangeLog:
    """Make a log of two segments; the first has lines of ten kilobytes."""
    log = ChangeLog(FileSystem(), folder)
    start = log.create(Header("log", 1, 1, 1, None))
    data = b"".join(add_checksum(b'{"seq":%d,"said":"%s"' % (seq, b"x" * 10_000)) for seq in range(1, lines + 1))
    log.append(1, [data], start)
    log.create(Header("log", 2, 1, lines + 1, start + len(data)))
    return log


def test_a_segment_is_rewritten_line_by_line_in_little_memory(tmp_path: Path) -> None:
    log = close_segment(tmp_path, 2_400)
    changed = add_checksum(b'{"seq":7,"said":"%s"' % (b" " * 10_000))

    tracemalloc.start()
    name = rewrite_file(FileSystem(), log, 1, lambda line: changed if line.startswith(b'{"seq":7,') else line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    old, new = (list(log.lines(1, 0, log.size(1))) for _ in range(2))
    new_data = (tmp_path / str(name)).read_bytes()
    log.close()
    assert str(name) == "segment-00000001.g1.jsonl"
    assert len(new_data) > 20 * MIB
    assert peak < 8 * MIB
    assert new_data == b"".join(changed if line.data.startswith(b'{"seq":7,') else line.data for line in old)
    assert [line.offset for line in old] == [line.offset for line in new]


def test_a_rewrite_that_changes_a_length_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    log = close_segment(tmp_path, 2)

    with pytest.raises(ValueError, match="a rewritten line must keep its length"):
        rewrite_file(FileSystem(), log, 1, lambda line: line[1:])

    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["segment-00000001.jsonl", "segment-00000002.jsonl"]


def test_a_segment_before_a_damaged_header_is_not_rewritten(tmp_path: Path) -> None:
    log = close_segment(tmp_path, 2)
    following = tmp_path / "segment-00000002.jsonl"
    following.write_bytes(b"#" + following.read_bytes()[1:])

    with pytest.raises(OSError, match=r"segment-00000002\.jsonl does not say where the segment before it ends"):
        rewrite_file(FileSystem(), log, 1, bytes)

    log.close()
    assert len(list(tmp_path.iterdir())) == 2


class WatchedFiles(FileSystem):
    """Records the writes, syncs, renames and removals made in the thread of the event loop."""

    def __init__(self) -> None:
        self.loop_thread = threading.get_ident()
        self.on_loop: list[str] = []

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        self._note("write_at")
        return super().write_at(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self._note("sync")
        super().sync(descriptor)

    def rename(self, source: FilePath, target: FilePath) -> None:
        self._note("rename")
        super().rename(source, target)

    def remove(self, path: FilePath) -> None:
        self._note("remove")
        super().remove(path)

    def _note(self, call: str) -> None:
        if threading.get_ident() == self.loop_thread:
            self.on_loop.append(call)


async def test_an_erasure_blocks_neither_the_loop_nor_other_processes(tmp_path: Path) -> None:
    files = WatchedFiles()
    store = open_files(tmp_path, files, StoreOptions(segment_bytes=MIB))
    other = open_files(tmp_path)
    for number in range(600):
        secret = SECRET if number % 100 == 0 else ""
        await save_row(store, f"knowledge-{number}", f"{secret} {'filler ' * 2_000} {number}")
    await other.refresh()
    files.on_loop.clear()
    # As a server does when it has loaded: the objects of other tests are none of this one's pauses.
    gc.freeze()
    stalls, reads = [0.0], 0

    async def read() -> None:
        nonlocal reads
        began = time.thread_time()
        while True:
            await asyncio.sleep(0)
            stalls.append(time.thread_time() - began)
            began = time.thread_time()
            await other.refresh()
            assert other.account("default").table(KNOWLEDGE).text(f"knowledge-{reads % 600}") is not None
            reads += 1
            await asyncio.sleep(0.001)

    reading = asyncio.create_task(read())
    writing = asyncio.create_task(save_row(store, "knowledge-meanwhile", "written meanwhile"))
    erasures = erasures_on(store)
    for number in range(0, 600, 100):
        await erasures.erase(local(), KNOWLEDGE, f"knowledge-{number}")
    await writing
    gc.unfreeze()
    reading.cancel()

    assert files.on_loop == []
    assert reads > 20
    # The processor time of the event loop between two turns: what others do on a busy machine does not count.
    assert max(stalls) < LONGEST_STALL_S
    assert find_files_with(tmp_path, SECRET) == []
    assert other.status().damage == store.status().damage == []
    await other.close()
    await store.close()
