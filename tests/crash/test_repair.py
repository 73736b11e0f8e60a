"""`doctor --repair` on a damaged log: good lines stay, lost ones are reported and quarantined, and writing works."""

import asyncio
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knowhub.core.errors import Conflict
from knowhub.stores.files.store import StoreOptions
from tests.archives import read_folder
from tests.builders import open_files
from tests.crash.repaired_logs import (
    ALL,
    COUNT,
    NOTES,
    ONE_SEGMENT,
    SMALL_SEGMENTS,
    change_line,
    commit_note,
    flip,
    list_problems,
    list_segments,
    note_ids,
    reopen,
    repair_folder,
    write_compacted,
    write_notes,
)
from tests.doctoring import inspect

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("line", range(1, COUNT + 1))
async def test_after_a_flipped_bit_all_other_rows_remain_and_writing_works(tmp_path: Path, line: int) -> None:
    folder = await write_notes(tmp_path)
    (path,) = list_segments(folder)
    offset = change_line(path, line, flip)
    before = path.read_bytes()
    bad = before[offset:].split(b"\n")[0] + b"\n"

    done = repair_folder(folder)

    (kept,) = (folder / "quarantine").iterdir()
    assert kept.read_bytes() == bad
    assert kept.name.startswith("segment-00000001-damaged-")
    assert [item.detail for item in done] == [
        f"{len(bad)} bytes that are no good lines lie in quarantine/{kept.name}; they told of notes note-{line - 1}",
        f"written again from its good lines; operations {line} are lost",
    ]
    rewritten = list_segments(folder)[0].read_bytes()
    assert rewritten[:offset] == before[:offset]
    assert rewritten.endswith(before[offset + len(bad) :])
    assert rewritten.count(b"\n") == COUNT + 1
    assert list_problems(folder) == []
    repaired = read_folder(folder / "change_log")
    assert repair_folder(folder) == []
    assert read_folder(folder / "change_log") == repaired
    after = await reopen(folder)
    assert after.notes == ALL - note_ids(line - 1)
    assert after.last_seq == COUNT


async def test_doctor_reports_what_a_repair_lost_and_kept(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path)
    change_line(list_segments(folder)[0], 2, flip)
    change_line(list_segments(folder)[0], 5, flip)

    repair_folder(folder)

    details = [item.detail for item in inspect(folder)]
    assert "operations 2, 5 were lost to damage; what was left of them is in quarantine/" in details
    assert sum("that `knowhub doctor --repair` took out of the log" in item for item in details) == 1


async def test_damaged_lines_and_a_torn_end_are_quarantined_together(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path)
    (path,) = list_segments(folder)
    change_line(path, 2, flip)
    change_line(path, 3, flip)
    with path.open("ab") as file:
        file.write(b'{"seq":7,"ba')
    lines = path.read_bytes().splitlines(keepends=True)
    bad = b"".join([*lines[2:4], lines[-1]])

    damaged, lost = repair_folder(folder)

    (kept,) = (folder / "quarantine").iterdir()
    assert kept.read_bytes() == bad
    assert "they told of notes note-1, notes note-2" in damaged.detail
    assert "operations 2-3 are lost" in lost.detail
    after = await reopen(folder)
    assert after.notes == ALL - note_ids(1, 2)
    assert after.last_seq == COUNT


async def test_an_undamaged_log_with_a_torn_end_is_unchanged(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path)
    with list_segments(folder)[0].open("ab") as file:
        file.write(b'{"seq":7,"ba')
    before = read_folder(folder / "change_log")

    done = repair_folder(folder)

    assert done == []
    assert read_folder(folder / "change_log") == before


async def test_every_byte_of_a_log_may_be_struck(tmp_path: Path) -> None:
    source = await write_notes(tmp_path / "source", SMALL_SEGMENTS)
    rng = random.Random(5)
    assert len(list_segments(source)) > 2
    for path in list_segments(source):
        size = path.stat().st_size
        for offset in sorted(rng.sample(range(size), 60)):
            folder = tmp_path / "copy"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            target = folder / "change_log" / path.name
            data = bytearray(target.read_bytes())
            data[offset] ^= 1 << rng.randrange(8)
            target.write_bytes(data)

            repair_folder(folder)

            # A copied LOCK is not believed: in the last batch a bad line is torn, and goes with the next opening.
            assert list_problems(folder) == []
            store = open_files(folder)
            assert store.status().damage == []
            assert len(store.account("default").table(NOTES)) >= COUNT - 2
            await commit_note(store, 99)
            await store.close()


