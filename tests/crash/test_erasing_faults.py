"""Faults during an erasure: nothing is erased and there is no operation, or all is erased at the next open."""

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
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_flock
from knowhub.stores.files.log.change_log import ChangeLog
from knowhub.stores.files.store import StoreOptions
from knowhub.stores.files.subprocess_runner import run_in_process
from tests.builders import Domain, domain_on, local, new_knowledge, open_domain, rows_of
from tests.crash.process_death import MANY_SEGMENTS, NEVER_REACHED, ONE_SEGMENT, open_doomed, wait_for_death
from tests.erasing import find_files_with
from tests.fakes.faulty_files import Plan
from tests.fakes.no_follow_up import erasures_on

pytestmark = pytest.mark.anyio

SECRET = "quaggaplatformnine sings the midnightsong of veldtgrass"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class ErasureFolder:
    """A folder in which several lines, and the quarantine, contain one record."""

    secret: str
    other: str


async def prepare(folder: Path) -> ErasureFolder:
    async with open_domain(folder) as hub:
        batch = await hub.knowledge.records.save_batch(local(), [new_knowledge(SECRET), new_knowledge("other")])
        secret, other = (str(item.record["id"]) for item in batch.records)
        await hub.knowledge.records.patch(local(), secret, {"content": f"{SECRET}, they say"})
        await hub.knowledge.records.delete(local(), secret)
    (folder / "quarantine").mkdir()
    (folder / "quarantine" / "torn.bytes").write_bytes(b'\0{"content":"' + SECRET.encode())
    return ErasureFolder(secret, other)


def list_unused(folder: Path) -> list[str]:
    """Name the files of the log that are not current."""
    return [str(name) for name in ChangeLog(FileSystem(), folder / "change_log").list_unused()]


async def erase(hub: Domain, known: ErasureFolder) -> object:
    return await erasures_on(hub.store).erase(local(), KNOWLEDGE, known.secret)


async def is_erased_after_opening(folder: Path, options: StoreOptions) -> bool:
    """Open, write, and open again; return whether the erasure took place, and check the files against that."""
    async with open_domain(folder, None, options) as hub:
        assert hub.store.status().damage == []
        assert list_unused(folder) == []
        stands = hub.store.last_erase_seq > 0
        before = rows_of(hub.store)
    assert (find_files_with(folder, SECRET) == []) == stands
    async with open_domain(folder, None, options) as hub:
        assert rows_of(hub.store) == before
        saved = await hub.knowledge.records.save(local(), new_knowledge("written after the fault"))
    async with open_domain(folder, None, options) as hub:
        assert (await hub.knowledge.records.get(local(), str(saved.record["id"]))).version == 1
        assert hub.store.status().damage == []
    assert (find_files_with(folder, SECRET) == []) == stands
    return stands


@pytest.mark.parametrize(
    ("options", "half_written"),
    [
        pytest.param(ONE_SEGMENT, True, id="append-half"),
        pytest.param(MANY_SEGMENTS, False, id="rotate-whole"),
        pytest.param(ONE_SEGMENT, False, id="append-whole", marks=pytest.mark.nightly),
        pytest.param(MANY_SEGMENTS, True, id="rotate-half", marks=pytest.mark.nightly),
    ],
)
async def test_a_crash_at_any_call_leaves_a_row_whole_or_erased(
    tmp_path: Path, options: StoreOptions, half_written: bool
) -> None:
    seen = []
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        known = await prepare(folder)
        store, files = open_doomed(folder, Plan(crash_at=call, half_written=half_written), options)

        died = await wait_for_death(store, files, erase(domain_on(store), known))

        if not died:
            assert await is_erased_after_opening(folder, options)
            break
        seen.append(await is_erased_after_opening(folder, options))
    # Not before the operation is on the disk, and from then on always.
    assert seen == sorted(seen)
    assert seen.count(False) >= 12
    # After the rename there are the sync of the folder, and the removal of each old file.
    assert seen.count(True) >= 2


@pytest.mark.parametrize(
    ("options", "step"),
    [
        pytest.param(ONE_SEGMENT, 1, id="append"),
        pytest.param(MANY_SEGMENTS, 3, id="rotate"),
        pytest.param(MANY_SEGMENTS, 1, id="rotate at every call", marks=pytest.mark.nightly),
    ],
)
async def test_another_process_continues_after_a_death_at_any_call(
    tmp_path: Path, options: StoreOptions, step: int
) -> None:
    seen = []
    for call in range(1, NEVER_REACHED, step):
        folder = tmp_path / str(call)
        known = await prepare(folder)
        async with open_domain(folder, None, options) as other:
            store, files = open_doomed(folder, Plan(crash_at=call), options)

            died = await wait_for_death(store, files, erase(domain_on(store), known))

            saved = await other.knowledge.records.save(local(), new_knowledge("written after the death"))
            assert (await other.knowledge.records.get(local(), str(saved.record["id"]))).version == 1
            assert other.store.status().damage == []
            rows, erased = rows_of(other.store), other.store.last_erase_seq > 0
            seen.append(erased)
        async with open_domain(folder, None, options) as hub:
            assert rows_of(hub.store) == rows
            assert hub.store.status().damage == []
            assert list_unused(folder) == []
        assert (find_files_with(folder, SECRET) == []) == erased
        if not died:
            break
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


