"""What happens to the directories of memories while a keeper is at work on them: what was seen is not so any more."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knowhub.context.model import Category, MemoryContext
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.filesystem import FILE_MODE, FilePath, RealFileSystem
from knowhub.stores.files.store import FileStore
from tests.builders import open_files
from tests.context_rows import ACCOUNT, memory_at, node_row, written

pytestmark = pytest.mark.anyio

WHOSE = MemoryContext(ACCOUNT, "li", "~li", "user:li", "user:li")


def directories_on(store: FileStore, folder: Path) -> NodeDirectories:
    made = NodeDirectories(RealFileSystem(), DataDirectory(folder), store)
    store.subscribe(made)
    return made


def place_of(folder: Path, address: str) -> Path:
    return Path(ContextFS(RealFileSystem(), folder / "context").resolve_path(WHOSE, address))


def inode_of(path: Path) -> int:
    return path.stat().st_ino


class _Meanwhile(RealFileSystem):
    """Lets something happen when the folder of all memories is listed, or opened for its lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.on_listing: list[Callable[[], object]] = []
        self.on_opening: list[Callable[[], object]] = []

    def names(self, folder: Path) -> Sequence[str]:
        if folder == self.root and self.on_listing:
            self.on_listing.pop(0)()
        return super().names(folder)

    def open(self, path: FilePath, flags: int, mode: int = FILE_MODE) -> int:
        if path == self.root and self.on_opening:
            self.on_opening.pop(0)()
        return super().open(path, flags, mode)


async def test_what_others_write_while_strangers_and_dead_nodes_are_looked_for_stays(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), _Meanwhile(tmp_path / "context")
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    events = [memory_at(Category.EVENTS, name) for name in "abc"]
    places = [place_of(tmp_path, event) for event in events]
    await directories.project(ACCOUNT, await written(store, node_row(events[0])))
    places[0].with_name(".half.1.2.tmp").mkdir()
    inodes: list[int] = []

    async def write_elsewhere(number: int) -> None:
        other = open_files(tmp_path)
        # A writer waits for two seconds at most: somebody who holds the lock meanwhile fails this.
        assert await directories_on(other, tmp_path).project(ACCOUNT, await written(other, node_row(events[number])))
        await other.close()
        inodes.append(inode_of(places[number]))

    files.on_listing = [lambda: asyncio.run(write_elsewhere(1)), lambda: asyncio.run(write_elsewhere(2))]

    await directories.rebuild()

    assert [inode_of(place) for place in places[1:]] == inodes
    assert not list((tmp_path / "context").rglob("*.tmp"))
    await store.close()


async def test_a_folder_that_took_the_place_of_a_link_before_that_was_removed_stays(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), _Meanwhile(tmp_path / "context")
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    event = memory_at(Category.EVENTS, "a")
    await directories.project(ACCOUNT, await written(store, node_row(event)))
    place = place_of(tmp_path, event)
    place.parent.rename(tmp_path / "outside")
    place.parent.symlink_to(tmp_path / "outside")
    inode = inode_of(tmp_path / "outside" / place.name)

    def mend() -> None:
        place.parent.unlink()
        (tmp_path / "outside").rename(place.parent)

    files.on_opening = [mend]

    await directories.rebuild()

    assert inode_of(place) == inode
    await store.close()


@pytest.mark.parametrize("is_linked", [False, True])
async def test_what_was_half_written_when_it_was_seen_and_is_whole_since_stays(tmp_path: Path, is_linked: bool) -> None:
    store, files = open_files(tmp_path), _Meanwhile(tmp_path / "context")
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    event = memory_at(Category.EVENTS, "a")
    await directories.project(ACCOUNT, await written(store, node_row(event)))
    place = place_of(tmp_path, event)
    half = place.with_name(".half.1.2.tmp")
    place.rename(half)
    inode = inode_of(half)

    def go_on() -> None:
        if is_linked:
            place.parent.rename(tmp_path / "outside")
            place.parent.symlink_to(tmp_path / "outside")
        else:
            half.rename(place)

    files.on_opening = [go_on]

    await directories.rebuild()

    # Behind a link it is nobody's but its owner's, half-written or not.
    assert inode_of(tmp_path / "outside" / half.name if is_linked else place) == inode
    assert len(list((tmp_path / "context").rglob(".meta.json"))) == 1
    await store.close()


async def test_a_dead_node_that_lies_behind_a_link_when_it_is_to_go_stays_there(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), _Meanwhile(tmp_path / "context")
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    dead = memory_at(Category.EVENTS, "dead")
    operation = await written(store, node_row(dead))
    await directories.project(ACCOUNT, operation)
    await written(store, node_row(dead, deleted=True, version=2))
    place = place_of(tmp_path, dead)
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def put_aside() -> None:
        place.parent.rename(tmp_path / "outside")
        place.parent.symlink_to(tmp_path / "outside")

    # There is no stranger and no live node: the lock is taken for the dead ones alone.
    files.on_opening = [put_aside]

    await directories.rebuild()

    assert files.on_opening == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "outside" / place.name).iterdir()} == before
    await store.close()