@pytest.mark.parametrize("count", [1, 3, 9, 40, 200, 700])
async def test_missing_bytes_lose_only_their_operations(tmp_path: Path, count: int) -> None:
    folder = await write_notes(tmp_path)
    (path,) = list_segments(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    rest = path.read_bytes()[:-count]
    path.write_bytes(rest)
    whole = [number for number in range(COUNT) if sum(map(len, lines[: number + 2])) <= len(rest)]

    done = repair_folder(folder)

    after = await reopen(folder)
    assert after.notes == note_ids(*whole)
    # No number is given twice.
    assert after.last_seq >= COUNT
    assert any("are lost" in item.detail for item in done)


@pytest.mark.parametrize("size", [1, 100, 512, 1024])
async def test_nul_bytes_lose_only_the_overwritten_operations(tmp_path: Path, size: int) -> None:
    folder = await write_notes(tmp_path)
    (path,) = list_segments(folder)
    data = path.read_bytes()
    begin = len(data.splitlines(keepends=True)[0]) + 100
    path.write_bytes(data[:begin] + bytes(size) + data[begin + size :])

    repair_folder(folder)

    after = await reopen(folder)
    assert after.last_seq == COUNT
    assert note_ids(COUNT - 1) <= after.notes <= ALL


def take_out(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], *lines[4:]]


def double(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[2], *lines[3:]]


def move_up(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[5], *lines[2:5], *lines[6:]]


def add_remark(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], b"remark\n", *lines[3:]]


@pytest.mark.parametrize(
    ("edit", "lost"),
    [(take_out, [2]), (double, []), (move_up, []), (add_remark, [])],
    ids=["taken out", "doubled", "moved up", "with a remark"],
)
@pytest.mark.parametrize("options", [ONE_SEGMENT, StoreOptions(segment_bytes=1800)], ids=["one segment", "two"])
async def test_a_log_that_was_edited_by_hand_keeps_every_line_that_is_whole(
    tmp_path: Path, edit: Callable[[list[bytes]], list[bytes]], lost: Sequence[int], options: StoreOptions
) -> None:
    folder = await write_notes(tmp_path, options)
    path = list_segments(folder)[0]
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))

    repair_folder(folder)

    assert list_problems(folder) == []
    assert (await reopen(folder)).notes == ALL - note_ids(*lost)


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_a_damaged_header_loses_no_operation(tmp_path: Path, number: int) -> None:
    folder = await write_notes(tmp_path, SMALL_SEGMENTS)
    change_line(list_segments(folder)[number], 0, flip)

    done = repair_folder(folder)

    assert list_problems(folder) == []
    assert "no operation is lost" in done[-1].detail
    assert (await reopen(folder)).notes == ALL


@pytest.mark.parametrize("number", [0, 1, -1])
async def test_a_missing_segment_loses_only_its_operations(tmp_path: Path, number: int) -> None:
    folder = await write_notes(tmp_path, SMALL_SEGMENTS)
    gone = list_segments(folder)[number]
    held = {f"note-{index}" for index in range(COUNT) if f'"note-{index}"'.encode() in gone.read_bytes()}
    gone.unlink()

    done = repair_folder(folder)

    assert held
    assert list_problems(folder) == []
    assert any("lost" in item.detail for item in done)
    after = await reopen(folder)
    assert after.notes == ALL - held
    assert after.last_seq >= COUNT


async def test_a_segment_of_another_log_is_put_aside_whole(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path / "ours", SMALL_SEGMENTS)
    other = await write_notes(tmp_path / "other", SMALL_SEGMENTS)
    foreign = list_segments(other)[1].read_bytes()
    list_segments(folder)[1].write_bytes(foreign)

    repair_folder(folder)

    assert list_problems(folder) == []
    assert foreign in [path.read_bytes() for path in (folder / "quarantine").iterdir()]
    await reopen(folder)


async def test_concurrent_repairs_do_not_meet(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path)
    change_line(list_segments(folder)[0], 3, flip)

    done = await asyncio.gather(*(asyncio.to_thread(repair_folder, folder) for _ in range(4)), return_exceptions=True)

    assert sum(isinstance(item, list) and item != [] for item in done) == 1
    assert all(isinstance(item, list | Conflict) for item in done)
    assert (await reopen(folder)).notes == ALL - note_ids(2)


async def test_a_segment_without_header_shows_what_the_previous_one_lost(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path, SMALL_SEGMENTS)
    gone, behind = list_segments(folder)[1:]
    gone.unlink()
    change_line(behind, 0, flip)

    done = repair_folder(folder)

    assert "operations 3-4 are lost" in done[-1].detail
    assert "was missing" in [item.detail for item in done if item.subject == str(gone)]
    assert list_problems(folder) == []
    assert (await reopen(folder)).notes == ALL - note_ids(2, 3)


@pytest.mark.parametrize("all_of_them", [False, True], ids=["some line tells", "nothing tells"])
async def test_a_base_without_header_is_placed_by_the_next_segment(tmp_path: Path, all_of_them: bool) -> None:
    base = await write_compacted(tmp_path)
    store = open_files(tmp_path, options=SMALL_SEGMENTS)
    for number in range(10, 15):
        await commit_note(store, number)
    await store.close()
    behind = list_segments(tmp_path)
    change_line(base, 0, flip)
    for path in behind if all_of_them else behind[:1]:
        path.write_bytes(b"garbage\n")

    repair_folder(tmp_path)

    assert list_problems(tmp_path) == []
    assert len(behind) > 1
    after = await reopen(tmp_path)
    assert after.notes >= ALL
    assert ("note-14" in after.notes) != all_of_them
