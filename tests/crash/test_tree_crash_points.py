"""The process dies at each file-system call of a verb that writes many tree rows: all are written, or none."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.ids import RandomIds
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.curate.curator import Curator
from knowhub.keywords.info_service import InfoService
from knowhub.keywords.model import InfoPolicy, LinkRequest, NewInfo, NewKeyword, RelationType, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import DeleteOptions, KeywordService
from knowhub.operations.service import OperationsService
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import local, open_files
from tests.crash.process_death import MANY_SEGMENTS, NEVER_REACHED, ONE_SEGMENT, wait_for_death
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.fakes.plain_text import PlainText
from tests.keyword_model import TreeModel
from tests.tree_answers import LogReader, Rows, check_view, strip_bookkeeping

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True)
class CrashTree:
    """The services of the tree on one open store."""

    store: FileStore
    keywords: KeywordService
    infos: InfoService
    curator: Curator
    operations: OperationsService


def tree_on(store: FileStore) -> CrashTree:
    ids, text, options = RandomIds(), PlainText(), TreeOptions()
    agent = KeywordAgent(None, RecentMatchesByReader(), options)
    return CrashTree(
        store,
        KeywordService(store, NearKeywords(text), ids, agent, options),
        InfoService(store, text, ids, agent, options),
        Curator(store, text, ids, agent, options),
        OperationsService(store, ids, COLLECTIONS),
    )


@asynccontextmanager
async def open_tree(folder: Path, options: StoreOptions) -> AsyncIterator[CrashTree]:
    store = open_files(folder, None, options)
    try:
        yield tree_on(store)
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class PreparedTree:
    """The ids of a folder with a small tree, by name, and of the operation that an undo is of."""

    ids: dict[str, str]
    operation_id: str = ""


Verb = Callable[[CrashTree, PreparedTree], Coroutine[Any, Any, object]]


async def prepare(folder: Path, undone: Verb | None) -> PreparedTree:
    """Make a tree of three levels with infos linked to two keywords; run the operation that a test undoes."""
    async with open_tree(folder, ONE_SEGMENT) as tree:
        names = [("编程", None), ("Python", "编程"), ("asyncio", "Python"), ("pytest", "Python"), ("蟒蛇", "编程")]
        items = [NewKeyword(name, ref=name, parent_ref=above) for name, above in names]
        made = await tree.keywords.create_batch(local(), items)
        ids = {str(saved.record["name"]): str(saved.record["id"]) for saved in made.records}
        for number, on in enumerate([("Python", "蟒蛇"), ("Python", "asyncio"), ("pytest", "编程")]):
            new = NewInfo(f"content {number}", keyword_ids=[ids[name] for name in on])
            ids[f"info {number}"] = str((await tree.infos.create(local(), new)).record["id"])
        if undone is None:
            return PreparedTree(ids)
        await undone(tree, PreparedTree(ids))
        newest = await anext(aiter(tree.store.operations("default")))
    return PreparedTree(ids, newest.operation_id)


async def merge(tree: CrashTree, known: PreparedTree) -> object:
    return await tree.keywords.merge(local(), known.ids["Python"], known.ids["蟒蛇"])


async def delete_all_below(tree: CrashTree, known: PreparedTree) -> object:
    how = DeleteOptions(cascade=True, policy=InfoPolicy.REATTACH)
    return await tree.keywords.delete(local(), known.ids["Python"], how)


async def create_batch(tree: CrashTree, known: PreparedTree) -> object:
    items = [NewKeyword(f"child {number}", known.ids["Python"], [f"alias {number}"]) for number in range(40)]
    return await tree.keywords.create_batch(local(), items)


async def create_infos(tree: CrashTree, known: PreparedTree) -> object:
    both = [known.ids["Python"], known.ids["蟒蛇"]]
    return await tree.infos.create_batch(local(), [NewInfo(f"info {number}", keyword_ids=both) for number in range(20)])


async def delete_info(tree: CrashTree, known: PreparedTree) -> object:
    return await tree.infos.delete(local(), known.ids["info 0"])


async def relink(tree: CrashTree, known: PreparedTree) -> object:
    return await tree.infos.link(local(), known.ids["info 0"], known.ids["Python"], LinkRequest(RelationType.SOURCE))


async def apply_plan(tree: CrashTree, known: PreparedTree) -> object:
    async def ref(name: str) -> dict[str, Any]:
        return {"id": known.ids[name], "version": (await tree.keywords.get(local(), known.ids[name])).version}

    steps = [
        {"kind": "split", "node": await ref("Python"), "groups": [{"name": "libs", "children": [await ref("pytest")]}]},
        {"kind": "move", "node": await ref("asyncio"), "to": await ref("蟒蛇")},
        {"kind": "merge", "source": await ref("Python"), "into": await ref("蟒蛇")},
    ]
    return await tree.curator.apply(local(), {"steps": steps})


async def undo(tree: CrashTree, known: PreparedTree) -> object:
    return await tree.operations.undo(local(), known.operation_id)


VERBS: Sequence[tuple[Verb, Verb | None]] = (
    (merge, None),
    (delete_all_below, None),
    (create_batch, None),
    (apply_plan, None),
    (undo, merge),
    (undo, delete_all_below),
    (undo, create_batch),
)
MORE_VERBS: Sequence[tuple[Verb, Verb | None]] = (
    *VERBS,
    (create_infos, None),
    (delete_info, None),
    (relink, None),
    (undo, create_infos),
    (undo, delete_info),
    (undo, relink),
    (undo, apply_plan),
)


def name_of_verbs(verbs: tuple[Verb, Verb | None]) -> str:
    return "-of-".join(verb.__name__ for verb in verbs if verb is not None)


async def read_rows(folder: Path, options: StoreOptions) -> Rows:
    """Return every row of the log, and check that an opened store answers the same."""
    async with open_tree(folder, options) as tree:
        assert tree.store.status().damage == []
        log = LogReader(folder)
        log.read_on()
        check_view(tree.store.view("default"), log.rows)
        assert TreeModel.of(log.rows).fault() is None
        return log.rows


async def check_goes_on(
    folder: Path, options: StoreOptions, verb: Verb, known: PreparedTree, *, was_done: bool
) -> None:
    """Check that the tree is writable: run the verb if it was not done, and undo it."""
    before = await read_rows(folder, options)
    async with open_tree(folder, options) as tree:
        if not was_done:
            await verb(tree, known)
        newest = await anext(aiter(tree.store.operations("default")))
        await tree.operations.undo(local(), newest.operation_id)
    after = await read_rows(folder, options)
    if not was_done:
        assert drop_bookkeeping(after) == drop_bookkeeping(before)


def drop_bookkeeping(rows: Rows) -> Rows:
    """Return the live rows without the fields that every write changes."""
    return {key: row for key, row in strip_bookkeeping(rows).items() if not row.get("deleted")}


async def die_at_each_call(
    folder: Path, verbs: tuple[Verb, Verb | None], options: StoreOptions, *, half_written: bool
) -> int:
    """Let the process die at each call in turn, until it lives to the end; return how often it died."""
    verb, undone = verbs
    whole = await count_written_rows(folder / "whole", verbs, options)
    for call in range(1, NEVER_REACHED):
        at = folder / str(call)
        known = await prepare(at, undone)
        before = await read_rows(at, options)
        files = FaultyFileSystem()
        store = open_files(at, files, options)
        files.begin(Plan(crash_at=call, half_written=half_written))

        died = await wait_for_death(files, verb(tree_on(store), known))
        if not died:
            await store.close()
        found = await read_rows(at, options)

        done = len({key for key, row in found.items() if before.get(key) != row})
        assert done in {0, whole}
        if not died:
            assert done == whole > 0
            return call - 1
        await check_goes_on(at, options, verb, known, was_done=done > 0)
    raise AssertionError("it never lived to the end")


async def count_written_rows(folder: Path, verbs: tuple[Verb, Verb | None], options: StoreOptions) -> int:
    """Return how many rows a verb writes where nothing dies."""
    verb, undone = verbs
    known = await prepare(folder, undone)
    before = await read_rows(folder, options)
    async with open_tree(folder, options) as tree:
        await verb(tree, known)
    after = await read_rows(folder, options)
    return len({key for key, row in after.items() if before.get(key) != row})


@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("verbs", VERBS, ids=name_of_verbs)
async def test_a_crash_leaves_the_tree_before_or_after(
    tmp_path: Path, verbs: tuple[Verb, Verb | None], half_written: bool
) -> None:
    deaths = await die_at_each_call(tmp_path, verbs, ONE_SEGMENT, half_written=half_written)

    assert deaths == 2


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("options", [ONE_SEGMENT, MANY_SEGMENTS], ids=["append", "rotate"])
@pytest.mark.parametrize("verbs", MORE_VERBS, ids=name_of_verbs)
async def test_a_crash_at_any_call_of_any_verb_leaves_the_tree_before_or_after(
    tmp_path: Path, verbs: tuple[Verb, Verb | None], options: StoreOptions, half_written: bool
) -> None:
    deaths = await die_at_each_call(tmp_path, verbs, options, half_written=half_written)

    assert deaths == (2 if options is ONE_SEGMENT else 7)
