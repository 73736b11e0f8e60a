"""The newest rows read from a log: equal to an open store, or with the damage reported."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from knowhub.knowledge.model import KNOWLEDGE, Feedback
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_line import seal
from knowhub.stores.files.log.log_reader import DamagedLog, WholeLog, latest_rows
from knowhub.stores.files.store import StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import Domain, FakeClock, local, new_knowledge, open_domain, rows_of

pytestmark = pytest.mark.anyio

ONE_SEGMENT, MANY_SEGMENTS = StoreOptions(), StoreOptions(segment_bytes=1)


async def write_rows(hub: Domain) -> None:
    """Save, change searched and other fields, and delete."""
    ids = [
        (await hub.knowledge.records.save(local(), new_knowledge(f"zebra {number}"))).record["id"]
        for number in range(4)
    ]
    await hub.knowledge.records.patch(local(), ids[0], {"content": "lion"})
    await hub.knowledge.records.give_feedback(local(), ids[1], Feedback(helpful_case={"task": "t"}))
    await hub.knowledge.records.delete(local(), ids[2])


def read_rows(
    folder: Path, *, end: tuple[int, int] | None = None, account: str | None = "default"
) -> tuple[WholeLog, Mapping[tuple[str, str], bytes]]:
    return latest_rows(FileSystem(), folder / "change_log", account, end=end)


@pytest.mark.parametrize("options", [ONE_SEGMENT, MANY_SEGMENTS], ids=["one segment", "many"])
async def test_rows_equal_those_of_an_open_store(tmp_path: Path, options: StoreOptions) -> None:
    async with open_domain(tmp_path, None, options) as hub:
        await write_rows(hub)
        rows, checksum = rows_of(hub.store), hub.store.checksum(hub.store.last_seq)

        log, found = read_rows(tmp_path)

        assert {row_id: text for (_, row_id), text in found.items()} == rows
        assert list(found) == [(KNOWLEDGE, row_id) for row_id in rows]
        assert (log.log_id, log.last_seq, log.checksum) == (hub.store.log_id, hub.store.last_seq, checksum)


async def test_rows_after_the_given_end_are_not_read(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge("before"))
        segment = tmp_path / "change_log" / "segment-00000001.jsonl"
        end = (1, segment.stat().st_size)
        await hub.knowledge.records.save(local(), new_knowledge("after"))

        log, found = read_rows(tmp_path, end=end)

        assert log.last_seq == 1
        assert [b"before" in text for text in found.values()] == [True]


@pytest.mark.parametrize("account", ["other", None])
async def test_rows_of_another_account_are_left_out(tmp_path: Path, account: str | None) -> None:
    async with open_domain(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())

        log, found = read_rows(tmp_path, account=account)

    assert (found, log.last_seq) == ({}, 1)


def cut(data: bytes) -> bytes:
    return data[:-10]


def flip(data: bytes) -> bytes:
    place = data.index(b"zebra 1")
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def without_a_line(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:2], *lines[3:]])


def line_with(change: bytes) -> bytes:
    head = b'{"seq":8,"batch":0,"op":"x","operation_id":"x","account":"default","actor":"user:li","timestamp":1,'
    return seal(head + b'"agent_io":null,"undo_of":null,"idempotency":null,"changes":[' + change + b"]")


def with_a_line_of_another_kind(data: bytes) -> bytes:
    return data + line_with(b'{"collection":"knowledge"}')


def with_a_row_that_is_a_list(data: bytes) -> bytes:
    return data + line_with(b'{"collection":"knowledge","id":"a","before":null,"after":[]}')


def of_another_log(data: bytes) -> bytes:
    return (
        seal(b'{"knowhub_log":1,"log_id":"other","segment":2,"generation":1,"first_seq":1,"previous_length":null')
        + data
    )


def without_header(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    "spoil",
    [
        cut,
        flip,
        without_a_line,
        with_a_line_of_another_kind,
        with_a_row_that_is_a_list,
        of_another_log,
        without_header,
    ],
)
async def test_a_log_that_is_not_whole_is_named_with_file_and_offset(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    async with open_domain(tmp_path) as hub:
        await write_rows(hub)
    segment = tmp_path / "change_log" / "segment-00000001.jsonl"
    segment.write_bytes(spoil(segment.read_bytes()))

    with pytest.raises(DamagedLog) as found:
        read_rows(tmp_path)

    assert found.value.path == segment
    assert 0 <= found.value.offset <= segment.stat().st_size


async def make_compacted(folder: Path) -> Path:
    """Make a folder whose log begins with a base; return the base's file."""
    clock = FakeClock()
    async with open_domain(folder, clock=clock) as hub:
        await write_rows(hub)
        clock.advance(48 * 3600.0)
        await hub.store.compact(0.0, run_in_process(FileSystem()))
        await hub.knowledge.records.save(local(), new_knowledge("behind the base"))
    return next((folder / "change_log").glob("base-*.jsonl"))


async def test_rows_after_a_base_are_read(tmp_path: Path) -> None:
    await make_compacted(tmp_path)
    async with open_domain(tmp_path) as hub:
        rows = rows_of(hub.store)

        log, found = read_rows(tmp_path)

        assert {row_id: text for (_, row_id), text in found.items()} == rows
        assert log.last_seq == hub.store.last_seq