async def test_writes_about_the_row_during_copying_restart_the_copy(
    tmp_path: Path,
) -> None:
    known = await prepare(tmp_path)
    async with open_domain(tmp_path) as hub:
        erasing = asyncio.create_task(erase(hub, known))
        other = domain_on(hub.store)
        written = 0
        while not erasing.done():
            await other.knowledge.records.save(local(), new_knowledge(f"{SECRET} again {written}"))
            written += 1
        await erasing

        text = [(await hub.knowledge.records.history(local(), known.secret)).entries]
        assert SECRET not in str(text)
        assert hub.store.status().damage == []
        assert len(rows_of(hub.store)) == written + 2


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_a_failed_write_or_sync_erases_nothing_or_is_repaired(tmp_path: Path, error: int) -> None:
    outcomes = []
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        known = await prepare(folder)
        kinds = ("write_at", "sync_data", "sync", "rename", "sync_folder")
        store, _ = open_doomed(folder, Plan(fail_at=call, error=error, kinds=kinds))

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


async def test_an_erasure_refused_by_a_full_disk_succeeds_later(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    store, files = open_doomed(tmp_path, Plan(fail_at=2, error=errno.ENOSPC, kinds=("write_at",)))
    with pytest.raises(StorageFull):
        await erase(domain_on(store), known)
    files.begin(Plan())

    await erase(domain_on(store), known)

    assert find_files_with(tmp_path, SECRET) == []
    assert store.status().damage == []
    await store.close()


async def test_a_process_that_is_open_reads_all_right_before_and_after(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    async with open_domain(tmp_path) as other, open_domain(tmp_path) as hub:
        before = await other.knowledge.records.history(local(), known.secret)
        raw = (await other.knowledge.records.get(local(), known.other)).json

        await erase(hub, known)

        assert SECRET in str(before)
        assert (await other.knowledge.records.get(local(), known.other)).json == raw
        assert SECRET not in str(await other.knowledge.records.history(local(), known.secret))
        assert (await anext(other.store.operations("default"))).op == "erase_knowledge"
        assert other.store.last_erase_seq == hub.store.last_erase_seq > 0
        assert other.store.status().damage == []


READER = """
import asyncio, sys
from pathlib import Path
from tests.builders import local, open_domain
async def read(folder, row_id):
    async with open_domain(Path(folder)) as hub:
        print("open", flush=True)
        while not hub.store.last_erase_seq:
            entries = (await hub.knowledge.records.history(local(), row_id)).entries
            operations = [one async for one in hub.store.operations("default")]
            assert len(entries) >= 3 and len(operations) >= 3, (entries, operations)
            assert hub.store.status().damage == [], hub.store.status()
        text = str(await hub.knowledge.records.history(local(), row_id))
        print("gone" if "quagga" not in text else text, hub.store.status().damage, flush=True)
asyncio.run(read(*sys.argv[1:]))
"""


def start_reader(folder: Path, row_id: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", READER, str(folder), row_id]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_another_process_that_reads_without_a_pause_never_sees_damage(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    async with open_domain(tmp_path) as hub:
        with start_reader(tmp_path, known.secret) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "open\n"
            await asyncio.sleep(0.05)

            await erase(hub, known)

            assert await asyncio.to_thread(process.stdout.readline) == "gone []\n"
            assert await asyncio.to_thread(process.wait, 30) == 0


async def test_an_erasure_during_a_compaction_is_refused(tmp_path: Path) -> None:
    known = await prepare(tmp_path)
    options = StoreOptions(lock_timeout_s=0.1)
    async with open_domain(tmp_path, options=options) as hub, open_domain(tmp_path, options=options) as other:

        async def while_others_erase(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
            for item in (hub, other):
                with pytest.raises(Conflict, match="being compacted"):
                    await erase(item, known)
            return await run_in_process(FileSystem())(name, root, arguments)

        await hub.store.compact(0.0, while_others_erase)
        await erase(other, known)

    assert await is_erased_after_opening(tmp_path, ONE_SEGMENT)


async def test_a_compaction_during_an_erasure_is_refused(tmp_path: Path) -> None:
    await prepare(tmp_path)
    async with open_domain(tmp_path, options=StoreOptions(lock_timeout_s=0.1)) as hub:
        held = os.open(tmp_path / "change_log", os.O_RDONLY)
        assert try_flock(held)

        with pytest.raises(Conflict, match="erased from"):
            await hub.store.compact(0.0, run_in_process(FileSystem()))

        os.close(held)
        assert (await hub.store.compact(0.0, run_in_process(FileSystem()))).operations > 0
