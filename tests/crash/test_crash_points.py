"""The process dies at each file-system call of each verb that writes: all of its rows are written, or none."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
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
from knowhub.knowledge.model import Feedback, OnConflict, Vote
from knowhub.stores.files.store import FileStore, StoreOptions
from tests.builders import Domain, domain_on, import_line, local, new_knowledge, open_files, rows_of
from tests.crash.process_death import (
    MANY_SEGMENTS,
    NEVER_REACHED,
    ONE_SEGMENT,
    open_doomed,
    open_or_die,
    wait_for_death,
)
from tests.fakes.faulty_files import Plan
from tests.fakes.plain_text import PlainText
from tests.keyword_model import TreeModel
from tests.tree_answers import LogReader, Rows, check_view, strip_bookkeeping

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True)
class CrashHub:
    """The services on records, on the tree and on operations of one open store."""

    store: FileStore
    domain: Domain
    keywords: KeywordService
    infos: InfoService
    curator: Curator


def hub_on(store: FileStore) -> CrashHub:
    ids, text, options = RandomIds(), PlainText(), TreeOptions()
    agent = KeywordAgent(None, RecentMatchesByReader(), options)
    return CrashHub(
        store,
        domain_on(store),
        KeywordService(store, NearKeywords(text), ids, agent, options),
        InfoService(store, text, ids, agent, options),
        Curator(store, text, ids, agent, options),
    )


@asynccontextmanager
async def open_crash_hub(folder: Path, options: StoreOptions = ONE_SEGMENT) -> AsyncIterator[CrashHub]:
    store = open_files(folder, None, options)
    try:
        yield hub_on(store)
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class PreparedFolder:
    """The ids of the rows of a folder, by name, and of the operation that an undo is of."""

    ids: dict[str, str]
    operation_id: str = ""


Verb = Callable[[CrashHub, PreparedFolder], Coroutine[Any, Any, object]]


async def prepare(folder: Path, undone: Verb | None = None) -> PreparedFolder:
    """Make two records, and a tree of three levels with infos linked to two keywords each; run what a test undoes."""
    async with open_crash_hub(folder) as hub:
        names = [("编程", None), ("Python", "编程"), ("asyncio", "Python"), ("pytest", "Python"), ("蟒蛇", "编程")]
        items = [NewKeyword(name, ref=name, parent_ref=above) for name, above in names]
        made = await hub.keywords.create_batch(local(), items)
        ids = {str(saved.record["name"]): str(saved.record["id"]) for saved in made.records}
        for number, on in enumerate([("Python", "蟒蛇"), ("Python", "asyncio"), ("pytest", "编程")]):
            new = NewInfo(f"content {number}", keyword_ids=[ids[name] for name in on])
            ids[f"info {number}"] = str((await hub.infos.create(local(), new)).record["id"])
        for name in ("first", "other"):
            ids[name] = str((await hub.domain.knowledge.records.save(local(), new_knowledge(name))).record["id"])
        if undone is None:
            return PreparedFolder(ids)
        await undone(hub, PreparedFolder(ids))
        newest = await anext(aiter(hub.store.operations("default")))
    return PreparedFolder(ids, newest.operation_id)


async def save(hub: CrashHub, known: PreparedFolder) -> object:
    return await hub.domain.knowledge.records.save(local(), new_knowledge("saved"))


async def save_batch(hub: CrashHub, known: PreparedFolder) -> object:
    items = [new_knowledge(f"batch {number}") for number in range(5)]
    return await hub.domain.knowledge.records.save_batch(local(), items)


async def patch(hub: CrashHub, known: PreparedFolder) -> object:
    changes = {"content": "patched", "tags": {"a": "b"}}
    return await hub.domain.knowledge.records.patch(local(), known.ids["first"], changes)


async def delete(hub: CrashHub, known: PreparedFolder) -> object:
    return await hub.domain.knowledge.records.delete(local(), known.ids["first"])


async def feedback(hub: CrashHub, known: PreparedFolder) -> object:
    given = Feedback(helpful_case={"task": "t"})
    return await hub.domain.knowledge.records.give_feedback(local(), known.ids["first"], given)


async def feedback_batch(hub: CrashHub, known: PreparedFolder) -> object:
    votes = [Vote(known.ids["first"], True, {"task": "t"}), Vote(known.ids["other"], False, {"task": "t"})]
    return await hub.domain.knowledge.records.give_feedback_batch(local(), votes)


async def import_group(hub: CrashHub, known: PreparedFolder) -> object:
    # Over a thousand lines are several operations, which are all there or none.
    lines = [import_line(f"import-{number}", f"line {number}") for number in range(1001)]
    return await hub.domain.knowledge.exchange.import_lines(local(), lines, OnConflict.FAIL)


async def merge(hub: CrashHub, known: PreparedFolder) -> object:
    return await hub.keywords.merge(local(), known.ids["Python"], known.ids["蟒蛇"])


async def delete_all_below(hub: CrashHub, known: PreparedFolder) -> object:
    how = DeleteOptions(cascade=True, policy=InfoPolicy.REATTACH)
    return await hub.keywords.delete(local(), known.ids["Python"], how)


async def create_batch(hub: CrashHub, known: PreparedFolder) -> object:
    items = [NewKeyword(f"child {number}", known.ids["Python"], [f"alias {number}"]) for number in range(40)]
    return await hub.keywords.create_batch(local(), items)


async def create_infos(hub: CrashHub, known: PreparedFolder) -> object:
    both = [known.ids["Python"], known.ids["蟒蛇"]]
    return await hub.infos.create_batch(local(), [NewInfo(f"info {number}", keyword_ids=both) for number in range(20)])


async def delete_info(hub: CrashHub, known: PreparedFolder) -> object:
    return await hub.infos.delete(local(), known.ids["info 0"])


async def relink(hub: CrashHub, known: PreparedFolder) -> object:
    return await hub.infos.link(local(), known.ids["info 0"], known.ids["Python"], LinkRequest(RelationType.SOURCE))


async def apply_plan(hub: CrashHub, known: PreparedFolder) -> object:
    async def ref(name: str) -> dict[str, Any]:
        return {"id": known.ids[name], "version": (await hub.keywords.get(local(), known.ids[name])).version}

    steps = [
        {"kind": "split", "node": await ref("Python"), "groups": [{"name": "libs", "children": [await ref("pytest")]}]},
        {"kind": "move", "node": await ref("asyncio"), "to": await ref("蟒蛇")},
        {"kind": "merge", "source": await ref("Python"), "into": await ref("蟒蛇")},
    ]
    return await hub.curator.apply(local(), {"steps": steps})


async def undo(hub: CrashHub, known: PreparedFolder) -> object:
    return await hub.domain.operations.log.undo(local(), known.operation_id)


RECORD_VERBS: Sequence[tuple[Verb, Verb | None]] = (
    *((verb, None) for verb in (save, save_batch, patch, delete, feedback, feedback_batch, import_group)),
    (undo, patch),
)
TREE_VERBS: Sequence[tuple[Verb, Verb | None]] = (
    *((verb, None) for verb in (merge, delete_all_below, create_batch, apply_plan)),
    *((undo, verb) for verb in (merge, delete_all_below, create_batch)),
)
NIGHTLY_VERBS: Sequence[tuple[Verb, Verb | None]] = (
    *((verb, None) for verb in (create_infos, delete_info, relink)),
    *((undo, verb) for verb in (create_infos, delete_info, relink, apply_plan)),
)


def list_cases() -> Iterator[object]:
    """Yield each verb with the one that it undoes, in one segment or many, and with whole or half writes."""
    for verbs in (*RECORD_VERBS, *TREE_VERBS, *NIGHTLY_VERBS):
        name = "-of-".join(verb.__name__ for verb in verbs if verb is not None)
        for options in (ONE_SEGMENT, MANY_SEGMENTS):
            is_quick = verbs in RECORD_VERBS or (verbs in TREE_VERBS and options is ONE_SEGMENT)
            for half_written in (False, True):
                how = f"{'append' if options is ONE_SEGMENT else 'rotate'}-{'half' if half_written else 'whole'}"
                marks = [] if is_quick else [pytest.mark.nightly]
                yield pytest.param(verbs, options, half_written, id=f"{name}-{how}", marks=marks)


async def read_rows(folder: Path, options: StoreOptions = ONE_SEGMENT) -> Rows:
    """Return every row of the log, and check that an opened store answers the same."""
    async with open_crash_hub(folder, options) as hub:
        assert hub.store.status().damage == []
        log = LogReader(folder)
        log.read_on()
        check_view(hub.store.view("default"), log.rows)
        assert TreeModel.of(log.rows).fault() is None
        return log.rows


def count_changes(before: Rows, after: Rows) -> int:
    return len({key for key, row in after.items() if before.get(key) != row})


def drop_bookkeeping(rows: Rows) -> Rows:
    """Return the live rows without the fields that every write changes."""
    return {key: row for key, row in strip_bookkeeping(rows).items() if not row.get("deleted")}


async def check_goes_on(
    folder: Path, options: StoreOptions, verb: Verb, known: PreparedFolder, *, was_done: bool
) -> None:
    """Check that the folder is writable: run the verb if it was not done, and undo it."""
    before = await read_rows(folder, options)
    async with open_crash_hub(folder, options) as hub:
        if not was_done:
            await verb(hub, known)
        newest = await anext(aiter(hub.store.operations("default")))
        undone = newest.operation_id if newest.group is None else newest.group.id
        await hub.domain.operations.log.undo(local(), undone)
    after = await read_rows(folder, options)
    assert was_done == (drop_bookkeeping(after) != drop_bookkeeping(before))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("verbs", "options", "half_written"), list(list_cases()))
async def test_a_crash_leaves_the_state_before_or_after(
    tmp_path: Path, verbs: tuple[Verb, Verb | None], options: StoreOptions, half_written: bool
) -> None:
    verb, undone = verbs
    # How many rows the verb writes where nothing dies.
    known = await prepare(tmp_path / "whole", undone)
    before = await read_rows(tmp_path / "whole", options)
    async with open_crash_hub(tmp_path / "whole", options) as hub:
        await verb(hub, known)
    whole = count_changes(before, await read_rows(tmp_path / "whole", options))
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        known = await prepare(folder, undone)
        before = await read_rows(folder, options)
        store, files = open_doomed(folder, Plan(crash_at=call, half_written=half_written), options)

        died = await wait_for_death(store, files, verb(hub_on(store), known))
        done = count_changes(before, await read_rows(folder, options))

        assert done in {0, whole}
        if not died:
            assert done == whole > 0
            break
        deaths += 1
        await check_goes_on(folder, options, verb, known, was_done=done > 0)
    assert deaths == (2 if options is ONE_SEGMENT else 7)


async def read_records(folder: Path) -> dict[str, bytes]:
    """Return the records as an opened store holds them: the log may have bytes behind its end."""
    async with open_crash_hub(folder) as hub:
        assert hub.store.status().damage == []
        return rows_of(hub.store)


async def write_and_reopen(folder: Path, found: dict[str, bytes]) -> None:
    async with open_crash_hub(folder) as hub:
        saved = await hub.domain.knowledge.records.save(local(), new_knowledge("written after the crash"))
    after = await read_records(folder)
    assert after.pop(str(saved.record["id"]))
    assert after == found


async def test_a_crash_while_a_directory_is_made_leaves_one_that_opens(tmp_path: Path) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        store = open_or_die(folder, Plan(crash_at=call))
        await write_and_reopen(folder, {})
        if store is not None:
            await store.close()
            break
        deaths += 1
    assert deaths >= 14


@pytest.mark.parametrize("torn", [b"", b'{"seq":4,"half a line', bytes(300)], ids=["nothing", "half a line", "NUL"])
async def test_a_crash_while_a_directory_is_recovered_leaves_one_that_opens(tmp_path: Path, torn: bytes) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        await prepare(folder)
        before = await read_records(folder)
        # As after a reboot: LOCK is gone, so that the log alone says where it ends.
        (folder / "LOCK").unlink()
        segment = folder / "change_log" / "segment-00000001.jsonl"
        segment.write_bytes(segment.read_bytes() + torn)
        store = open_or_die(folder, Plan(crash_at=call))
        await write_and_reopen(folder, before)
        if store is not None:
            await store.close()
            break
        deaths += 1
    assert deaths >= 6


@pytest.mark.parametrize("call", range(1, 8))
async def test_a_crash_while_writing_resumes_loses_nothing(tmp_path: Path, call: int) -> None:
    known = await prepare(tmp_path)
    before = await read_records(tmp_path)
    store, files = open_doomed(tmp_path, Plan(fail_at=1, error=28, kinds=("sync_data",)))
    with pytest.raises(Exception, match="disk is full"):
        await save(hub_on(store), known)
    files.begin(Plan(crash_at=call))

    died = await wait_for_death(store, files, save(hub_on(store), known))

    found = await read_records(tmp_path)
    assert died
    assert before.items() <= found.items()
    assert len(found) - len(before) in {0, 1}
    await write_and_reopen(tmp_path, found)
