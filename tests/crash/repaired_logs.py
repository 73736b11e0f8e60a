"""Directories with a log that a test damages and repairs, and what they should hold."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.operation import Draft, Group, Write
from knowhub.engine.view import AccountView
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import CountedIds, open_files
from tests.doctoring import inspect, repair
from tests.fakes.faulty_files import FaultyFileSystem

NOTES = "notes"
ONE_SEGMENT, SMALL_SEGMENTS = StoreOptions(), StoreOptions(segment_bytes=600)
COUNT = 6


def note_draft(number: int, group: Group | None = None) -> Callable[[AccountView], Draft]:
    row = {"id": f"note-{number}", "text": "said", "version": 1}
    return lambda _view: Draft("save_note", [Write(NOTES, f"note-{number}", row)], group=group)


async def commit_note(store: FileStore, number: int) -> None:
    await store.commit("default", "user:li", note_draft(number))


async def write_notes(folder: Path, options: StoreOptions = ONE_SEGMENT) -> Path:
    """Write notes one after another, the last two as a group."""
    store = open_files(folder, options=options)
    for number in range(COUNT - 2):
        await commit_note(store, number)
    pair = [note_draft(COUNT - 2 + index, Group("pair", index, 2)) for index in range(2)]
    await store.commit_group("default", "user:li", pair)
    await store.close()
    return folder


def list_segments(folder: Path) -> list[Path]:
    return sorted((folder / "change_log").glob("segment-*.jsonl"))


def repair_folder(folder: Path, files: FaultyFileSystem | None = None) -> list[Finding]:
    return repair(folder, files, CountedIds())


def list_problems(folder: Path) -> list[str]:
    return [f"{item.subject}: {item.detail}" for item in inspect(folder) if item.severity is Severity.PROBLEM]


@dataclass(frozen=True, slots=True)
class ReopenedFolder:
    """The state of a store after it was opened, written to, and opened again."""

    notes: set[str]
    last_seq: int


async def reopen(folder: Path) -> ReopenedFolder:
    """Open a directory, hold it to having no damage, write to it and open it twice more."""
    store = open_files(folder)
    assert store.status().damage == []
    notes, last_seq = set(dict(store.account("default").memory_table(NOTES).texts())), store.last_seq
    await commit_note(store, 99)
    await store.close()
    # Once unchanged, and once as after a reboot.
    for lock in ("kept", "gone"):
        if lock == "gone":
            (folder / "LOCK").write_bytes(bytes(4096))
        again = open_files(folder)
        assert again.status().damage == []
        assert again.status().quarantined == []
        assert {row_id for row_id, _ in again.account("default").memory_table(NOTES).texts()} == notes | {"note-99"}
        assert again.last_seq == last_seq + 1
        await again.close()
    return ReopenedFolder(notes, last_seq)


def note_ids(*numbers: int) -> set[str]:
    return {f"note-{number}" for number in numbers}


ALL = note_ids(*range(COUNT))


def change_line(path: Path, line: int, change: Callable[[bytes], bytes]) -> int:
    """Change one line of a file; return where it begins."""
    lines = path.read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:line]))
    lines[line] = change(lines[line])
    path.write_bytes(b"".join(lines))
    return offset


def iter_tails(*sizes: int) -> Iterator[bytes]:
    """Yield tails of NUL and of garbage."""
    rng = random.Random(13)
    for size in sizes:
        yield bytes(size)
        yield rng.randbytes(size)


def flip(line: bytes) -> bytes:
    return line[:60] + bytes([line[60] ^ 1]) + line[61:]


async def write_compacted(folder: Path) -> Path:
    """Write notes, compact the log, and write two more."""
    store = open_files(await write_notes(folder, SMALL_SEGMENTS), options=SMALL_SEGMENTS)
    await store.compact(0.0, run_in_process(FileSystem()))
    for number in (COUNT, COUNT + 1):
        await commit_note(store, number)
    await store.close()
    (base,) = (folder / "change_log").glob("base-*.jsonl")
    return base
