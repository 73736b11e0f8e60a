"""The log of shown records: readable at once, written later, bounded, and never in the way of a search."""

import asyncio

import pytest

from knowhub.core.errors import ReadOnly
from knowhub.core.operation import Decide, IdempotencyKey, Outcome, View
from knowhub.knowledge.impressions import IMPRESSIONS, MAX_SHOWN, MAX_WAITING, ImpressionLog, ImpressionScope
from tests.builders import CountedIds, FakeClock, caller, local
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio
SESSION = ImpressionScope("s", "g")


class RefusingStore(MemoryStore):
    """Refuses every commit while `refuses`, and holds each one up while `gate` is closed."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), CountedIds())
        self.refuses = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(
        self, account: str, actor: str, decide: Decide[View], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        await self.gate.wait()
        if self.refuses:
            raise ReadOnly("the disk is full")
        return await super().commit(account, actor, decide, idempotency)


@pytest.fixture
async def store() -> RefusingStore:
    return RefusingStore()


def make_log(store: RefusingStore, close_s: float = 5.0) -> ImpressionLog:
    return ImpressionLog(store, FakeClock(), close_s)


def list_written(store: RefusingStore, shown: ImpressionScope = SESSION) -> list[str]:
    return list(shown.select_shown(store.view("default").get(IMPRESSIONS, shown.row_id(local()))))


async def test_impressions_during_a_write_share_the_next_write(store: RefusingStore) -> None:
    impressions = make_log(store)
    store.gate.clear()
    for number in range(50):
        impressions.record(local(), SESSION, [f"k{number}"])
        await asyncio.sleep(0)
    store.gate.set()

    await impressions.close()

    assert (len(list_written(store)), store.last_seq) == (50, 2)


async def test_a_row_keeps_the_newest_thousand(store: RefusingStore) -> None:
    clock = FakeClock()
    impressions = ImpressionLog(store, clock)
    for number in range(3):
        clock.advance(1)
        impressions.record(local(), ImpressionScope("s", f"g{number}"), [f"k{number}-{item}" for item in range(400)])
        await impressions.flush(local(), ImpressionScope("s"))

    counts = [len(impressions.list_shown(local(), ImpressionScope("s", f"g{number}"))) for number in range(3)]

    assert (counts, len(impressions.list_shown(local(), ImpressionScope("s")))) == ([200, 400, 400], MAX_SHOWN)


async def test_a_failing_store_fails_no_search_and_is_counted(store: RefusingStore) -> None:
    impressions = make_log(store)
    store.refuses = True
    impressions.record(local(), SESSION, ["a"])
    await impressions.flush(local(), SESSION)

    assert (impressions.list_shown(local(), SESSION), list_written(store), impressions.failed) == ({}, [], 1)
    store.refuses = False
    impressions.record(local(), SESSION, ["b"])
    await impressions.flush(local(), SESSION)
    assert list_written(store) == ["b"]


async def test_waiting_impressions_are_bounded_and_counted(store: RefusingStore) -> None:
    impressions = make_log(store, close_s=0.05)
    store.gate.clear()
    for number in range(MAX_WAITING + 10):
        impressions.record(local(), ImpressionScope(f"s{number}"), ["a"])

    await impressions.close()

    assert impressions.dropped == MAX_WAITING + 10
    assert set(impressions.list_shown(local(), ImpressionScope(f"s{MAX_WAITING + 5}"))) == frozenset()


async def test_callers_without_an_owner_are_identified_by_project(store: RefusingStore) -> None:
    impressions = make_log(store)

    impressions.record(caller(project_id="x"), SESSION, ["a"])
    await impressions.close()

    assert set(impressions.list_shown(caller(project_id="x"), SESSION)) == {"a"}
    assert set(impressions.list_shown(caller(project_id="y"), SESSION)) == frozenset()
