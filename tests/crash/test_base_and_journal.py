"""A base, or a journal of the previous version, cut after each byte or with a tail: recovered exactly, or reported."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowhub.core.errors import Unavailable
from knowhub.stores.files.erasing.old_journal import JOURNAL
from tests.builders import open_files
from tests.crash import compaction_store
from tests.crash import test_erasing_faults as erasing
from tests.crash.process_death import NEVER_REACHED, ONE_SEGMENT, open_or_die
from tests.erasing import find_files_with
from tests.fakes.faulty_files import Plan

pytestmark = pytest.mark.anyio

# Left by the version before: its operation is in the log, and of the first line that it overwrote only a half.
BROKEN_OFF = Path(__file__).parent.parent / "data" / "format_1_erasing"
EVERY = [
    pytest.param(31, id="some"),
    pytest.param(1, id="every", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]


def iter_tails() -> Iterator[bytes]:
    rng = random.Random(13)
    for size in (1, 2, 512, 4095, 4096, 8192):
        yield bytes(size)
        yield rng.randbytes(size)


def iter_damages(good: bytes, step: int) -> Iterator[bytes]:
    """Yield prefixes, the longest first, and the whole with tails."""
    yield from (good[:length] for length in range(len(good) - 1, -1, -step))
    yield b""
    yield from (good + tail for tail in iter_tails())


@pytest.mark.parametrize("step", EVERY)
async def test_a_damaged_base_is_reported_and_its_readable_rows_are_correct(tmp_path: Path, step: int) -> None:
    async with compaction_store.open_store(tmp_path) as store:
        known = await compaction_store.fill(store, 3)
        await compaction_store.compact(store)
        expected = compaction_store.state_of(store, known)
    (base,) = (tmp_path / "change_log").glob("base-*")
    good = base.read_bytes()
    for data in iter_damages(good, step):
        base.write_bytes(data)

        async with compaction_store.open_store(tmp_path) as store:
            found, status = compaction_store.state_of(store, known), store.status()

        assert not status.writable
        assert base.name in status.damage[0].path
        assert all(text is None or text == expected[key] for key, text in found.items())
        assert base.read_bytes() == data
    base.write_bytes(good)
    async with compaction_store.open_store(tmp_path) as store:
        assert (compaction_store.state_of(store, known), store.status().damage) == (expected, [])


@pytest.mark.parametrize("step", EVERY)
async def test_a_damaged_journal_is_reported_and_overwrites_nothing(tmp_path: Path, step: int) -> None:
    shutil.copytree(BROKEN_OFF, tmp_path / "data")
    folder = tmp_path / "data"
    good = (folder / "change_log" / JOURNAL).read_bytes()
    before = find_files_with(folder, erasing.SECRET)
    for data in iter_damages(good, step):
        (folder / "change_log" / JOURNAL).write_bytes(data)

        with pytest.raises(Unavailable, match=f"{JOURNAL} is damaged"):
            open_files(folder)

        assert find_files_with(folder, erasing.SECRET) == before
    (folder / "change_log" / JOURNAL).write_bytes(good)
    assert await erasing.is_erased_after_opening(folder, ONE_SEGMENT)
    assert before != []


async def test_a_crash_while_applying_a_journal_is_finished_at_the_next_open(tmp_path: Path) -> None:
    deaths = 0
    for call in range(1, NEVER_REACHED):
        folder = tmp_path / str(call)
        shutil.copytree(BROKEN_OFF, folder)

        store = open_or_die(folder, Plan(crash_at=call, half_written=True))

        if store is not None:
            await store.close()
        assert await erasing.is_erased_after_opening(folder, ONE_SEGMENT)
        if store is not None:
            break
        deaths += 1
    assert deaths >= 6
