"""Rows whose text stays in the log are read back as they were written, or named as damaged; never anything else."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.core.collection import table_schemas
from knowhub.core.errors import Unavailable
from knowhub.core.operation import Draft, Write
from knowhub.engine.account import Account, LoadedChange
from knowhub.engine.disk_rows import DiskRows, LogLine
from knowhub.keywords.model import INFOS
from knowhub.stores.files.log.log_line import add_checksum, decode_base_line, parse_line
from knowhub.stores.files.store import FileStore
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import CountedIds, open_files
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.fakes.memory_segment import SEGMENT, MemorySegment
from tests.keyword_rows import info_row

SEGMENT_FILE = "change_log/segment-00000001.jsonl"


def test_the_text_of_each_row_is_read_back() -> None:
    log = MemorySegment()
    rows = DiskRows(log.read)
    contents = ["a", "", '中文 "quoted" \\ \n', "x" * 5_000]

    rows.extend(log.place(*({"content": content} for content in contents[:3])))
    rows.extend(log.place({"content": contents[3]}))

    assert [orjson.loads(rows.text(number))["content"] for number in range(len(rows))] == contents


def test_large_offsets_and_segment_numbers_are_stored_exactly() -> None:
    asked = []

    def read(segment: int, start: int, end: int) -> bytes:
        asked.append((segment, start, end))
        return b"{}"

    rows = DiskRows(read)
    placed = replace(MemorySegment().place({}), segment=70_000, offsets=[(1 << 40) - 5])
    rows.extend(placed)

    assert rows.text(0) == b"{}"
    assert asked == [(70_000, (1 << 40) - 5, (1 << 40) - 3)]


def test_every_flipped_byte_of_a_row_is_detected() -> None:
    log = MemorySegment()
    rows = DiskRows(log.read)
    placed = log.place({"content": "acknowledged"}, {"content": "its neighbour"})
    rows.extend(placed)

    for index in range(len(placed.texts[0])):
        log.data[placed.offsets[0] + index] ^= 1
        with pytest.raises(Unavailable, match=rf"segment {SEGMENT} .* offset {placed.offsets[0]}"):
            rows.text(0)
        log.data[placed.offsets[0] + index] ^= 1

    assert rows.text(0) == placed.texts[0]
    assert rows.text(1) == placed.texts[1]


def test_a_row_with_another_json_spelling_keeps_its_text() -> None:
    log = MemorySegment()
    rows = DiskRows(log.read)
    placed = log.place({"n": 0}, {"n": 1}, {"n": 2})
    rows.extend(replace(placed, offsets=[placed.offsets[0], -1, placed.offsets[2]]))
    log.data[placed.offsets[1] :] = b""

    assert rows.text(1) == placed.texts[1]


def test_texts_in_memory_and_on_disk_replace_each_other() -> None:
    log = MemorySegment()
    rows = DiskRows(log.read)
    first = log.place({"n": "kept"})
    rows.extend(replace(first, offsets=[-1]))
    newer = log.place({"n": "placed"})

    rows.replace(0, newer.segment, newer.offsets[0], newer.texts[0])
    from_disk = rows.text(0)
    rows.replace(0, newer.segment, -1, first.texts[0])

    assert from_disk == newer.texts[0]
    assert rows.text(0) == first.texts[0]


def base_line(change: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"changes": [change]})


def slice_changes(line: bytes) -> list[LoadedChange]:
    changes = decode_base_line(line).changes
    assert changes is not None
    return changes


def reformat_line(change: Mapping[str, Any]) -> bytes:
    """Return an equal line with other spaces and escapes, so that it does not contain the text of the row."""
    spelt = orjson.dumps({"changes": [change]}, option=orjson.OPT_INDENT_2).replace(b"\n", b" ")
    line = add_checksum(spelt.rstrip(b" }"))
    return line if parse_line(line) else add_checksum(spelt[: spelt.rindex(b"}")])


@pytest.mark.anyio
async def test_a_flipped_byte_makes_only_its_row_unavailable(tmp_path: Path) -> None:
    store = open_files(tmp_path, ids=CountedIds())
    for row_id in ("i-1", "i-2"):
        await save(store, row_id, f"content of {row_id}")
    path = tmp_path / SEGMENT_FILE
    data = bytearray(path.read_bytes())
    data[data.index(b"content of i-1") + 3] ^= 1
    path.write_bytes(data)

    with pytest.raises(Unavailable, match="does not read back"):
        store.view("default").raw(INFOS, "i-1")
    neighbour = store.view("default").get(INFOS, "i-2")
    await store.close()

    assert neighbour is not None
    assert neighbour["content"] == "content of i-2"


@pytest.mark.anyio
async def test_a_row_is_unavailable_only_during_a_read_error(tmp_path: Path) -> None:
    files = FaultyFileSystem()
    store = open_files(tmp_path, files, ids=CountedIds())
    await save(store, "i-1", "content")
    files.begin(Plan(fail_at=1, kinds=["read_at"]))

    with pytest.raises(Unavailable, match="does not read back"):
        store.view("default").raw(INFOS, "i-1")
    read = store.view("default").get(INFOS, "i-1")
    await store.close()

    assert read is not None
    assert read["content"] == "content"


async def save(store: FileStore, row_id: str, content: str) -> None:
    row = info_row(row_id, content=content)
    await store.commit("default", "user:li", lambda _view: Draft("create_info", [Write(INFOS, row_id, row)]))


@pytest.mark.parametrize("spelt", [base_line, reformat_line], ids=["as we do", "otherwise"])
def test_a_row_is_read_from_a_base_only_if_its_text_is_identical(
    spelt: Callable[[Mapping[str, Any]], bytes],
) -> None:
    change = {"collection": INFOS, "id": "i-1", "before": None, "after": info_row("i-1", content="中文 / a")}
    lines = {1: base_line(change), 2: spelt(change)}
    state = Account(table_schemas(COLLECTIONS), lambda segment, start, end: lines[segment][start:end])
    state.load(1, slice_changes(lines[1]), LogLine(1, 0, lines[1]))

    state.move(slice_changes(lines[2]), LogLine(2, 0, lines[2]))
    # A row that is read from the base no longer needs the segment.
    lines[1] = lines[1] if spelt is reformat_line else b""

    assert orjson.loads(state.table(INFOS).text("i-1") or b"") == change["after"]


def test_a_newer_row_is_not_moved_to_an_older_copy() -> None:
    log = MemorySegment()
    rows = DiskRows(log.read)
    older, newer, longer = (log.place({"n": number}) for number in (1, 2, 300))
    rows.extend(newer)

    for place in (older, longer):
        rows.move(0, SEGMENT, place.offsets[0], place.texts[0])

    assert rows.text(0) == newer.texts[0]
