"""Directories with a log that is to be damaged and repaired, and what is known of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from knowhub.core.operation import Draft, Group, Write
from knowhub.engine.view import AccountView
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import CountedIds, open_files
from tests.doctoring import inspect, repair
from tests.fakes.faulty_files import FaultyFileSystem

NOTES = "notes"
ONE_SEGMENT, SMALL_SEGMENTS = StoreOptions(), StoreOptions(segment_bytes=600)
COUNT = 6


def noting(number: int, group: Group | None = None) -> Callable[[AccountView], Draft]:
    row = {"id": f"note-{number}", "text": "said", "version": 1}
    return lambda _view: Draft("save_note", [Write(NOTES, f"note-{number}", row)], group=group)


async def note(store: FileStore, number: int) -> None:
    await store.commit("default", "user:li", noting(number))


async def written(folder: Path, options: StoreOptions = ONE_SEGMENT) -> Path:
    """Write notes one after another, the last two as a group."""
    store = open_files(folder, options=options)
    for number in range(COUNT - 2):
        await note(store, number)
    pair = [noting(COUNT - 2 + index, Group("pair", index, 2)) for index in range(2)]
    await store.commit_group("default", "user:li", pair)
    await store.close()
    return folder


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "change_log").glob("segment-*.jsonl"))


def mended(folder: Path, files: FaultyFileSystem | None = None) -> list[Finding]:
    return repair(folder, files, CountedIds())


def found(folder: Path) -> list[Finding]:
    return inspect(folder)


def problems(folder: Path) -> list[str]:
    return [f"{item.subject}: {item.detail}" for item in found(folder) if item.severity is Severity.PROBLEM]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "change_log").iterdir())}


@dataclass(frozen=True, slots=True)
class Reopened:
    """What a store says after it was opened, written to, and opened again."""

    notes: set[str]
    last_seq: int


async def reopened(folder: Path) -> Reopened:
    """Open a directory, hold it to having no damage, write to it and open it twice more."""
    store = open_files(folder)
    assert store.status().damage == []
    notes, last_seq = set(dict(store.state("default").memory_table(NOTES).texts())), store.last_seq
    await note(store, 99)
    await store.close()
    # Once as it is, and once as after a reboot.
    for lock in ("kept", "gone"):
        if lock == "gone":
            (folder / "LOCK").write_bytes(bytes(4096))
        again = open_files(folder)
        assert again.status().damage == []
        assert again.status().quarantined == []
        assert {row_id for row_id, _ in again.state("default").memory_table(NOTES).texts()} == notes | {"note-99"}
        assert again.last_seq == last_seq + 1
        await again.close()
    return Reopened(notes, last_seq)


def names(*numbers: int) -> set[str]:
    return {f"note-{number}" for number in numbers}


ALL = names(*range(COUNT))


def struck(path: Path, line: int, change: Callable[[bytes], bytes]) -> int:
    """Change one line of a file; return where it begins."""
    lines = path.read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:line]))
    lines[line] = change(lines[line])
    path.write_bytes(b"".join(lines))
    return offset


def flipped(line: bytes) -> bytes:
    return line[:60] + bytes([line[60] ^ 1]) + line[61:]


async def compacted(folder: Path) -> Path:
    """Write notes, forget the operations behind a base, and write two more."""
    store = open_files(await written(folder, SMALL_SEGMENTS), options=SMALL_SEGMENTS)
    await store.compact(0.0, run_in_process(RealFileSystem()))
    for number in (COUNT, COUNT + 1):
        await note(store, number)
    await store.close()
    (base,) = (folder / "change_log").glob("base-*.jsonl")
    return base
