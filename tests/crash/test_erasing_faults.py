"""Faults while a row is erased: nothing is erased and no operation stands, or all is gone when it is opened again."""

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import Conflict, KnowHubError, ReadOnly, StorageFull, Unavailable
from knowhub.knowledge.model import COLLECTION
from knowhub.operations.erasure import ErasureService
from knowhub.stores.files.apart import run_here
from knowhub.stores.files.filesystem import RealFileSystem
from knowhub.stores.files.lock import try_flock
from knowhub.stores.files.log.change_log import JOURNAL
from knowhub.stores.files.store import FileStore, StoreOptions
from knowhub.wiring.rules import ERASE_RULES, UNDO_RULES
from tests.builders import Domain, domain_on, local, new_knowledge, open_files, opened, rows_of
from tests.crash.dying import MANY_SEGMENTS, NEVER_REACHED, ONE_SEGMENT, dies
from tests.erasing import files_with
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan
from tests.fakes.nothing_around import NothingAround

pytestmark = pytest.mark.anyio

SECRET = "quaggaplatformnine sings the midnightsong of veldtgrass"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder in which several lines, and the quarantine, tell of one record."""

    secret: str
    other: str


async def prepare(folder: Path) -> Prepared:
    async with opened(folder) as hub:
        batch = await hub.knowledge.save_batch(local(), [new_knowledge(SECRET), new_knowledge("other")])
        secret, other = (str(one.record["id"]) for one in batch.records)
        await hub.knowledge.patch(local(), secret, {"content": f"{SECRET}, they say"})
        await hub.knowledge.delete(local(), secret)
    (folder / "quarantine").mkdir()
    (folder / "quarantine" / "torn.bytes").write_bytes(b'\0{"content":"' + SECRET.encode())
    return Prepared(secret, other)


def erasures(store: FileStore) -> ErasureService:
    return ErasureService(store, NothingAround(), ERASE_RULES, UNDO_RULES)


async def erase(hub: Domain, known: Prepared) -> object:
    return await erasures(hub.store).erase(local(), COLLECTION, known.secret)


async def is_erased_after_opening(folder: Path, options: StoreOptions) -> bool:
    """Open, write, and open again; tell whether the operation stands, and hold the files to that."""
    async with opened(folder, None, options) as hub:
        assert hub.store.status().damage == []
        assert not (folder / "change_log" / JOURNAL).exists()
        stands = hub.store.erases > 0
        before = rows_of(hub.store)
    assert (files_with(folder, SECRET) == []) == stands
    async with opened(folder, None, options) as hub:
        assert rows_of(hub.store) == before
        saved = await hub.knowledge.save(local(), new_knowledge("written after the fault"))
    async with opened(folder, None, options) as hub:
        assert (await hub.knowledge.get(local(), str(saved.record["id"]))).version == 1
        assert hub.store.status().damage == []
    assert (files_with(folder, SECRET) == []) == stands
    return stands


@pytest.mark.parametrize("half_written", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("options", [ONE_SEGMENT, MANY_SEGMENTS], ids=["append", "rotate"])
async def test_a_crash_at_any_call_leaves_a_row_whole_or_gone(
    tmp_path: Path, options: StoreOptions, half_written: bool
) -> None:
    seen = []
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        known = await prepare(folder)
        files = FaultyFileSystem()
        store = open_files(folder, files, options)
        files.begin(Plan(crash_at=call, half_written=half_written))

        died = await dies(files, erase(domain_on(store), known))

        if not died:
            await store.close()
            assert await is_erased_after_opening(folder, options)
            break
        seen.append(await is_erased_after_opening(folder, options))
    # Not before the operation is on the disk, and from then on always.
    assert seen == sorted(seen)
    assert seen.count(False) >= 5
    assert seen.count(True) >= 6


async def test_a_crash_while_a_broken_erasing_is_ended_leaves_it_to_the_next(tmp_path: Path) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        await broken_off(folder)
        files = FaultyFileSystem(Plan(crash_at=call, half_written=True))
        store: FileStore | None = None

        try:
            store = open_files(folder, files)
        except CrashNow:
            deaths += 1
            files.bury()

        if store is not None:
            await store.close()
        assert await is_erased_after_opening(folder, ONE_SEGMENT)
        if store is not None:
            break
    assert deaths >= 6


async def broken_off(folder: Path) -> Prepared:
    """Leave a directory whose erasing stands in the log, and of which the first line alone was half overwritten."""
    known = await prepare(folder)
    files = FaultyFileSystem()
    store = open_files(folder, files)
    # The first write goes into the journal, the second to the log.
    files.begin(Plan(crash_at=3, kinds=("write_at",), half_written=True))
    assert await dies(files, erase(domain_on(store), known))
    assert (folder / "change_log" / JOURNAL).exists()
    return known


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_a_write_or_sync_that_fails_erases_nothing_or_is_made_good(tmp_path: Path, error: int) -> None:
    outcomes = []
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        known = await prepare(folder)
        files = FaultyFileSystem()
        store = open_files(folder, files)
        files.begin(Plan(fail_at=call, error=error, kinds=("write_at", "sync_data", "sync", "rename", "sync_folder")))

        failure: KnowHubError | None = None
        try:
            await erase(domain_on(store), known)
        except KnowHubError as problem:
            failure = problem
        await store.close()

        stands = await is_erased_after_opening(folder, ONE_SEGMENT)
        if failure is None:
            assert stands
            break
        assert isinstance(failure, StorageFull if error == errno.ENOSPC else ReadOnly | Unavailable)
        outcomes.append(stands)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


async def test_an_erasing_that_a_full_disk_refused_succeeds_when_there_is_room(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    files = FaultyFileSystem()
    store = open_files(tmp_path, files)
    files.begin(Plan(fail_at=2, error=errno.ENOSPC, kinds=("write_at",)))
    with pytest.raises(StorageFull):
        await erase(domain_on(store), known)
    files.begin(Plan())

    await erase(domain_on(store), known)

    assert files_with(tmp_path, SECRET) == []
    assert store.status().damage == []
    await store.close()


async def test_another_process_ends_what_one_left_that_died(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    other = open_files(tmp_path)
    files = FaultyFileSystem()
    store = open_files(tmp_path, files)
    files.begin(Plan(crash_at=3, kinds=("write_at",), half_written=True))
    assert await dies(files, erase(domain_on(store), known))
    journal = tmp_path / "change_log" / JOURNAL
    assert journal.exists()

    await other.end_erasing()

    assert not journal.exists()
    assert files_with(tmp_path, SECRET) == []
    assert (await anext(other.operations("default"))).op == "erase_knowledge"
    assert other.status().damage == []
    await other.close()


async def test_a_journal_of_an_operation_that_never_stood_is_thrown_away(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    files = FaultyFileSystem()
    store = open_files(tmp_path, files)
    # The journal is whole and the line of the operation is not.
    files.begin(Plan(crash_at=2, kinds=("write_at",), half_written=True))
    assert await dies(files, erase(domain_on(store), known))
    assert (tmp_path / "change_log" / JOURNAL).exists()

    assert not await is_erased_after_opening(tmp_path, ONE_SEGMENT)


async def test_a_damaged_journal_is_named_and_nothing_is_overwritten(tmp_path: Path) -> None:
    await broken_off(tmp_path)
    journal = tmp_path / "change_log" / JOURNAL
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)

    with pytest.raises(Unavailable, match="is damaged, and an erasing was broken off"):
        open_files(tmp_path)


async def test_a_process_that_is_open_reads_all_right_before_and_after(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    async with opened(tmp_path) as other, opened(tmp_path) as hub:
        before = await other.knowledge.history(local(), known.secret)
        raw = (await other.knowledge.get(local(), known.other)).json

        await erase(hub, known)

        assert SECRET in str(before)
        assert (await other.knowledge.get(local(), known.other)).json == raw
        assert SECRET not in str(await other.knowledge.history(local(), known.secret))
        assert (await anext(other.store.operations("default"))).op == "erase_knowledge"
        assert other.store.erases == hub.store.erases > 0
        assert other.store.status().damage == []


READER = """
import asyncio, sys
from pathlib import Path
from tests.builders import local, opened
async def read(folder, row_id):
    async with opened(Path(folder)) as hub:
        print("open", flush=True)
        while not hub.store.erases:
            entries = (await hub.knowledge.history(local(), row_id)).entries
            operations = [one async for one in hub.store.operations("default")]
            assert len(entries) >= 3 and len(operations) >= 3, (entries, operations)
            assert hub.store.status().damage == [], hub.store.status()
        await asyncio.sleep(0.05)
        text = str(await hub.knowledge.history(local(), row_id))
        print("gone" if "quagga" not in text else text, hub.store.status().damage, flush=True)
