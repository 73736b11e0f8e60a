"""A log that is cut, filled with NUL or garbage, or has a flipped bit: it is recovered exactly, or reported."""

import asyncio
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import ReadOnly
from knowhub.core.operation import Group, Row
from knowhub.stores.files.store import FileStore, StoreOptions
from tests.builders import open_files
from tests.crash.repaired_logs import NOTES, commit_note, note_draft
from tests.segment_bytes import read_segment

pytestmark = pytest.mark.anyio

SEGMENT = Path("change_log") / "segment-00000001.jsonl"
# Every offset takes minutes: nightly.
STEPS = pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.nightly)])
TAILS = (1, 2, 3, 7, 64, 511, 512, 513, 4095, 4096, 4097, 8191, 8192)


@dataclass(frozen=True, slots=True)
class NotesFolder:
    """A closed folder with one note to each line of its log."""

    folder: Path
    log: bytes
    lines: Sequence[bytes]
    groups: Sequence[tuple[int, int]]

    def notes(self, numbers: Sequence[int]) -> set[str]:
        return {f"note-{number}" for number in numbers}

    def whole_below(self, length: int) -> list[int]:
        """Return the numbers of the notes whose lines end within `length` bytes; a group counts as a whole."""
        numbers, end = [], len(self.lines[0])
        for number, line in enumerate(self.lines[1:]):
            end += len(line)
            if end <= length:
                numbers.append(number)
        for first, last in self.groups:
            if first in numbers and last not in numbers:
                numbers = [number for number in numbers if number < first]
        return numbers

    def line_at(self, offset: int) -> int:
        """Return the number of the note whose line holds `offset`, -1 for the header."""
        end = 0
        for number, line in enumerate(self.lines):
            end += len(line)
            if offset < end:
                return number - 1
        raise IndexError(offset)


async def write_notes(folder: Path, batches: int = 1) -> NotesFolder:
    """Write notes: three in one batch, one alone, a group of two."""
    store = open_files(folder)
    groups = []
    for batch in range(batches):
        first = batch * 6
        await asyncio.gather(*(commit_note(store, first + number) for number in range(3)))
        await commit_note(store, first + 3)
        pair = [note_draft(first + 4 + index, Group(f"group-{batch}", index, 2)) for index in range(2)]
        await store.commit_group("default", "user:li", pair)
        groups.append((first + 4, first + 5))
    await store.close()
    log = (folder / SEGMENT).read_bytes()
    return NotesFolder(folder, log, log.splitlines(keepends=True), groups)


def notes_of(store: FileStore) -> dict[str, bytes]:
    return dict(store.account("default").memory_table(NOTES).texts())


async def reopen(folder: Path) -> tuple[dict[str, bytes], Any]:
    store = open_files(folder)
    try:
        return notes_of(store), store.status()
    finally:
        await store.close()


def place_log(source: NotesFolder, target: Path, log: bytes, *, is_trusted: bool) -> Path:
    """Put `log` in the place of the folder's own, under its LOCK, or in a copy whose LOCK is not believed."""
    if is_trusted:
        (source.folder / SEGMENT).write_bytes(log)
        return source.folder
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source.folder, target)
    (target / SEGMENT).write_bytes(log)
    return target


@STEPS
async def test_every_prefix_of_a_log_is_recovered_up_to_its_last_whole_line(tmp_path: Path, step: int) -> None:
    source = await write_notes(tmp_path / "source")
    header = len(source.lines[0])
    all_notes, _ = await reopen(source.folder)
    copy = place_log(source, tmp_path / "copy", source.log, is_trusted=False)
    for length in list_offsets(source, step, header):
        shutil.rmtree(copy / "quarantine", ignore_errors=True)
        (copy / "LOCK").write_bytes(bytes(4096))
        (copy / SEGMENT).write_bytes(source.log[:length])

        notes, status = await reopen(copy)

        expected = source.whole_below(length)
        kept = header + sum(len(source.lines[number + 1]) for number in expected)
        assert notes == {name: all_notes[name] for name in source.notes(expected)}
        assert status.damage == []
        torn = [source.log[kept:length]] if kept < length else []
        assert [path.read_bytes() for path in status.quarantined] == torn


@STEPS
async def test_every_prefix_that_lacks_acknowledged_lines_is_reported(tmp_path: Path, step: int) -> None:
    source = await write_notes(tmp_path / "source")
    all_notes, _ = await reopen(source.folder)
    for length in list_offsets(source, step)[:-1]:
        (source.folder / SEGMENT).write_bytes(source.log[:length])

        notes, status = await reopen(source.folder)

        assert status.damage
        assert not status.writable
        assert notes.items() <= all_notes.items()
        assert len(notes) >= len([end for end in line_ends(source) if end <= length]) - 1
        assert (source.folder / SEGMENT).read_bytes() == source.log[:length]


