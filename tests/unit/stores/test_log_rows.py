"""The newest rows read from a log: of one account, up to an end, or with the damage reported."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.log.log_line import add_checksum
from knowhub.stores.files.log.log_reader import DamagedLog, StrictLogReader, read_latest_rows
from tests.builders import local, new_knowledge, open_domain

pytestmark = pytest.mark.anyio


def read_rows(
    folder: Path, *, end: tuple[int, int] | None = None, account: str | None = "default"
) -> tuple[StrictLogReader, Mapping[tuple[str, str], bytes]]:
    return read_latest_rows(FileSystem(), folder / "change_log", account, end=end)


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


def with_a_row_that_is_a_list(data: bytes) -> bytes:
    head = b'{"seq":2,"batch":0,"op":"x","operation_id":"x","account":"default","actor":"user:li","timestamp":1,'
    change = b'{"collection":"knowledge","id":"a","before":null,"after":[]}'
    return data + add_checksum(head + b'"agent_io":null,"undo_of":null,"idempotency":null,"changes":[' + change + b"]")


@pytest.mark.parametrize("spoil", [cut, with_a_row_that_is_a_list])
async def test_a_log_that_is_not_whole_is_named_with_file_and_offset(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    async with open_domain(tmp_path) as hub:
        await hub.knowledge.records.save(local(), new_knowledge())
    segment = tmp_path / "change_log" / "segment-00000001.jsonl"
    segment.write_bytes(spoil(segment.read_bytes()))

    with pytest.raises(DamagedLog) as found:
        read_rows(tmp_path)

    assert found.value.path == segment
    assert 0 <= found.value.offset <= segment.stat().st_size
