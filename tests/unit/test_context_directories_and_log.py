"""What the directories of memories are brought up from: what a process remembers, and the log where it does not."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from knowhub.context.model import Category, MemoryContext
from knowhub.core.errors import Unavailable
from knowhub.core.operation import Draft, Write
from knowhub.stores.files.apart import run_here
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.rows.state import AccountState
from knowhub.stores.files.rows.state_view import StateView
from knowhub.stores.files.store import FileStore, StoreOptions
from tests.builders import FakeClock, open_files
from tests.context_rows import ACCOUNT, OWNER, memory_at, node_row, written
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

WHOSE = MemoryContext(ACCOUNT, "li", "~li", "user:li", "user:li")
EVENTS = [memory_at(Category.EVENTS, str(number)) for number in range(6)]
A_SEGMENT_EACH = StoreOptions(segment_bytes=1)


def directories_on(store: FileStore, folder: Path, remembered: int = 10_000) -> NodeDirectories:
    made = NodeDirectories(RealFileSystem(), DataDirectory(folder), store, remembered=remembered)
    store.subscribe(made)
    return made


def place_of(folder: Path, address: str) -> Path:
    return Path(ContextFS(RealFileSystem(), folder / "context").resolve_path(WHOSE, address))


def there(folder: Path) -> list[str]:
    return [address for address in EVENTS if place_of(folder, address).exists()]


def noting(number: int) -> Callable[[StateView], Draft]:
    return lambda _view: Draft("note", [Write("notes", f"n{number}", {"version": 1})])


async def test_what_a_process_no_longer_remembers_is_brought_up_from_the_log(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path, remembered=2)
    await written(store, node_row(EVENTS[0]))
    await directories.bring_up()
    (place_of(tmp_path, EVENTS[0]) / "content.md").write_text("scribbled on")
    for address in EVENTS[1:]:
        await written(store, node_row(address))

    await directories.bring_up()

    assert there(tmp_path) == EVENTS
    # Nothing else is looked at.
    assert (place_of(tmp_path, EVENTS[0]) / "content.md").read_text() == "scribbled on"
    await store.close()


async def test_what_neither_a_process_remembers_nor_the_log_tells_any_more_is_brought_up_from_the_rows(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    store = open_files(tmp_path, options=A_SEGMENT_EACH, clock=clock)
    directories = directories_on(store, tmp_path, remembered=1)
    await written(store, node_row(EVENTS[0]))
    await directories.bring_up()
    await written(store, node_row(EVENTS[0], deleted=True, version=2))
    for address in EVENTS[1:-1]:
        await written(store, node_row(address))
    clock.advance(400 * 24 * 3600.0)
    await store.compact(0.0, run_here(RealFileSystem()))
    assert store.history.base_seq > 1
    await written(store, node_row(EVENTS[-1]))

    await directories.bring_up()

    assert there(tmp_path) == EVENTS[1:]
    await store.close()


class CompactedMeanwhile:
    """A log of which a compaction forgets all that it may between two looks of who brings directories up."""

    def __init__(self, store: FileStore, looks: int) -> None:
        self._store = store
        self._looks = looks
        self.log_id = store.log_id
        self.history = store.history

    @property
    def erases(self) -> int:
        return self._store.erases

    @property
    def accounts(self) -> Sequence[str]:
        return self._store.accounts

    def state(self, account: str) -> AccountState:
        return self._store.state(account)

    async def refresh(self) -> None:
        await self._store.refresh()
        self._looks -= 1
        if self._looks == 0:
            await self._store.compact(0.0, run_here(RealFileSystem()))


@pytest.mark.parametrize("looks", range(1, len(EVENTS)))
async def test_what_is_compacted_away_while_directories_are_brought_up_leaves_no_gap(
    tmp_path: Path, looks: int
) -> None:
    clock = FakeClock()
    store = open_files(tmp_path, options=A_SEGMENT_EACH, clock=clock)
    await written(store, node_row(EVENTS[0]))
    await directories_on(store, tmp_path).bring_up()
    await store.close()
    store = open_files(tmp_path, options=A_SEGMENT_EACH, clock=clock)
    for address in EVENTS[1:]:
        await written(store, node_row(address))
    await written(store, node_row(EVENTS[0], deleted=True, version=2))
    clock.advance(400 * 24 * 3600.0)
    directories = NodeDirectories(RealFileSystem(), DataDirectory(tmp_path), CompactedMeanwhile(store, looks))

    await directories.bring_up()

    assert store.history.base_seq > 1
    assert there(tmp_path) == EVENTS[1:]
    await store.close()


async def test_a_keeper_that_starts_brings_up_what_lies_behind_many_damaged_lines(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    await written(store, node_row(EVENTS[0]))
    await directories_on(store, tmp_path).bring_up()
    await store.commit_group(ACCOUNT, OWNER, [noting(number) for number in range(600)])
    await written(store, node_row(EVENTS[1]))
    await store.close()
    (segment,) = (tmp_path / "change_log").glob("segment-*")
    segment.write_bytes(segment.read_bytes().replace(b'"op":"note"', b'"op":"nope"'))
    store = open_files(tmp_path)

    await directories_on(store, tmp_path).bring_up()

    assert store.status().damage
    assert there(tmp_path) == EVENTS[:2]
    await store.close()


async def test_a_round_of_the_keeper_holds_a_hundred_directories_against_the_log_and_the_next_the_others(
    tmp_path: Path,
) -> None:
    store = open_files(tmp_path)
    rows = [node_row(memory_at(Category.EVENTS, str(number))) for number in range(150)]
    await directories_on(store, tmp_path).project(ACCOUNT, await written(store, *rows))
    contents = [place_of(tmp_path, str(row["id"])) / "content.md" for row in rows]
    for path in contents:
        path.write_text("scribbled on")
    directories = directories_on(store, tmp_path)
    left = []

    for _ in range(2):
        await directories.patrol()
        left.append(sum(path.read_text() == "scribbled on" for path in contents))

    assert left == [50, 0]
    await store.close()


@pytest.mark.parametrize("account", [None, ACCOUNT])
async def test_a_rebuild_on_a_disk_that_refuses_says_so(tmp_path: Path, account: str | None) -> None:
    store, files = open_files(tmp_path), FaultyFileSystem()
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    await directories.project(ACCOUNT, await written(store, node_row(EVENTS[0])))
    (place_of(tmp_path, EVENTS[0]) / "content.md").write_text("scribbled on")
    files.begin(Plan(fail_at=1, error=errno.EIO, lasting=True))

    with pytest.raises(Unavailable, match="not every directory"):
        await directories.rebuild(account)
    files.begin(Plan())
    await directories.rebuild(account)

    assert (place_of(tmp_path, EVENTS[0]) / "content.md").read_text() != "scribbled on"
    await store.close()


async def test_a_directory_whose_note_leaves_out_a_file_that_is_gone_is_written_anew(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    await written(store, node_row(EVENTS[1]))
    await directories.bring_up()
    operation = await written(store, node_row(EVENTS[0], overview="Moved to Ghent"))
    await directories.project(ACCOUNT, operation)
    place = place_of(tmp_path, EVENTS[0])
    note = (place / ".meta.json").read_bytes()
    (place / ".overview.md").unlink()
    told = orjson.loads(note)
    del told["files"][".overview.md"]
    (place / ".meta.json").write_bytes(orjson.dumps(told))

    await directories_on(store, tmp_path).bring_up()

    assert (place / ".overview.md").read_text() == "Moved to Ghent"
    assert (place / ".meta.json").read_bytes() == note
    await store.close()
