"""Symlinks in the folder of memories: their targets are neither read, written nor removed."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from knowhub.context.directories import ABSTRACT, CONTENT, META, OVERVIEW, RELATIONS, directory_path
from knowhub.context.model import MemoryCategory
from knowhub.stores.files.projections.directory_export import DirectoryExport
from knowhub.stores.files.store import FileStore
from tests.archives import read_folder
from tests.builders import open_files
from tests.context_directories import directory_of, has_directory, make_export, read_text
from tests.context_rows import ACCOUNT, commit_rows, memory_at, node_row, part_row, part_rows, session_at

pytestmark = pytest.mark.anyio

SESSION, EVENT = session_at(), memory_at(MemoryCategory.EVENTS, "a")
ABOVE = ("", "..", "../..", "../../..", "../../../..")
INNER = (ABSTRACT, OVERVIEW, CONTENT, RELATIONS, META)


def replace_by_link(data: Path, address: str, below: str, outside: Path) -> Path:
    """Move the directory of a node, one above it or a file in it out of the data directory, and leave a link."""
    place = data / "context" / directory_path(address)
    path = place / below if below in INNER else Path(*place.parts[: len(place.parts) - below.count("..")])
    shutil.move(path, outside)
    path.symlink_to(outside)
    return path


def read_outside(outside: Path) -> Mapping[str, bytes]:
    return {"": outside.read_bytes()} if outside.is_file() else read_folder(outside)


async def export_session(data: Path) -> tuple[FileStore, DirectoryExport]:
    store = open_files(data)
    directories = make_export(store, data)
    await commit_rows(store, node_row(SESSION), *part_rows(SESSION, ["one", "two"]), node_row(EVENT, content="old"))
    await directories.catch_up()
    return store, directories


@pytest.mark.parametrize("below", [*ABOVE, *INNER])
@pytest.mark.parametrize("address", [SESSION, EVENT])
async def test_a_commit_does_not_write_through_symlinks(tmp_path: Path, address: str, below: str) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    store, directories = await export_session(data)
    link = replace_by_link(data, address, below, outside)
    before = read_outside(outside)
    more = [node_row(SESSION, version=2), part_row(SESSION, 2, "three"), node_row(EVENT, content="new", version=2)]

    done = await directories.project(ACCOUNT, await commit_rows(store, *more))

    assert done
    assert read_outside(outside) == before
    assert not link.is_symlink()
    assert "three" in read_text(data, SESSION)
    assert read_text(data, EVENT) == "new"
    await store.close()


def _link_to(target: Path) -> Callable[[Path], object]:
    return lambda place: place.symlink_to(target)


def _full_folder(place: Path) -> None:
    place.mkdir()
    (place / CONTENT).write_text("mine")
    (place / "mine.txt").write_text("mine")


SQUATTERS: Mapping[str, Callable[[Path], Callable[[Path], object]]] = {
    "a link to a folder": _link_to,
    "a link to nothing": lambda outside: _link_to(outside / "nothing"),
    "a file": lambda _outside: Path.touch,
    "an empty folder": lambda _outside: Path.mkdir,
    "a full folder": lambda _outside: _full_folder,
}


@pytest.mark.parametrize("squatter", SQUATTERS)
@pytest.mark.parametrize("address", [session_at("new"), memory_at(MemoryCategory.EVENTS, "new")])
async def test_a_new_memory_replaces_foreign_files(tmp_path: Path, address: str, squatter: str) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    store, directories = await export_session(data)
    _full_folder(outside)
    before = read_outside(outside)
    place = data / "context" / directory_path(address)
    SQUATTERS[squatter](outside)(place)
    rows = [node_row(address, content="new"), *(part_rows(address, ["new"]) if address == session_at("new") else [])]

    done = await directories.project(ACCOUNT, await commit_rows(store, *rows))

    assert done
    assert read_outside(outside) == before
    assert sorted(path.name for path in place.iterdir()) == sorted(INNER)
    assert "new" in read_text(data, address)
    assert not list((data / "context").rglob("*.tmp"))
    await store.close()


@pytest.mark.parametrize("below", ABOVE)
async def test_a_deletion_removes_nothing_through_a_symlink(tmp_path: Path, below: str) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    store, directories = await export_session(data)
    replace_by_link(data, EVENT, below, outside)
    before = read_outside(outside)

    await directories.project(ACCOUNT, await commit_rows(store, node_row(EVENT, deleted=True, version=2)))

    assert read_outside(outside) == before
    assert not has_directory(data, EVENT)
    await store.close()


async def test_a_pipe_in_the_place_of_an_empty_file_is_reported_and_replaced(tmp_path: Path) -> None:
    store, directories = await export_session(tmp_path)
    await directories.project(ACCOUNT, await commit_rows(store, node_row(EVENT, content="", version=2)))
    pipe = directory_of(tmp_path, EVENT) / CONTENT
    pipe.unlink()
    os.mkfifo(pipe)

    found = directories.check()
    await directories.project(ACCOUNT, await commit_rows(store, node_row(EVENT, content="", version=3)))

    assert found.differences
    assert pipe.is_file()
    await store.close()


@pytest.mark.parametrize("below", [*ABOVE, *INNER])
async def test_a_symlink_is_reported_and_a_rebuild_removes_only_it(tmp_path: Path, below: str) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    store, directories = await export_session(data)
    link = replace_by_link(data, SESSION, below, outside)
    before = read_outside(outside)

    found = directories.check()
    await directories.request_rebuild()
    await directories.catch_up()

    assert found.differences
    assert read_outside(outside) == before
    assert not link.is_symlink()
    assert "two" in read_text(data, SESSION)
    assert directories.check().differences == []
    await store.close()
