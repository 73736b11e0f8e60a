"""`knowhub doctor` on the directories of memories: what does not say what the log says is named, and repaired."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from knowhub.bootstrap import open_hub
from knowhub.context.model import Category
from knowhub.core.ids import RandomIds
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.doctor.findings import Finding, Severity
from knowhub.stores.files.doctor.inspection import inspect
from knowhub.stores.files.doctor.repairing import repair
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.store import FileStore
from tests.builders import open_files
from tests.context_rows import ACCOUNT, draft, memory_at, node_row, said, session_at

pytestmark = pytest.mark.anyio

SESSION = session_at()
EVENTS = [memory_at(Category.EVENTS, name) for name in "ab"]


async def filled(folder: Path, *, is_behind: bool = False) -> None:
    store = open_files(folder)
    directories = NodeDirectories(RealFileSystem(), DataDirectory(folder), store)
    store.subscribe(directories)
    rows = [node_row(SESSION), *said(SESSION, ["one", "two"]), *map(node_row, EVENTS)]
    await store.commit(ACCOUNT, "user:li", lambda _view: draft(*rows))
    gone = {**said(SESSION, ["one"])[0], "deleted": True, "version": 2}
    await store.commit(ACCOUNT, "user:li", lambda _view: draft(gone))
    await directories.bring_up()
    if is_behind:
        await store.commit(ACCOUNT, "user:li", lambda _view: draft(node_row(EVENTS[0], content="more", version=2)))
    await store.close()


async def brought_up(folder: Path) -> None:
    store: FileStore = open_files(folder)
    await NodeDirectories(RealFileSystem(), DataDirectory(folder), store).bring_up()
    await store.close()


def of_context(folder: Path) -> list[Finding]:
    found = inspect(RealFileSystem(), DataDirectory(folder))
    return [one for one in found if one.subject == "context"]


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in (folder / "context").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def node(folder: Path) -> Path:
    return next(path for path in sorted((folder / "context").rglob("events/*")) if path.is_dir())


def session(folder: Path) -> Path:
    return next(path for path in (folder / "context").rglob("sessions/*") if path.is_dir())


async def test_directories_that_say_what_the_log_says_are_well(tmp_path: Path) -> None:
    await filled(tmp_path)

    found = of_context(tmp_path)

    assert [(one.severity, one.detail) for one in found] == [(Severity.OK, "directories: 3, each as the log says")]


async def test_directories_behind_the_log_need_nobody(tmp_path: Path) -> None:
    await filled(tmp_path, is_behind=True)

    found = of_context(tmp_path)

    assert [one.severity for one in found] == [Severity.NOTE]
    assert "1 operations behind" in found[0].detail


def overwrite(path: Path, text: str) -> None:
    path.write_text(text)


def lengthen(path: Path) -> None:
    path.write_text(path.read_text() + "more")


def unrevised(note: Path) -> None:
    note.write_bytes(note.read_bytes().replace(b'"revision"', b'"reversion"'))


SPOILT: dict[str, Callable[[Path], None]] = {
    "a changed text": lambda folder: overwrite(node(folder) / ".abstract.md", "What A is about"),
    "a changed transcript": lambda folder: overwrite(session(folder) / "content.md", "x" * 26),
    "a lengthened transcript": lambda folder: lengthen(session(folder) / "content.md"),
    "a missing file": lambda folder: (node(folder) / "content.md").unlink(),
    "a note that names no revision": lambda folder: unrevised(node(folder) / ".meta.json"),
    "a torn note": lambda folder: overwrite(node(folder) / ".meta.json", "{"),
    "a missing directory": lambda folder: shutil.rmtree(node(folder)),
}


@pytest.mark.parametrize("spoil", SPOILT)
async def test_what_does_not_say_what_the_log_says_is_a_problem_and_is_repaired(tmp_path: Path, spoil: str) -> None:
    await filled(tmp_path)
    expected = files_of(tmp_path)
    SPOILT[spoil](tmp_path)

    found = of_context(tmp_path)
    done = repair(RealFileSystem(), DataDirectory(tmp_path), RandomIds())
    repaired = of_context(tmp_path)
    await brought_up(tmp_path)

    assert [one.severity for one in found] == [Severity.PROBLEM]
    assert "context" in {one.subject for one in done}
    assert all(one.severity is Severity.NOTE for one in repaired)
    assert files_of(tmp_path) == expected
    assert [one.severity for one in of_context(tmp_path)] == [Severity.OK]


async def test_the_directory_of_a_deleted_memory_is_not_missed_and_one_that_stands_again_is_named(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    folder = node(tmp_path)
    shutil.copytree(folder, tmp_path / "kept")
    store = open_files(tmp_path)
    directories = NodeDirectories(RealFileSystem(), DataDirectory(tmp_path), store)
    store.subscribe(directories)
    await store.commit(ACCOUNT, "user:li", lambda _view: draft(node_row(EVENTS[0], deleted=True, version=2)))
    await directories.bring_up()
    await store.close()

    gone = of_context(tmp_path)
    shutil.copytree(tmp_path / "kept", folder)
    again = of_context(tmp_path)

    assert [(one.severity, one.detail) for one in gone] == [(Severity.OK, "directories: 2, each as the log says")]
    assert [one.severity for one in again] == [Severity.NOTE, Severity.OK]
    assert "of no memory of the log" in again[0].detail
    assert folder.name in again[0].detail


async def test_a_directory_that_a_server_wrote_since_the_log_was_read_is_no_problem(tmp_path: Path) -> None:
    data, later = tmp_path / "data", tmp_path / "later"
    await filled(data)
    shutil.copytree(data, later)
    store = open_files(later)
    await store.commit(ACCOUNT, "user:li", lambda _view: draft(node_row(EVENTS[0], content="more", version=2)))
    await NodeDirectories(RealFileSystem(), DataDirectory(later), store).bring_up()
    await store.close()
    # The log, and what the directories say of themselves, as they were read; a directory as it is looked at.
    folder = node(data)
    shutil.rmtree(folder)
    shutil.copytree(node(later), folder)

    found = of_context(data)

    assert (folder / "content.md").read_text() == "more"
    assert [(one.severity, one.detail) for one in found] == [(Severity.OK, "directories: 3, each as the log says")]


async def test_directories_are_not_held_against_a_log_that_is_damaged(tmp_path: Path) -> None:
    await filled(tmp_path)
    segment = tmp_path / "change_log" / "segment-00000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"What a is about", b"What z is about"))

    found = of_context(tmp_path)

    assert [(one.severity, one.detail) for one in found] == [(Severity.NOTE, "not compared, as the log is damaged")]


async def test_strangers_and_what_was_half_written_are_named_and_removed(tmp_path: Path) -> None:
    await filled(tmp_path)
    expected = files_of(tmp_path)
    folder = node(tmp_path)
    shutil.copytree(folder, folder.with_name("stranger.0123456789abcdef"))
    shutil.copytree(folder, folder.with_name(".half.1.2.tmp"))
    (tmp_path / "context" / "notes.txt").write_text("mine")

    found = of_context(tmp_path)
    repair(RealFileSystem(), DataDirectory(tmp_path), RandomIds())
    await brought_up(tmp_path)

    assert [one.severity for one in found] == [Severity.NOTE, Severity.NOTE, Severity.OK]
    assert "stranger.0123456789abcdef" in found[0].detail
    assert "notes.txt" in found[1].detail
    assert ".half.1.2.tmp" in found[1].detail
    assert files_of(tmp_path) == expected


async def test_directories_of_another_log_are_written_anew(tmp_path: Path) -> None:
    await filled(tmp_path)
    note = tmp_path / "context" / "checkpoint.json"
    note.write_bytes(note.read_bytes().replace(b'"seq":', b'"seq":9'))

    found = of_context(tmp_path)
    repair(RealFileSystem(), DataDirectory(tmp_path), RandomIds())

    assert [one.severity for one in found] == [Severity.NOTE]
    assert not (tmp_path / "context").exists()


async def test_what_was_never_needed_is_not_spoken_of(tmp_path: Path) -> None:
    await open_files(tmp_path).close()

    assert of_context(tmp_path) == []


async def test_an_index_of_memories_that_is_damaged_is_a_problem(tmp_path: Path) -> None:
    async with open_hub(Settings(data_dir=tmp_path, owner="user:local"), keep=False) as hub:
        await hub.store.commit(ACCOUNT, "user:li", lambda _view: draft(node_row(SESSION)))
        await hub.keeper.run_once()
    built = next((tmp_path / "indexes" / "context").glob("*/*/built.json"))
    subject = str(built.parent.relative_to(tmp_path))

    before = [one.severity for one in inspect(RealFileSystem(), DataDirectory(tmp_path)) if one.subject == subject]
    built.write_bytes(b"{}")
    after = [one.severity for one in inspect(RealFileSystem(), DataDirectory(tmp_path)) if one.subject == subject]

    assert (before, after) == ([Severity.OK], [Severity.PROBLEM])