def list_offsets(source: NotesFolder, step: int, first: int = 0) -> list[int]:
    """Return some offsets of a log: those around the ends of its lines, and every `step` between."""
    near = [end + more for end in line_ends(source) for more in (-2, -1, 0, 1, 2)]
    last = len(source.log)
    return sorted({*range(first, last, step), *(at for at in near if first <= at <= last)})


def line_ends(source: NotesFolder) -> list[int]:
    return [sum(map(len, source.lines[: number + 1])) for number in range(len(source.lines))]


@pytest.mark.parametrize("is_trusted", [False, True], ids=["LOCK is not believed", "LOCK is believed"])
@pytest.mark.parametrize("kind", ["NUL", "garbage", "half a line and NUL"])
async def test_bytes_after_the_end_are_cut_and_quarantined(tmp_path: Path, kind: str, is_trusted: bool) -> None:
    rng = random.Random(7)
    source = await write_notes(tmp_path / "source")
    all_notes, _ = await reopen(source.folder)
    for size in (*TAILS, *(rng.randint(1, 8192) for _ in range(20))):
        half = source.lines[-1][: len(source.lines[-1]) // 2]
        tail = {"NUL": bytes(size), "garbage": rng.randbytes(size), "half a line and NUL": half + bytes(size)}[kind]
        folder = place_log(source, tmp_path / "copy", source.log + tail, is_trusted=is_trusted)

        notes, status = await reopen(folder)
        again, later = await reopen(folder)

        assert notes == again == all_notes
        assert status.damage == later.damage == []
        assert [path.read_bytes() for path in status.quarantined] == [tail]
        assert later.quarantined == []
        assert (folder / SEGMENT).read_bytes() == source.log


@STEPS
@pytest.mark.parametrize("is_trusted", [False, True], ids=["LOCK is not believed", "LOCK is believed"])
async def test_a_flipped_bit_in_any_byte_is_named_and_the_rest_is_served(
    tmp_path: Path, is_trusted: bool, step: int
) -> None:
    source = await write_notes(tmp_path / "source", batches=2)
    all_notes, _ = await reopen(source.folder)
    folder = place_log(source, tmp_path / "copy", source.log, is_trusted=is_trusted)
    for offset in list_offsets(source, step)[:-1]:
        shutil.rmtree(folder / "quarantine", ignore_errors=True)
        if not is_trusted:
            (folder / "LOCK").write_bytes(bytes(4096))
        (folder / SEGMENT).write_bytes(flip(source.log, offset * 8 + offset % 8))

        notes, status = await reopen(folder)

        struck = source.line_at(offset)
        assert status.damage or status.quarantined
        assert notes.items() <= all_notes.items()
        assert f"note-{struck}" not in notes
        if is_trusted:
            # A flipped newline joins two lines, and a flip to a newline makes two of one: no more than two are lost.
            assert len(notes) >= len(all_notes) - 2
            assert not status.writable


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


async def test_every_single_bit_of_a_small_log_is_guarded(tmp_path: Path) -> None:
    source = await write_notes(tmp_path / "source")
    start = len(source.lines[0])
    good = rows_in(read_segment(source.log[start:], start, 1, durable=True).lines)

    bits = range(start * 8, len(source.log) * 8)
    unnoticed = [bit for bit in bits if is_silently_wrong(source.log, start, bit, good)]

    assert len(good) == 6
    assert unnoticed == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
async def test_every_single_bit_of_a_log_of_a_hundred_kilobytes_is_guarded(tmp_path: Path) -> None:
    source = await write_notes(tmp_path / "source", batches=55)
    start = len(source.lines[0])
    good = rows_in(read_segment(source.log[start:], start, 1, durable=True).lines)

    unnoticed = []
    for number, line in enumerate(source.lines[1:], start=1):
        offset = sum(map(len, source.lines[:number]))
        # Lines before the flipped one, and after the next two, are not affected by the flip.
        near = b"".join(source.lines[number : number + 3])
        known = rows_in(read_segment(near, offset, number, durable=True).lines)
        unnoticed += [bit for bit in range(len(line) * 8) if is_wrong_near(near, offset, number, bit, known)]

    assert len(source.log) > 100_000
    assert len(good) == 330
    assert unnoticed == []


def is_silently_wrong(log: bytes, start: int, bit: int, good: dict[str, Row]) -> bool:
    data = flip(log, bit)[start:]
    for durable in (True, False):
        judged = read_segment(data, start, 1, durable=durable)
        rows = rows_in(judged.lines)
        named = bool(judged.damage) or judged.end < start + len(data)
        if not named or not rows.items() <= good.items():
            return True
    return False


def is_wrong_near(near: bytes, offset: int, seq: int, bit: int, known: dict[str, Row]) -> bool:
    judged = read_segment(flip(near, bit), offset, seq, durable=True)
    # The damage is known after the lines have been read.
    rows = rows_in(judged.lines)
    return not judged.damage or not rows.items() <= known.items()


def rows_in(lines: Iterable[Any]) -> dict[str, Row]:
    return {change["id"]: change["after"] for line in lines for change in line.record["changes"]}


@pytest.mark.parametrize("page_bytes", [512, 4096])
async def test_a_page_of_the_last_batch_that_never_reached_the_disk_is_torn(tmp_path: Path, page_bytes: int) -> None:
    store = open_files(tmp_path / "source")
    await commit_note(store, 0)
    last_batch = (tmp_path / "source" / SEGMENT).stat().st_size
    await asyncio.gather(*(commit_note(store, number) for number in range(1, 40)))
    await store.close()
    log = (tmp_path / "source" / SEGMENT).read_bytes()
    source = NotesFolder(tmp_path / "source", log, log.splitlines(keepends=True), [])
    for page in range(-(-last_batch // page_bytes), len(log) // page_bytes):
        start, end = page * page_bytes, (page + 1) * page_bytes
        folder = place_log(source, tmp_path / "copy", log[:start] + bytes(page_bytes) + log[end:], is_trusted=False)

        notes, status = await reopen(folder)

        assert set(notes) == source.notes(range(source.line_at(start)))
        assert status.damage == []
        assert len(status.quarantined) == 1
    assert len(log) - last_batch > 3 * page_bytes


@pytest.mark.parametrize("is_trusted", [False, True], ids=["LOCK is not believed", "LOCK is believed"])
async def test_whole_lines_that_change_places_are_named(tmp_path: Path, is_trusted: bool) -> None:
    source = await write_notes(tmp_path / "source")
    all_notes, _ = await reopen(source.folder)
    header, first, second, third, *rest = source.lines
    for lines in ([header, second, first, third, *rest], [header, first, first, third, *rest]):
        folder = place_log(source, tmp_path / "copy", b"".join(lines), is_trusted=is_trusted)

        notes, status = await reopen(folder)

        assert status.damage
        assert notes.items() <= all_notes.items()
        assert not status.writable


async def test_a_damaged_log_is_read_and_never_written(tmp_path: Path) -> None:
    source = await write_notes(tmp_path / "source")
    offset = len(source.lines[0]) + 10
    damaged = flip(source.log, offset * 8)
    (source.folder / SEGMENT).write_bytes(damaged)
    store = open_files(source.folder)

    with pytest.raises(ReadOnly, match=r"segment-00000001.jsonl at offset"):
        await commit_note(store, 99)
    await store.refresh()
    numbers = [operation.seq async for operation in store.operations("default")]
    await store.close()

    assert numbers == [6, 5, 4, 3, 2]
    assert (source.folder / SEGMENT).read_bytes() == damaged


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda line: bytes(len(line)), "a run of NUL bytes"),
        (lambda line: line[:-1] + b" ", "a line without an end"),
        (lambda line: flip(line, 80), "its checksum, its JSON or its sequence number is wrong"),
    ],
)
async def test_what_is_wrong_with_an_acknowledged_line_is_named(
    tmp_path: Path, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    source = await write_notes(tmp_path)
    last = source.lines[-1]
    (tmp_path / SEGMENT).write_bytes(source.log[: -len(last)] + spoil(last))

    _, status = await reopen(tmp_path)

    assert [(damage.offset, damage.reason) for damage in status.damage] == [(len(source.log) - len(last), reason)]


async def test_damage_at_a_segment_end_does_not_hide_the_next_segment(tmp_path: Path) -> None:
    store = open_files(tmp_path, options=StoreOptions(segment_bytes=1))
    for number in range(4):
        await commit_note(store, number)
    await store.close()
    second = tmp_path / "change_log" / "segment-00000002.jsonl"
    second.write_bytes(flip(second.read_bytes(), second.stat().st_size * 8 - 80))

    notes, status = await reopen(tmp_path)

    assert sorted(notes) == ["note-1", "note-2", "note-3"]
    assert [Path(damage.path).name for damage in status.damage] == ["segment-00000002.jsonl"]


@pytest.mark.parametrize("boundary", [False, True], ids=["inside a line", "between lines"])
async def test_bytes_missing_under_an_open_store_are_reported(tmp_path: Path, boundary: bool) -> None:
    reader, writer = open_files(tmp_path), open_files(tmp_path)
    header = (tmp_path / SEGMENT).stat().st_size
    await commit_note(writer, 1)
    with (tmp_path / SEGMENT).open("r+b") as file:
        file.truncate(header if boundary else header + 20)

    await reader.refresh()
    status = reader.status()
    await writer.close()
    await reader.close()

    assert "damaged" in (status.reason or "")
