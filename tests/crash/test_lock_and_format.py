"""LOCK and FORMAT truncated, extended, with a flipped bit, or of another boot: nothing acknowledged is lost."""

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import LockFile, Position
from knowhub.stores.files.store import StoreOptions
from tests.archives import read_folder
from tests.builders import local, new_knowledge, open_domain, open_files, rows_of
from tests.crash.repaired_logs import iter_tails
from tests.fakes.faulty_files import FaultyFileSystem

pytestmark = pytest.mark.anyio

TWO_SEGMENTS = StoreOptions(segment_bytes=2000)
# Nine words, the boot id in the last two and a word of room, of eight bytes each (knowhub/stores/files/lock.py).
WORDS_BYTES = 80
BOOT_AT, BOOT_BYTES = 64, 16
LOCK_BYTES = 4096


async def save(folder: Path, content: str) -> str:
    async with open_domain(folder, None, TWO_SEGMENTS) as hub:
        return str((await hub.knowledge.records.save(local(), new_knowledge(content))).record["id"])


async def read_rows(folder: Path) -> dict[str, bytes]:
    async with open_domain(folder, None, TWO_SEGMENTS) as hub:
        status = hub.store.status()
        assert (status.damage, status.quarantined, status.writable) == ([], [], True)
        return rows_of(hub.store)


def iter_damages(lengths: Iterable[int]) -> Iterator[tuple[int | None, bytes]]:
    """Yield what is left of a file, and its tail: each length without one, and all with NUL and with garbage."""
    yield from ((length, b"") for length in lengths)
    yield from ((None, tail) for tail in iter_tails(1, 7, 512, 4095, 4096, 8192))


def iter_lengths() -> Iterator[int]:
    yield from range(WORDS_BYTES + 1)
    yield from (511, 512, 513, LOCK_BYTES - 1, LOCK_BYTES)


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])], ids=["some", "every"]
)
async def test_a_truncated_or_extended_lock_loses_nothing(tmp_path: Path, every: bool) -> None:
    ids = [await save(tmp_path, f"number {number}") for number in range(4)]
    expected = await read_rows(tmp_path)
    lock = tmp_path / "LOCK"
    for number, (length, tail) in enumerate(iter_damages(range(LOCK_BYTES + 1) if every else iter_lengths())):
        lock.write_bytes(lock.read_bytes()[:length] + tail)

        assert await read_rows(tmp_path) == expected
        if number % 50 == 0:
            ids.append(await save(tmp_path, f"written on {number}"))
            expected = await read_rows(tmp_path)
            assert list(expected) == ids


async def test_a_lock_of_garbage_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    ids = [await save(tmp_path, f"number {number}") for number in range(4)]
    for number in range(30):
        (tmp_path / "LOCK").write_bytes(rng.randbytes(LOCK_BYTES))

        assert list(await read_rows(tmp_path)) == ids
        if number % 10 == 0:
            ids.append(await save(tmp_path, f"written on {number}"))


async def test_a_flipped_bit_in_lock_is_harmless_or_named(tmp_path: Path) -> None:
    for number in range(4):
        await save(tmp_path, f"number {number}")
    expected = await read_rows(tmp_path)
    lock, segments = tmp_path / "LOCK", sorted((tmp_path / "change_log").iterdir())
    good, logs = lock.read_bytes(), [segment.read_bytes() for segment in segments]
    for bit in range(WORDS_BYTES * 8):
        # Written in place: the numbers of the files stay, and LOCK is believed but for what is flipped.
        for segment, data in zip(segments, logs, strict=True):
            segment.write_bytes(data)
        changed = bytearray(good)
        changed[bit // 8] ^= 1 << bit % 8
        lock.write_bytes(changed)

        async with open_domain(tmp_path, None, TWO_SEGMENTS) as hub:
            rows, status = rows_of(hub.store), hub.store.status()

        named = bool(status.damage or status.quarantined)
        assert rows == expected or (named and rows.items() <= expected.items()), bit


async def test_a_lock_of_another_boot_is_not_believed(tmp_path: Path) -> None:
    first = await save(tmp_path, "first")
    stale = bytearray((tmp_path / "LOCK").read_bytes())
    stale[BOOT_AT : BOOT_AT + BOOT_BYTES] = bytes(byte ^ 0xFF for byte in stale[BOOT_AT : BOOT_AT + BOOT_BYTES])
    second = await save(tmp_path, "second")
    # The page of LOCK was last written back before the second record; then the power was cut.
    (tmp_path / "LOCK").write_bytes(stale)

    rows = await read_rows(tmp_path)

    assert list(rows) == [first, second]


async def test_a_damaged_format_file_is_reported_and_nothing_changes(tmp_path: Path) -> None:
    kept = await save(tmp_path, "kept")
    good = (tmp_path / "FORMAT").read_bytes()
    # All but its newline is all of it.
    for length, tail in iter_damages(range(len(good) - 1)):
        (tmp_path / "FORMAT").write_bytes(good[:length] + tail)
        before = read_folder(tmp_path)

        with pytest.raises(Unavailable, match="FORMAT is damaged"):
            open_files(tmp_path)

        assert read_folder(tmp_path) == before
    (tmp_path / "FORMAT").write_bytes(good)
    assert list(await read_rows(tmp_path)) == [kept]


class NoBootId(FaultyFileSystem):
    """A system that does not say when it was started."""

    def read(self, path: Path) -> bytes:
        if path.name == "boot_id":
            raise FileNotFoundError(path)
        return super().read(path)


@pytest.mark.parametrize(("files", "syncs"), [(FaultyFileSystem(), 0), (NoBootId(), 1)], ids=["known", "unknown"])
async def test_without_a_boot_id_the_log_is_synced_before_it_is_trusted(
    tmp_path: Path, files: FaultyFileSystem, syncs: int
) -> None:
    kept = await save(tmp_path, "kept")

    async with open_domain(tmp_path, files) as hub:
        synced = files.log_syncs

        assert synced == syncs
        assert list(rows_of(hub.store)) == [kept]
        assert hub.store.status().damage == []


class OvertakenFiles(FileSystem):
    """Runs something else between the first look at a file and its use."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = [meanwhile]

    def size(self, descriptor: int) -> int:
        size = super().size(descriptor)
        while self._meanwhile:
            self._meanwhile.pop()()
        return size


def test_two_concurrent_lock_creators_keep_each_others_data(tmp_path: Path) -> None:
    path, said_there = tmp_path / "LOCK", Position(1, 2, 3)
    others: list[LockFile] = []

    def make_another() -> None:
        others.append(LockFile(FileSystem(), path))
        others[0].publish(said_there, 7)

    lock = LockFile(OvertakenFiles(make_another), path)
    read = lock.read()
    for item in (lock, *others):
        item.close()

    assert read is not None
    assert read[1] == said_there