asyncio.run(read(*sys.argv[1:]))
"""


def reading(folder: Path, row_id: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", READER, str(folder), row_id]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_another_process_that_reads_without_a_pause_never_sees_damage(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    async with opened(tmp_path) as hub:
        with reading(tmp_path, known.secret) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "open\n"
            await asyncio.sleep(0.05)

            await erase(hub, known)

            assert await asyncio.to_thread(process.stdout.readline) == "gone []\n"
            assert await asyncio.to_thread(process.wait, 30) == 0


async def test_a_file_of_the_quarantine_that_was_deleted_since_holds_up_no_opening(tmp_path: Path) -> None:
    await broken_off(tmp_path)
    (tmp_path / "quarantine" / "torn.bytes").unlink()

    assert await is_erased_after_opening(tmp_path, ONE_SEGMENT)


async def test_what_a_dead_restore_has_unpacked_goes_when_a_broken_erasing_is_ended(tmp_path: Path) -> None:
    await broken_off(tmp_path)
    scratch = tmp_path / "snapshots" / ".restore-0123"
    scratch.mkdir(parents=True)
    (scratch / "segment-00000001.jsonl").write_text(SECRET)

    assert await is_erased_after_opening(tmp_path, ONE_SEGMENT)

    assert not scratch.exists()


async def test_nothing_is_erased_while_the_log_is_compacted_and_all_of_it_afterwards(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    options = StoreOptions(lock_timeout_s=0.1)
    async with opened(tmp_path, options=options) as hub, opened(tmp_path, options=options) as other:

        async def while_others_erase(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
            for one in (hub, other):
                with pytest.raises(Conflict, match="being compacted"):
                    await erase(one, known)
            return await run_here(RealFileSystem())(name, root, arguments)

        await hub.store.compact(0.0, while_others_erase)
        await erase(other, known)

    assert await is_erased_after_opening(tmp_path, ONE_SEGMENT)


async def test_nothing_is_compacted_while_a_row_is_being_erased(tmp_path: Path) -> None:
    await prepare(tmp_path)
    async with opened(tmp_path, options=StoreOptions(lock_timeout_s=0.1)) as hub:
        held = os.open(tmp_path / "change_log", os.O_RDONLY)
        assert try_flock(held)

        with pytest.raises(Conflict, match="erases from it"):
            await hub.store.compact(0.0, run_here(RealFileSystem()))

        os.close(held)
        assert (await hub.store.compact(0.0, run_here(RealFileSystem()))).operations > 0
