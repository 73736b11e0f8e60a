"""A base that is cut after each byte, or has a tail: recovered exactly, or reported."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import compaction_store
from tests.crash.repaired_logs import iter_tails

pytestmark = pytest.mark.anyio

EVERY = [
    pytest.param(31, id="some"),
    pytest.param(1, id="every", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]


def iter_damages(good: bytes, step: int) -> Iterator[bytes]:
    """Yield prefixes, the longest first, and the whole with tails."""
    yield from (good[:length] for length in range(len(good) - 1, -1, -step))
    yield b""
    yield from (good + tail for tail in iter_tails(1, 2, 512, 4095, 4096, 8192))


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
