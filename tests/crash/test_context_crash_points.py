"""A process that dies at any call on the file system while it writes directories of memories, or cannot write them.

Who reads then sees a node as it was, as it is to be, or not at all; the next keeper makes it right.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowhub.context.model import Category, Level, MemoryContext
from knowhub.core.errors import NotFound, Unavailable
from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.directories.node_files import CONTENT, META, NodeFiles
from knowhub.stores.files.filesystem import FileSystem, RealFileSystem
from knowhub.stores.files.store import FileStore
from tests.builders import open_files
from tests.context_rows import ACCOUNT, memory_at, node_row, said, session_at, written
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

SESSION, EVENT, OTHER = session_at(), memory_at(Category.EVENTS, "a"), memory_at(Category.PROFILE)
WHOSE = MemoryContext(ACCOUNT, "li", "~li", "user:li", "user:li")
Rows = Sequence[Mapping[str, Any]]

FIRST: Rows = [node_row(SESSION), *said(SESSION, ["one", "two"]), node_row(EVENT, content="old"), node_row(OTHER)]
DEEDS: Mapping[str, Rows] = {
    "new nodes": [
        node_row(session_at("s2")),
        *said(session_at("s2"), ["x"]),
        node_row(memory_at(Category.EVENTS, "b")),
    ],
    "a merge": [node_row(EVENT, content="new", overview="more", relations=[], version=2)],
    "more messages": [node_row(SESSION, abstract="longer", version=2), *said(SESSION, ["three"], 2)],
    "a deletion": [node_row(EVENT, deleted=True, version=2)],
    "messages that go": [{**said(SESSION, ["one"])[0], "deleted": True, "version": 2}],
}


def on(store: FileStore, folder: Path, files: FileSystem) -> NodeDirectories:
    directories = NodeDirectories(files, DataDirectory(folder), store)
    store.subscribe(directories)
    return directories


async def filled(folder: Path, rows: Rows) -> Operation:
    """Make a directory whose keeper has seen what was first, and whose log tells of `rows` too."""
    store = open_files(folder)
    directories = on(store, folder, RealFileSystem())
    await written(store, *FIRST)
    await directories.bring_up()
    operation = await written(store, *rows)
    await store.close()
    return operation


def seen(folder: Path) -> dict[str, object]:
    """Return what a reader sees of each node that may be there; None where there is none."""
    nodes = ContextFS(RealFileSystem(), folder / "context")
    nodes._nodes = NodeFiles(RealFileSystem(), lambda _seconds: None)  # noqa: SLF001 -- a reader that does not wait
    found: dict[str, object] = {}
    for address in (SESSION, EVENT, OTHER, session_at("s2"), memory_at(Category.EVENTS, "b")):
        found[address] = None
        with contextlib.suppress(NotFound):
            found[address] = nodes.read_node(WHOSE, address)
    return found


def files_of(folder: Path) -> dict[str, bytes]:
    root = folder / "context"
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != "checkpoint.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


async def mended(folder: Path) -> dict[str, bytes]:
    """Return what stands when a keeper has come."""
    store = open_files(folder)
    await on(store, folder, RealFileSystem()).bring_up()
    await store.close()
    return files_of(folder)


async def expected_of(folder: Path) -> tuple[dict[str, object], dict[str, object], dict[str, bytes]]:
    """Return what is seen before the directories are brought up, what behind that, and every file then."""
    before = seen(folder)
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    shutil.rmtree(whole / "context")
    files = await mended(whole)
    return before, seen(whole), files


async def dies(folder: Path, operation: Operation | None, plan: Plan) -> tuple[bool, int]:
    """Let a process die within a projection, or a keeper's work where no operation is named; tell whether it did."""
    files = FaultyFileSystem()
    store = open_files(folder)
    directories = on(store, folder, files)
    files.begin(plan)
    try:
        await (directories.bring_up() if operation is None else directories.project(ACCOUNT, operation))
        died = False
    except CrashNow:
        died = True
    files.bury()
    await store.close()
    return died, files.calls


