"""`doctor --repair` that dies, fails, or finds a damaged base: nothing more is lost, and the next repair finishes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile
from tests.builders import open_files
from tests.crash.repaired_logs import (
    ALL,
    COUNT,
    NOTES,
    SMALL_SEGMENTS,
    change_line,
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
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio


DAMAGE: dict[str, Callable[[Path], object]] = {
    "one line": lambda folder: change_line(list_segments(folder)[1], 1, flip),
    "a line taken out": lambda folder: change_line(list_segments(folder)[0], 2, lambda _line: b""),
    "a header": lambda folder: change_line(list_segments(folder)[1], 0, flip),
    "a missing segment": lambda folder: list_segments(folder)[1].unlink(),
    "the first segment": lambda folder: list_segments(folder)[0].unlink(),
    "the last segment": lambda folder: list_segments(folder)[-1].unlink(),
}


@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_crash_while_repairing_loses_nothing_more(tmp_path: Path, damage: str, half_written: bool) -> None:
    source = await write_notes(tmp_path / "source", SMALL_SEGMENTS)
    expected: set[str] | None = None
    call = 0
    while True:
        # In its place, so that LOCK is believed as long as it is.
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)
        shutil.copytree(source, tmp_path / "kept")
        DAMAGE[damage](source)
        files = FaultyFileSystem()
        files.begin(Plan(crash_at=call or None, half_written=half_written))
        died = False
        try:
            repair_folder(source, files)
        except CrashNow:
            died = True
            files.bury()
        repair_folder(source)

        assert list_problems(source) == []
        store = open_files(source)
        notes = {row_id for row_id, _ in store.account("default").memory_table(NOTES).texts()}
        assert store.status().damage == []
        await store.close()
        expected = notes if expected is None else expected
        assert notes == expected
        if call and not died:
            break
        call += 1
        shutil.rmtree(source)
        source = await write_notes(tmp_path / "source", SMALL_SEGMENTS)
    assert call > 8


async def test_a_segment_recreated_by_a_dead_repair_is_not_trusted(
    tmp_path: Path,
) -> None:
    made = call = 0
    died = True
    while died:
        call += 1
        folder = await write_notes(tmp_path / str(call), SMALL_SEGMENTS)
        vanished = list_segments(folder)[-1]
        # A file system gives the number of a file that is gone to the next one.
        inode = vanished.stat().st_ino
        vanished.unlink()
        files = FaultyFileSystem()
        files.begin(Plan(crash_at=call))

        try:
            repair_folder(folder, files)
            died = False
        except CrashNow:
            files.bury()

        if any((folder / "change_log").glob(f"{vanished.stem}*")):
            made += 1
            lock = LockFile(FileSystem(), folder / "LOCK", is_read_only=True)
            assert not lock.is_trusted(inode)
            lock.close()
    assert made > 2


async def test_a_fault_while_repairing_is_raised_and_the_next_repair_finishes(tmp_path: Path) -> None:
    call = 0
    while True:
        call += 1
        folder = await write_notes(tmp_path / str(call), SMALL_SEGMENTS)
        change_line(list_segments(folder)[1], 1, flip)
        files = FaultyFileSystem()
        files.begin(Plan(fail_at=call))
        try:
            repair_folder(folder, files)
            break
        except OSError:
            repair_folder(folder)

        assert list_problems(folder) == []
        assert len((await reopen(folder)).notes) == COUNT - 1
    assert call > 8


@pytest.mark.parametrize("line", ["header", "rows", "end"])
async def test_a_damaged_base_keeps_every_line_that_is_whole(tmp_path: Path, line: str) -> None:
    base = await write_compacted(tmp_path)
    number = {"header": 0, "rows": 1, "end": -1}[line]
    lines = base.read_bytes().splitlines(keepends=True)
    bad = bytes([lines[number][12] ^ 1])
    lines[number] = lines[number][:12] + bad + lines[number][13:]
    base.write_bytes(b"".join(lines))
    held = {f"note-{index}" for index in range(COUNT) if f'"note-{index}"'.encode() in lines[1]}
    assert held
    assert list_problems(tmp_path) != []

    done = repair_folder(tmp_path)

    assert list_problems(tmp_path) == []
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert kept.read_bytes() == lines[number]
    after = await reopen(tmp_path)
    everything = ALL | note_ids(COUNT, COUNT + 1)
    assert after.notes == (everything - held if line == "rows" else everything)
    assert after.last_seq == COUNT + 2
    assert repair_folder(tmp_path) == []
    assert any("rows of it are kept" in item.detail for item in done)


async def test_a_missing_base_is_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    base = await write_compacted(tmp_path)
    base.unlink()

    done = repair_folder(tmp_path)

    assert list_problems(tmp_path) == []
    assert any("are lost" in item.detail for item in done)
    after = await reopen(tmp_path)
    assert note_ids(COUNT, COUNT + 1) <= after.notes
    assert after.last_seq == COUNT + 2


async def test_record_files_of_a_damaged_log_are_quarantined(tmp_path: Path) -> None:
    folder = await write_notes(tmp_path)
    (folder / "records" / "accounts" / "a").mkdir(parents=True)
    (folder / "records" / "notes.jsonl").write_bytes(b"what it was\n")
    (folder / "records" / "accounts" / "a" / "notes.jsonl").write_bytes(b"elsewhere\n")
    change_line(list_segments(folder)[0], 3, flip)

    repair_folder(folder)

    kept = {path.name: path.read_bytes() for path in (folder / "quarantine").glob("records-*")}
    assert kept == {"records-1-notes.jsonl": b"what it was\n", "records-1-accounts%2Fa%2Fnotes.jsonl": b"elsewhere\n"}
    assert not list((folder / "records").rglob("*.jsonl"))
    assert sum("it may tell of what is lost" in item.detail for item in inspect(folder)) == 2
