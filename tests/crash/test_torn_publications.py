"""A publication that never ends: a reader takes in exactly the acknowledged rows."""

import asyncio
from pathlib import Path

import pytest

from knowhub.stores.files.store import StoreOptions
from tests.builders import local, open_domain, rows_of
from tests.crash.test_two_processes import map_lock, read_answer, save, start_writer

pytestmark = pytest.mark.anyio

THREE_MEGABYTES = "x" * 3_000_000


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


async def test_a_publication_that_ended_meanwhile_is_not_settled_again(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as hub:
        await save(hub, "first")
        with map_lock(tmp_path) as words:
            stamp = words[1]

            # Another process may end it between a reader's look and its taking the lock.
            assert await hub.store.commits.recover()

            assert words[1] == stamp
