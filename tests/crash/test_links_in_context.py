"""Links in the folder of all memories: what they lead to is neither read, written nor removed."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from knowhub.context.model import Category, Level, MemoryContext
from knowhub.core.errors import NotFound
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.directories.context_paths import physical
from knowhub.stores.files.directories.node_files import ABSTRACT, CONTENT, META, OVERVIEW, RELATIONS
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.store import FileStore
from tests.builders import open_files
from tests.context_rows import ACCOUNT, memory_at, node_row, part_row, said, session_at, written

pytestmark = pytest.mark.anyio

SESSION, EVENT = session_at(), memory_at(Category.EVENTS, "a")
WHOSE = MemoryContext(ACCOUNT, "li", "~li", "user:li", "user:li")
ABOVE = ("", "..", "../..", "../../..", "../../../..")
INNER = (ABSTRACT, OVERVIEW, CONTENT, RELATIONS, META)


def directories_on(store: FileStore, folder: Path) -> NodeDirectories:
    made = NodeDirectories(RealFileSystem(), DataDirectory(folder), store)
    store.subscribe(made)
    return made


def linked(data: Path, address: str, below: str, outside: Path) -> Path:
    """Move the directory of a node, one above it or a file in it out of the data directory, and leave a link."""
    place = data / "context" / physical(address)
    path = place / below if below in INNER else Path(*place.parts[: len(place.parts) - below.count("..")])
    shutil.move(path, outside)
    path.symlink_to(outside)
    return path


def seen(outside: Path) -> dict[str, bytes]:
    if outside.is_file():
        return {"": outside.read_bytes()}
    return {str(path.relative_to(outside)): path.read_bytes() for path in outside.rglob("*") if path.is_file()}


async def world(tmp_path: Path) -> tuple[FileStore, NodeDirectories, ContextFS]:
    store = open_files(tmp_path / "data")
    directories = directories_on(store, tmp_path / "data")
    rows = [node_row(SESSION), *said(SESSION, ["one", "two"]), node_row(EVENT, content="old")]
    await directories.project(ACCOUNT, await written(store, *rows))
    return store, directories, ContextFS(RealFileSystem(), tmp_path / "data" / "context")


@pytest.mark.parametrize("below", [*ABOVE, *INNER])
@pytest.mark.parametrize("address", [SESSION, EVENT])
async def test_a_commit_writes_through_no_link(tmp_path: Path, address: str, below: str) -> None:
    store, directories, nodes = await world(tmp_path)
    link = linked(tmp_path / "data", address, below, tmp_path / "outside")
    before = seen(tmp_path / "outside")
    more = [node_row(SESSION, version=2), part_row(SESSION, 2, "three"), node_row(EVENT, content="new", version=2)]

    done = await directories.project(ACCOUNT, await written(store, *more))

    assert done
    assert seen(tmp_path / "outside") == before
    assert not link.is_symlink()
    assert "three" in nodes.read_level(WHOSE, SESSION, Level.L2)
    assert nodes.read_level(WHOSE, EVENT, Level.L2) == "new"
    await store.close()


def _link_to(target: Path) -> Callable[[Path], object]:
    return lambda place: place.symlink_to(target)


def _full_folder(place: Path) -> None:
    place.mkdir()
    (place / CONTENT).write_text("mine")


SQUATTERS: Mapping[str, Callable[[Path], Callable[[Path], object]]] = {
    "a link to a folder": _link_to,
    "a link to nothing": lambda outside: _link_to(outside / "nothing"),
    "a file": lambda _outside: Path.touch,
    "an empty folder": lambda _outside: Path.mkdir,
    "a full folder": lambda _outside: _full_folder,
}


@pytest.mark.parametrize("squatter", SQUATTERS)
@pytest.mark.parametrize("address", [session_at("new"), memory_at(Category.EVENTS, "new")])
async def test_a_new_memory_takes_its_place_whatever_stands_there(tmp_path: Path, address: str, squatter: str) -> None:
    store, directories, nodes = await world(tmp_path)
    outside = tmp_path / "outside"
    _full_folder(outside)
    before = seen(outside)
    place = tmp_path / "data" / "context" / physical(address)
    SQUATTERS[squatter](outside)(place)
    rows = [node_row(address, content="new"), *(said(address, ["new"]) if address == session_at("new") else [])]

    done = await directories.project(ACCOUNT, await written(store, *rows))

    assert done
    assert seen(outside) == before
    assert [path.name for path in sorted(place.iterdir())] == sorted(INNER)
    assert "new" in nodes.read_level(WHOSE, address, Level.L2)
    assert not list((tmp_path / "data" / "context").rglob("*.tmp"))
    await store.close()


@pytest.mark.parametrize("below", ABOVE)
async def test_a_deletion_removes_nothing_behind_a_link(tmp_path: Path, below: str) -> None:
    store, directories, nodes = await world(tmp_path)
    linked(tmp_path / "data", EVENT, below, tmp_path / "outside")
    before = seen(tmp_path / "outside")

    await directories.project(ACCOUNT, await written(store, node_row(EVENT, deleted=True, version=2)))

    assert seen(tmp_path / "outside") == before
    assert not nodes.exists(WHOSE, EVENT)
    await store.close()


@pytest.mark.parametrize("below", [*ABOVE, *INNER])
@pytest.mark.parametrize("is_patrol", [True, False])
async def test_a_link_is_mended_with_nothing_behind_it_touched(tmp_path: Path, below: str, is_patrol: bool) -> None:
    store, directories, nodes = await world(tmp_path)
    link = linked(tmp_path / "data", SESSION, below, tmp_path / "outside")
    before = seen(tmp_path / "outside")

    await (directories.patrol() if is_patrol else directories.rebuild())

    assert seen(tmp_path / "outside") == before
    assert not link.is_symlink()
    assert "two" in nodes.read_level(WHOSE, SESSION, Level.L2)
    await store.close()


@pytest.mark.parametrize("below", ABOVE)
async def test_what_is_half_written_behind_a_link_stays(tmp_path: Path, below: str) -> None:
    store, directories, _nodes = await world(tmp_path)
    await directories.bring_up()
    linked(tmp_path / "data", SESSION, below, tmp_path / "outside")
    theirs = tmp_path / "outside" / ".theirs.1.2.tmp"
    theirs.write_text("theirs")
    await written(store, node_row(EVENT, content="new", version=2))

    await directories_on(store, tmp_path / "data").bring_up()

    assert theirs.read_text() == "theirs"
    await store.close()


@pytest.mark.parametrize("below", ABOVE)
async def test_a_node_behind_a_link_is_not_read(tmp_path: Path, below: str) -> None:
    store, _directories, nodes = await world(tmp_path)
    linked(tmp_path / "data", EVENT, below, tmp_path / "outside")

    with pytest.raises(NotFound):
        nodes.read_node(WHOSE, EVENT)

    assert not nodes.exists(WHOSE, EVENT)
    assert not nodes.stat_node(WHOSE, EVENT).exists
    assert EVENT not in {one.uri for one in nodes.list_children(WHOSE, f"ctx://{ACCOUNT}", recursive=True)}
    await store.close()
