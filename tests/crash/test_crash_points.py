"""The process dies at each file-system call of each mutating verb: the state is complete, from before or after."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowhub.knowledge.model import Feedback, ImportedKnowledge, OnConflict, Vote
from knowhub.stores.files.store import StoreOptions
from tests.builders import Domain, domain_on, import_line, local, new_knowledge, open_domain, open_files, rows_of
from tests.crash.process_death import MANY_SEGMENTS, NEVER_REACHED, ONE_SEGMENT, open_or_die, wait_for_death
from tests.fakes.faulty_files import FaultyFileSystem, Plan

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True)
class PreparedRecords:
    """A folder with some records, and their ids."""

    knowledge_id: str
    other_id: str
    operation_id: str


Verb = Callable[[Domain, PreparedRecords], Coroutine[Any, Any, object]]


async def prepare(folder: Path) -> PreparedRecords:
    async with open_domain(folder) as hub:
        first = await hub.knowledge.records.save(local(), new_knowledge("first"))
        other = await hub.knowledge.records.save(local(), new_knowledge("other"))
        patch = await hub.knowledge.records.patch(local(), first.record["id"], {"content": "first, mended"})
    assert patch.operation_id is not None
    return PreparedRecords(first.record["id"], other.record["id"], patch.operation_id)


async def save(hub: Domain, known: PreparedRecords) -> object:
    return await hub.knowledge.records.save(local(), new_knowledge("saved"))


async def save_batch(hub: Domain, known: PreparedRecords) -> object:
    return await hub.knowledge.records.save_batch(local(), [new_knowledge(f"batch {number}") for number in range(5)])


async def patch(hub: Domain, known: PreparedRecords) -> object:
    return await hub.knowledge.records.patch(local(), known.knowledge_id, {"content": "patched", "tags": {"a": "b"}})


async def delete(hub: Domain, known: PreparedRecords) -> object:
    return await hub.knowledge.records.delete(local(), known.knowledge_id)


async def feedback(hub: Domain, known: PreparedRecords) -> object:
    return await hub.knowledge.records.give_feedback(local(), known.knowledge_id, Feedback(helpful_case={"task": "t"}))


async def feedback_batch(hub: Domain, known: PreparedRecords) -> object:
    votes = [Vote(known.knowledge_id, True, {"task": "t"}), Vote(known.other_id, False, {"task": "t"})]
    return await hub.knowledge.records.give_feedback_batch(local(), votes)


async def import_group(hub: Domain, known: PreparedRecords) -> object:
    # Over a thousand lines are several operations, which are all there or none.
    lines: Sequence[ImportedKnowledge] = [import_line(f"import-{number}", f"line {number}") for number in range(1001)]
    return await hub.knowledge.exchange.import_lines(local(), lines, OnConflict.FAIL)


async def undo(hub: Domain, known: PreparedRecords) -> object:
    return await hub.operations.log.undo(local(), known.operation_id)


VERBS: Sequence[Verb] = (save, save_batch, patch, delete, feedback, feedback_batch, import_group, undo)


async def reopen_rows(folder: Path, options: StoreOptions) -> dict[str, bytes]:
    async with open_domain(folder, None, options) as hub:
        assert hub.store.status().damage == []
        return rows_of(hub.store)


async def write_and_reopen(folder: Path, options: StoreOptions, found: dict[str, bytes]) -> None:
    async with open_domain(folder, None, options) as hub:
        saved = await hub.knowledge.records.save(local(), new_knowledge("written after the crash"))
    after = await reopen_rows(folder, options)
    assert {row_id: row for row_id, row in after.items() if row_id != saved.record["id"]} == found
    assert saved.record["id"] in after


@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("options", [ONE_SEGMENT, MANY_SEGMENTS], ids=["append", "rotate"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_a_crash_leaves_the_state_before_or_after(
    tmp_path: Path, verb: Verb, options: StoreOptions, half_written: bool
) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        known = await prepare(folder)
        before = await reopen_rows(folder, options)
        files = FaultyFileSystem()
        store = open_files(folder, files, options)
        files.begin(Plan(crash_at=call, half_written=half_written))

        died = await wait_for_death(files, verb(domain_on(store), known))
        acknowledged = rows_of(store)
        found = await reopen_rows(folder, options)

        if not died:
            await store.close()
            assert found == acknowledged != before
            break
        deaths += 1
        assert found == before or is_after(found, before, verb)
        await write_and_reopen(folder, options, found)
    assert deaths == (2 if options is ONE_SEGMENT else 7)


def is_after(found: dict[str, bytes], before: dict[str, bytes], verb: Verb) -> bool:
    changed = [row_id for row_id, row in found.items() if before.get(row_id) != row]
    rows_of_verb: dict[Verb, int] = {save_batch: 5, feedback_batch: 2, import_group: 1001}
    expected = rows_of_verb.get(verb, 1)
    return len(changed) == expected and before.keys() <= found.keys()


async def test_a_crash_while_a_directory_is_made_leaves_one_that_opens(tmp_path: Path) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        store = open_or_die(folder, Plan(crash_at=call))
        await write_and_reopen(folder, ONE_SEGMENT, {})
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
        before = await reopen_rows(folder, ONE_SEGMENT)
        # As after a reboot: LOCK is gone, so that the log alone says where it ends.
        (folder / "LOCK").unlink()
        segment = folder / "change_log" / "segment-00000001.jsonl"
        segment.write_bytes(segment.read_bytes() + torn)
        store = open_or_die(folder, Plan(crash_at=call))
        await write_and_reopen(folder, ONE_SEGMENT, before)
        if store is not None:
            await store.close()
            break
        deaths += 1
    assert deaths >= 6


@pytest.mark.parametrize("call", range(1, 8))
async def test_a_crash_while_writing_resumes_loses_nothing(tmp_path: Path, call: int) -> None:
    known = await prepare(tmp_path)
    before = await reopen_rows(tmp_path, ONE_SEGMENT)
    files = FaultyFileSystem()
    store = open_files(tmp_path, files)
    files.begin(Plan(fail_at=1, error=28, kinds=("sync_data",)))
    with pytest.raises(Exception, match="disk is full"):
        await save(domain_on(store), known)
    files.begin(Plan(crash_at=call))

    died = await wait_for_death(files, save(domain_on(store), known))

    found = await reopen_rows(tmp_path, ONE_SEGMENT)
    assert died
    assert found == before or is_after(found, before, save)
    await write_and_reopen(tmp_path, ONE_SEGMENT, found)