@pytest.mark.parametrize(
    ("worker", "half_written"),
    [("commit", False), ("commit", True), ("keeper", False), ("keeper without a note", True)],
)
@pytest.mark.parametrize("deed", DEEDS)
async def test_a_death_at_any_call_leaves_nodes_whole_and_the_next_keeper_finishes(
    tmp_path: Path, deed: str, worker: str, *, half_written: bool
) -> None:
    start = tmp_path / "start"
    operation = await filled(start, DEEDS[deed])
    if worker == "keeper without a note":
        (start / "context" / "checkpoint.json").unlink()
    before, behind, files = await expected_of(start)
    points = 0

    for number in range(1, 500):
        folder = tmp_path / str(number)
        shutil.copytree(start, folder)
        plan = Plan(crash_at=number, half_written=half_written)
        died, _ = await dies(folder, operation if worker == "commit" else None, plan)
        if not died:
            break
        points += 1
        for address, found in (await _as_seen(folder)).items():
            assert found in (before[address], behind[address], "torn"), (number, address)
        assert await mended(folder) == files, number
        shutil.rmtree(folder)

    assert points > 3


async def _as_seen(folder: Path) -> dict[str, object]:
    try:
        return seen(folder)
    except Unavailable:
        # Its files do not fit its `.meta.json`: nobody is shown them.
        return dict.fromkeys((SESSION, EVENT, OTHER), "torn")


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("deed", DEEDS)
async def test_a_disk_that_refuses_any_call_lets_the_commit_stand_and_the_keeper_finish(
    tmp_path: Path, deed: str, error: int
) -> None:
    start = tmp_path / "start"
    operation = await filled(start, DEEDS[deed])
    _, _, files = await expected_of(start)
    refused = 0

    for number in range(1, 500):
        folder = tmp_path / str(number)
        shutil.copytree(start, folder)
        faulty = FaultyFileSystem()
        store = open_files(folder)
        directories = on(store, folder, faulty)
        faulty.begin(Plan(fail_at=number, error=error, lasting=True))
        done = await directories.project(ACCOUNT, operation)
        calls = faulty.calls
        await store.close()
        assert await mended(folder) == files, number
        shutil.rmtree(folder)
        if done:
            assert calls < number
            break
        refused += 1

    assert refused > 0


@pytest.mark.parametrize("unread", [META, CONTENT])
async def test_a_disk_that_refuses_to_be_read_is_not_taken_for_a_node_that_is_not_there(
    tmp_path: Path, unread: str
) -> None:
    await filled(tmp_path, DEEDS["a merge"])
    files = FaultyFileSystem()
    nodes = ContextFS(files, tmp_path / "context")
    files.begin(Plan(fail_at=1 if unread == META else 2, kinds=["read_at"]))

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        nodes.read_level(WHOSE, EVENT, Level.L2)

    # Nor for one that is torn, which is asked for again and again.
    assert files.calls == (1 if unread == META else 2)
    assert nodes.read_level(WHOSE, EVENT, Level.L2) == "old"


async def test_a_torn_directory_behind_another_boot_is_written_anew(tmp_path: Path) -> None:
    await filled(tmp_path, DEEDS["a merge"])
    files = await mended(tmp_path)
    for path in (tmp_path / "context").rglob(".abstract.md"):
        path.write_bytes(bytes(path.stat().st_size))
    note = tmp_path / "context" / "checkpoint.json"
    store = open_files(tmp_path)

    await on(store, tmp_path, _Rebooted()).bring_up()
    await store.close()

    assert files_of(tmp_path) == files
    assert note.exists()


class _Rebooted(RealFileSystem):
    """A system that has another boot id than the one that wrote."""

    def read(self, path: Path) -> bytes:
        if path.name == "boot_id":
            return b"00000000-0000-0000-0000-000000000001\n"
        return super().read(path)
