"""The directories of memories: what a commit writes, and that it is what the keeper would have written."""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from knowhub.context.model import Category, Level, MemoryContext
from knowhub.context.transcript import transcript
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.directories.context_directories import NodeDirectories
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.directories.context_lock import held_meanwhile
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.store import FileStore
from tests.builders import open_files
from tests.context_rows import ACCOUNT, memory_at, node_row, part_row, said, session_at, written
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio

SESSION = session_at()
WHOSE = MemoryContext(ACCOUNT, "li", "~li", "user:li", "user:li")


def directories_on(store: FileStore, folder: Path) -> NodeDirectories:
    made = NodeDirectories(RealFileSystem(), DataDirectory(folder), store)
    store.subscribe(made)
    return made


def nodes_in(folder: Path) -> ContextFS:
    return ContextFS(RealFileSystem(), DataDirectory(folder).context)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file of the directories by its path, the note on them left out."""
    root = folder / "context"
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != "checkpoint.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def inode_of(path: Path) -> int:
    return path.stat().st_ino


async def rebuilt(store: FileStore, folder: Path) -> dict[str, bytes]:
    """Return what a keeper writes that finds nothing."""
    shutil.rmtree(folder / "context")
    await directories_on(store, folder).bring_up()
    return files_of(folder)


async def test_a_commit_is_on_the_disk_when_it_is_projected(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    event = node_row(
        memory_at(Category.EVENTS, "moved house"),
        abstract="Moved house",
        overview="Moved to Ghent",
        content="On Monday.",
        metadata={"by": "rules", "said_at": "2026-03-05"},
        relations=[{"to_uri": SESSION, "relation_type": "said_in", "reason": "m0", "weight": 0.5}],
    )
    parts = said(SESSION, ["I moved house.", "# not a heading of ours\n\nreally"])

    done = await directories.project(ACCOUNT, await written(store, node_row(SESSION), *parts, event))

    node = nodes_in(tmp_path).read_node(WHOSE, str(event["id"]))
    assert done
    assert (node.abstract, node.overview, node.content) == ("Moved house", "Moved to Ghent", "On Monday.")
    assert node.metadata == event["metadata"]
    assert [(edge.to_uri, edge.weight) for edge in node.relations] == [(SESSION, 0.5)]
    assert nodes_in(tmp_path).read_level(WHOSE, SESSION, Level.L2) == transcript(parts)
    assert files_of(tmp_path) == await rebuilt(store, tmp_path)
    await store.close()


async def test_what_is_added_to_a_transcript_stands_behind_it_as_if_written_at_once(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    texts = [f"message {number} 消息" for number in range(30)]
    for first in range(0, 30, 10):
        rows = [node_row(SESSION, version=first // 10 + 1), *said(SESSION, texts[first : first + 10], first)]
        await directories.project(ACCOUNT, await written(store, *rows))

    assert nodes_in(tmp_path).read_level(WHOSE, SESSION, Level.L2) == transcript(said(SESSION, texts))
    assert files_of(tmp_path) == await rebuilt(store, tmp_path)
    await store.close()


async def test_adding_writes_no_more_of_a_transcript_than_what_is_new(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    await directories.project(ACCOUNT, await written(store, node_row(SESSION), *said(SESSION, ["a" * 100_000])))
    content = next((tmp_path / "context").rglob("content.md"))
    inode = content.stat().st_ino

    await directories.project(ACCOUNT, await written(store, node_row(SESSION, version=2), part_row(SESSION, 1, "b")))

    assert content.stat().st_ino == inode
    assert content.read_text().endswith("b\n\n")
    await store.close()


async def test_a_message_that_went_is_in_the_transcript_no_more_and_one_that_came_back_is(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    parts = said(SESSION, ["a", "b", "c"])
    await directories.project(ACCOUNT, await written(store, node_row(SESSION), *parts))

    gone = {**parts[1], "deleted": True, "version": 2}
    await directories.project(ACCOUNT, await written(store, gone))
    without = nodes_in(tmp_path).read_level(WHOSE, SESSION, Level.L2)
    # It comes back together with a new one: as many changes as messages behind what is there would explain.
    back, new = {**parts[1], "version": 3}, part_row(SESSION, 3, "d")
    await directories.project(ACCOUNT, await written(store, back, new))

    assert without == transcript([parts[0], parts[2]])
    assert nodes_in(tmp_path).read_level(WHOSE, SESSION, Level.L2) == transcript([*parts, new])
    await store.close()


async def test_a_deleted_node_takes_its_directory_and_the_empty_folders_above_it_along(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    event = node_row(memory_at(Category.EVENTS, "a"))
    await directories.project(ACCOUNT, await written(store, event, node_row(SESSION)))

    await directories.project(ACCOUNT, await written(store, {**event, "deleted": True, "version": 2}))

    assert nodes_in(tmp_path).exists(WHOSE, SESSION)
    assert not nodes_in(tmp_path).exists(WHOSE, str(event["id"]))
    assert not list((tmp_path / "context").rglob("memories"))
    await store.close()


async def test_the_keeper_brings_up_what_no_commit_projected_and_looks_at_nothing_else(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    await written(store, node_row(SESSION), *said(SESSION, ["a"]))
    await directories.bring_up()
    first = files_of(tmp_path)
    abstract = next((tmp_path / "context").rglob(".abstract.md"))
    abstract.write_text("scribbled on")

    await written(store, node_row(memory_at(Category.EVENTS, "a")))
    await directories.bring_up()

    assert len(files_of(tmp_path)) == len(first) + 5
    assert abstract.read_text() == "scribbled on"
    assert directories.lag == 0
    await store.close()


async def test_a_keeper_that_starts_goes_on_from_the_note_of_the_last_one(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    await written(store, node_row(SESSION), *said(SESSION, ["a"]))
    await directories.bring_up()
    await written(store, node_row(memory_at(Category.EVENTS, "a")))
    await store.close()
    store = open_files(tmp_path)

    abstract = next((tmp_path / "context").rglob(".abstract.md"))
    abstract.write_text("scribbled on")
    await directories_on(store, tmp_path).bring_up()

    assert nodes_in(tmp_path).exists(WHOSE, memory_at(Category.EVENTS, "a"))
    assert abstract.read_text() == "scribbled on"
    await store.close()


@pytest.mark.parametrize("spoilt", ["note", "other log"])
async def test_a_keeper_with_no_note_of_this_log_looks_at_every_byte(tmp_path: Path, spoilt: str) -> None:
    store = open_files(tmp_path)
    events = [node_row(memory_at(Category.EVENTS, name)) for name in "abc"]
    await written(store, node_row(SESSION), *said(SESSION, ["a"]), *events)
    await directories_on(store, tmp_path).bring_up()
    expected = files_of(tmp_path)
    root = tmp_path / "context"
    folders = sorted(path.parent for path in root.rglob(".meta.json"))
    (folders[0] / ".abstract.md").write_text("x" * len((folders[0] / ".abstract.md").read_text()))
    shutil.rmtree(folders[1])
    shutil.copytree(folders[2], folders[2].with_name("stranger.0123456789abcdef"))
    (folders[2].with_name(".half.1.2.tmp")).mkdir()
    (folders[2] / "notes.txt").write_text("mine")
    if spoilt == "note":
        (root / "checkpoint.json").unlink()
    else:
        text = (root / "checkpoint.json").read_bytes()
        (root / "checkpoint.json").write_bytes(text.replace(b'"log_id":"', b'"log_id":"x'))

    await directories_on(store, tmp_path).bring_up()

    assert files_of(tmp_path) == expected
    assert not list(root.rglob("*.tmp"))
    await store.close()


async def test_directories_that_nobody_ever_needed_are_not_made(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)

    await directories.bring_up()

    assert not (tmp_path / "context").exists()
    assert (directories.noted_erases, directories.lag) == (None, 0)
    await store.close()


async def test_a_writer_that_holds_the_folder_for_too_long_leaves_the_work_to_the_keeper(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    operation = await written(store, node_row(SESSION), *said(SESSION, ["a"]))
    patient = directories_on(store, tmp_path)
    hasty = NodeDirectories(RealFileSystem(), DataDirectory(tmp_path), store, wait_s=0.01)

    async with held_meanwhile(RealFileSystem(), tmp_path / "context"):
        waits = await hasty.project(ACCOUNT, operation)
    await patient.bring_up()

    assert not waits
    assert nodes_in(tmp_path).exists(WHOSE, SESSION)
    await store.close()


async def test_two_writers_of_one_directory_leave_the_newest_state(tmp_path: Path) -> None:
    one, other = open_files(tmp_path), open_files(tmp_path)
    sides = [(one, directories_on(one, tmp_path)), (other, directories_on(other, tmp_path))]

    async def add(number: int) -> bool:
        store, directories = sides[number % 2]
        event = node_row(memory_at(Category.EVENTS, "a"), content=str(number), version=number + 2)
        operation = await written(store, part_row(SESSION, number, f"text {number}"), event)
        return await directories.project(ACCOUNT, operation)

    await written(one, node_row(SESSION))
    done = await asyncio.gather(*map(add, range(24)))
    await one.refresh()

    assert all(done)
    newest = one.view(ACCOUNT).get("context_nodes", memory_at(Category.EVENTS, "a"))
    assert newest is not None
    assert nodes_in(tmp_path).read_level(WHOSE, memory_at(Category.EVENTS, "a"), Level.L2) == newest["content"]
    assert files_of(tmp_path) == await rebuilt(one, tmp_path)
    await one.close()
    await other.close()


async def test_a_request_that_is_broken_off_lets_its_directories_be_written_all_the_same(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    operation = await written(store, node_row(SESSION), *said(SESSION, ["a"]))

    asking = asyncio.get_running_loop().create_task(directories.project(ACCOUNT, operation))
    await asyncio.sleep(0)
    asking.cancel()
    await directories.close()

    assert nodes_in(tmp_path).exists(WHOSE, SESSION)
    await store.close()


def _folder_for(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "removed": shutil.rmtree,
    "overwritten": lambda folder: (folder / "content.md").write_text("scribbled on"),
    "overwritten in as many bytes": lambda folder: (folder / "content.md").write_bytes(
        b"x" * (folder / "content.md").stat().st_size
    ),
    "a note that does not read": lambda folder: (folder / ".meta.json").write_text("{"),
    "a folder for a file": lambda folder: _folder_for(folder / ".abstract.md"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("mends", ["patrol", "rebuild", "rebuild of an account", "the next commit"])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_directory_that_somebody_damaged_is_mended(
    tmp_path: Path, damage: str, mends: str, is_restarted: bool
) -> None:
    store = open_files(tmp_path)
    directories = directories_on(store, tmp_path)
    await directories.project(ACCOUNT, await written(store, node_row(SESSION), *said(SESSION, ["one", "two"])))
    await directories.bring_up()
    if is_restarted:
        directories = directories_on(store, tmp_path)
    DAMAGES[damage](next((tmp_path / "context").rglob(".meta.json")).parent)

    if mends == "patrol":
        await directories.patrol()
    elif mends == "the next commit":
        more = await written(store, node_row(SESSION, version=2), part_row(SESSION, 2, "three"))
        await directories.project(ACCOUNT, more)
    else:
        await directories.rebuild(ACCOUNT if mends == "rebuild of an account" else None)

    assert files_of(tmp_path) == await rebuilt(store, tmp_path)
    await store.close()


async def test_a_patrol_comes_round_all_nodes_and_reads_only_what_looks_otherwise(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), FaultyFileSystem()
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    store.subscribe(directories)
    addresses = [memory_at(Category.EVENTS, str(number)) for number in range(450)]
    await directories.project(ACCOUNT, await written(store, *map(node_row, addresses)))
    expected = files_of(tmp_path)
    files.begin(Plan())
    for _ in range(3):
        await directories.patrol()
    opened = files.counts["open_existing"]
    for path in sorted((tmp_path / "context").rglob("content.md"))[::150]:
        path.write_text("scribbled on")

    for _ in range(3):
        await directories.patrol()

    assert opened == 0
    assert files_of(tmp_path) == expected
    await store.close()


async def test_a_patrol_passes_over_what_was_deleted_since_it_set_out(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), FaultyFileSystem()
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    store.subscribe(directories)
    rows = [node_row(memory_at(Category.EVENTS, str(number))) for number in range(450)]
    await directories.project(ACCOUNT, await written(store, *rows))
    expected = files_of(tmp_path)
    await directories.patrol()
    gone, last = [{**row, "deleted": True, "version": 2} for row in rows[:-1]], str(rows[-1]["id"])
    await directories.project(ACCOUNT, await written(store, *gone))
    files.begin(Plan())

    await directories.patrol()
    opened = files.counts["open_existing"]
    for path in (tmp_path / "context").rglob("content.md"):
        path.write_text("scribbled on")
    await directories.patrol()

    # Not even the lock is taken for what is gone.
    assert opened == 0
    assert files_of(tmp_path).items() <= expected.items()
    assert nodes_in(tmp_path).exists(WHOSE, last)
    await store.close()


async def test_what_is_added_to_a_transcript_that_looks_as_it_did_reads_none_of_it(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), FaultyFileSystem()
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    store.subscribe(directories)
    await directories.project(ACCOUNT, await written(store, node_row(SESSION), *said(SESSION, ["a" * 100_000])))
    more = await written(store, node_row(SESSION, version=2), part_row(SESSION, 1, "b"))
    files.begin(Plan())

    await directories.project(ACCOUNT, more)
    calls = files.counts["read_at"]
    files.begin(Plan())
    (content,) = (tmp_path / "context").rglob("content.md")
    content.write_bytes(content.read_bytes())
    await directories.project(ACCOUNT, await written(store, part_row(SESSION, 2, "c")))

    assert files.counts["read_at"] > calls
    assert calls <= 3
    await store.close()


async def test_of_new_memories_only_the_folder_is_looked_at_and_nothing_is_opened(tmp_path: Path) -> None:
    store, files = open_files(tmp_path), FaultyFileSystem()
    directories = NodeDirectories(files, DataDirectory(tmp_path), store)
    store.subscribe(directories)
    counts = []
    for turn, size in enumerate((1, 1, 40)):
        events = [node_row(memory_at(Category.EVENTS, f"{number} of {turn}")) for number in range(size)]
        session = session_at(f"of {turn}")
        operation = await written(store, node_row(session), *said(session, ["one", "two"]), *events)
        files.begin(Plan())

        await directories.project(ACCOUNT, operation)
        counts.append((files.counts["look"], files.counts["read_at"], files.counts["open_existing"]))

    assert counts[2] == counts[1]
    # What is opened is the folder of all memories, for its lock.
    assert counts[2][1:] == (0, 1)
    await store.close()
