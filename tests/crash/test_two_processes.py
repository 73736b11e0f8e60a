"""Two processes on one data directory: writes do not interleave, and each sees the other's."""

import asyncio
import mmap
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from knowhub.core.errors import NotFound, Unavailable
from knowhub.stores.files.store import StoreOptions
from tests.builders import Domain, local, new_knowledge, open_domain, rows_of

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
IMPATIENT = StoreOptions(lock_timeout_s=0.2)
THREE_MEGABYTES = "x" * 3_000_000


@contextmanager
def start_writer(folder: Path, name: str, count: int | str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash.shared_writer", str(folder), name, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def save(hub: Domain, content: str) -> str:
    saved = await hub.knowledge.records.save(local(), new_knowledge(content))
    return str(saved.record["id"])


async def append_by_two(folder: Path, count: int) -> None:
    async with open_domain(folder) as hub:
        mine: list[str] = []
        with start_writer(folder, "theirs", count) as other:
            theirs = []
            for number in range(count):
                # A reported write of the other process is seen by the very next read, and by the next decision.
                if number % 8 == 0:
                    mine += await asyncio.gather(*(save(hub, f"mine {number + more}") for more in range(8)))
                theirs.append(await asyncio.to_thread(read_answer, other))
                assert (await hub.knowledge.records.get(local(), theirs[-1])).version == 1
            assert other.wait(30) == 0
        rows = rows_of(hub.store)
        assert hub.store.status().damage == []

    assert sorted(rows) == sorted([*mine, *theirs])
    assert len(rows) == 2 * count
    assert list(iter_numbers(folder)) == list(range(1, 2 * count + 1))


def iter_numbers(folder: Path) -> Iterator[int]:
    """Yield the sequence number of each line of the log, without the headers."""
    for segment in sorted((folder / "change_log").iterdir()):
        with segment.open("rb") as lines:
            next(lines)
            yield from (orjson.loads(line)["seq"] for line in lines)


async def test_two_processes_append_without_interleaving_and_see_each_other(tmp_path: Path) -> None:
    await append_by_two(tmp_path, 2_000)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_two_processes_append_a_hundred_thousand_each(tmp_path: Path) -> None:
    await append_by_two(tmp_path, 100_000)


async def test_a_stopped_writer_holds_up_writes_for_the_timeout_and_reads_not_at_all(tmp_path: Path) -> None:
    async with open_domain(tmp_path, None, IMPATIENT) as hub:
        kept = await save(hub, "kept")
        with start_writer(tmp_path, "holder", "hold") as holder:
            assert await asyncio.to_thread(read_answer, holder) == "held"
            holder.send_signal(signal.SIGSTOP)
            began = time.monotonic()

            with pytest.raises(Unavailable, match="another process"):
                await save(hub, "refused")
            waited = time.monotonic() - began
            read = await hub.knowledge.records.get(local(), kept)
            with pytest.raises(NotFound):
                await hub.knowledge.records.get(local(), "knowledge-0")

            assert 0.2 <= waited < 2
            assert read.version == 1
            with pytest.raises(Unavailable):
                async with open_domain(tmp_path, None, IMPATIENT):
                    pass
            holder.send_signal(signal.SIGKILL)
            holder.wait(10)

        after = await save(hub, "after")

        assert sorted(rows_of(hub.store)) == sorted([kept, after])


async def test_the_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    with start_writer(tmp_path, "victim", 100_000) as victim:
        told = [await asyncio.to_thread(read_answer, victim) for _ in range(50)]
        victim.send_signal(signal.SIGKILL)
        victim.wait(10)
    began = time.monotonic()

    async with open_domain(tmp_path) as hub:
        after = await save(hub, "after")

        assert time.monotonic() - began < 2
        assert set(told) < set(rows_of(hub.store))
        assert (await hub.knowledge.records.get(local(), after)).version == 1


@contextmanager
def map_lock(folder: Path) -> Iterator[memoryview]:
    with (folder / "LOCK").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
        words = memoryview(mapped).cast("Q")
        yield words
        words.release()


@pytest.mark.parametrize("torn", [b"", b'{"seq":3,"half'], ids=["whole", "torn"])
async def test_a_reader_recovers_after_a_writer_died_while_publishing(tmp_path: Path, torn: bytes) -> None:
    async with open_domain(tmp_path) as reader, open_domain(tmp_path) as writer:
        first = await save(writer, "first")
        await reader.store.refresh()
        with map_lock(tmp_path) as words:
            durable = words[4]
            second = await save(writer, "second")
            # The line is on the disk and the stamp is odd: this is where the writer died.
            words[4] = durable
            words[1] -= 1
        segment = tmp_path / "change_log" / "segment-00000001.jsonl"
        segment.write_bytes(segment.read_bytes() + torn)

        rows = {
            first: await reader.knowledge.records.get(local(), first),
            second: await reader.knowledge.records.get(local(), second),
        }
        third = await save(reader, "third")

        assert [row.version for row in rows.values()] == [1, 1]
        assert (await writer.knowledge.records.get(local(), third)).version == 1
        assert segment.read_bytes().endswith(torn or b"\n")
    async with open_domain(tmp_path) as hub:
        assert sorted(rows_of(hub.store)) == sorted([first, second, third])
        assert hub.store.status().damage == []


async def test_a_writer_recovers_after_another_died_while_publishing(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as survivor, open_domain(tmp_path) as dead:
        first = await save(dead, "first")
        with map_lock(tmp_path) as words:
            words[1] -= 1

        second = await save(survivor, "second")

        assert sorted(rows_of(survivor.store)) == sorted([first, second])
        with map_lock(tmp_path) as words:
            assert words[1] % 2 == 0
    async with open_domain(tmp_path) as hub:
        assert sorted(rows_of(hub.store)) == sorted([first, second])


async def test_two_processes_that_rotate_segments_follow_each_other(tmp_path: Path) -> None:
    options = StoreOptions(segment_bytes=1)
    async with open_domain(tmp_path, None, options) as first, open_domain(tmp_path, None, options) as other:
        ids = []
        for number in range(10):
            ids.append(await save(first, f"one {number}"))
            ids.append(await save(other, f"other {number}"))
        await first.store.refresh()

        assert list(rows_of(first.store)) == list(rows_of(other.store)) == ids


async def test_reads_go_on_while_a_writer_is_stopped_in_the_middle_of_publishing(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as reader, open_domain(tmp_path) as writer:
        first = await save(writer, "first")
        await reader.store.refresh()
        second = await save(writer, "second")
        with start_writer(tmp_path, "holder", "hold") as holder, map_lock(tmp_path) as words:
            assert await asyncio.to_thread(read_answer, holder) == "held"
            words[1] += 1
            began = time.monotonic()

            rows = [await reader.knowledge.records.get(local(), first)]
            waited = time.monotonic() - began
            rows += [await reader.knowledge.records.get(local(), second) for _ in range(20)]
            waited_later = time.monotonic() - began - waited
            holder.kill()
            holder.wait(10)

        # The writer has died by now: whoever comes next finds the end of the log.
        third = await save(reader, "third")

        assert [row.version for row in rows] == [1] * 21
        assert 0.2 <= waited < 1
        assert waited_later < 0.2
        assert sorted(rows_of(reader.store)) == sorted([first, second, third])
        assert reader.store.status().damage == []


async def test_a_stalled_publication_in_another_segment_blocks_no_read(tmp_path: Path) -> None:
    options = StoreOptions(segment_bytes=1)
    async with open_domain(tmp_path, None, options) as reader, open_domain(tmp_path, None, options) as writer:
        first = await save(writer, "first")
        await reader.store.refresh()
        second = await save(writer, "second")
        with start_writer(tmp_path, "holder", "hold") as holder, map_lock(tmp_path) as words:
            assert await asyncio.to_thread(read_answer, holder) == "held"
            words[1] += 1

            read = await reader.knowledge.records.get(local(), first)
            words[1] += 1

        assert read.version == 1
        assert (await reader.knowledge.records.get(local(), second)).version == 1


async def test_a_reader_recovers_after_a_dead_writer_across_segments(tmp_path: Path) -> None:
    options = StoreOptions(segment_bytes=1)
    async with open_domain(tmp_path, options=options) as reader, open_domain(tmp_path, options=options) as writer:
        ids = [await save(writer, "first")]
        await reader.store.refresh()
        ids += [await save(writer, f"later {number}") for number in range(3)]
        with map_lock(tmp_path) as words:
            words[1] -= 1

        versions = [(await reader.knowledge.records.get(local(), row_id)).version for row_id in ids]

        assert versions == [1, 1, 1, 1]
    async with open_domain(tmp_path) as hub:
        assert sorted(rows_of(hub.store)) == sorted(ids)
        assert hub.store.status().damage == []


async def test_a_reader_catches_up_while_a_writer_is_stopped(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as reader, open_domain(tmp_path) as writer:
        ids = [await save(writer, f"{number} {THREE_MEGABYTES}") for number in range(3)]
        with start_writer(tmp_path, "holder", "hold") as holder, map_lock(tmp_path) as words:
            assert await asyncio.to_thread(read_answer, holder) == "held"
            words[1] += 1

            await reader.store.refresh()

            assert sorted(rows_of(reader.store)) == sorted(ids)
            words[1] -= 1


async def test_a_read_leaves_a_publication_of_its_own_process_alone(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as hub:
        await save(hub, "first")
        async with hub.store.commits.lock_log():
            with map_lock(tmp_path) as words:
                # As where a new segment is being started.
                words[1] += 1
                stamp = words[1]

                await hub.store.refresh()

                assert words[1] == stamp
                words[1] += 1


async def test_a_publication_that_ended_meanwhile_is_not_settled_again(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as hub:
        await save(hub, "first")
        with map_lock(tmp_path) as words:
            stamp = words[1]

            # Another process may end it between a reader's look and its taking the lock.
            assert await hub.store.commits.wait_for_publication()

            assert words[1] == stamp
