"""Decisions of a model in reads are logged behind the answer, and never in its way."""

import asyncio
from collections.abc import Sequence

import pytest

from knowhub.core.errors import ReadOnly, StorageFull
from knowhub.core.operation import Commits, Decide, IdempotencyKey, Operation, Outcome, Row, Unchanged, View
from knowhub.keywords.decision_log import DecisionLog
from tests.builders import CountedIds, FakeClock, caller, local
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

CALLS: list[Row] = [{"function": "pick_branch", "output": {"action": "missing"}}]


class GatedStore(Commits[View]):
    """Commits nothing before its gate is open, and then fails as it is told."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.gate = asyncio.Event()
        self.accounts: list[str] = []
        self._problem = problem

    async def commit(
        self, account: str, actor: str, decide: Decide[View], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        await self.gate.wait()
        if self._problem is not None:
            raise self._problem
        self.accounts.append(account)
        return Unchanged()

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[View]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        return [await self.commit(account, actor, decide, idempotency) for decide in decides]

    async def find_replay(self, account: str, idempotency: IdempotencyKey | None) -> None:
        return None


async def list_operations(store: MemoryStore) -> list[Operation]:
    return [item async for item in store.operations("default")]


async def test_a_decision_becomes_an_operation_that_changes_nothing() -> None:
    store = MemoryStore(FakeClock(), CountedIds())
    log = DecisionLog(store)

    log.note(caller(user_id="ann"), CALLS)
    await log.close()

    operation = (await list_operations(store))[0]
    assert (operation.op, operation.actor, operation.changes) == ("agent_decision", "user:ann", [])
    assert operation.agent_io == tuple(CALLS)
    assert (log.dropped, log.failed) == (0, 0)


async def test_no_calls_and_a_log_that_is_off_write_nothing() -> None:
    store = MemoryStore(FakeClock(), CountedIds())
    on, off = DecisionLog(store), DecisionLog(store, enabled=False)

    on.note(local(), [])
    off.note(local(), CALLS)
    await on.close()
    await off.close()

    assert await list_operations(store) == []


async def test_what_is_noted_later_does_not_change_what_was_noted() -> None:
    store, calls = MemoryStore(FakeClock(), CountedIds()), list(CALLS)
    log = DecisionLog(store)

    log.note(local(), calls)
    calls.clear()
    await log.close()

    assert (await list_operations(store))[0].agent_io == tuple(CALLS)


async def test_noting_waits_for_nothing_and_what_is_too_much_is_dropped_and_counted() -> None:
    store = GatedStore()
    log = DecisionLog(store, limit=3)

    for _ in range(5):
        log.note(local(), CALLS)
    dropped = log.dropped
    store.gate.set()
    await log.close()
    log.note(local(), CALLS)
    await log.close()

    assert (dropped, log.dropped, len(store.accounts)) == (2, 2, 4)


@pytest.mark.parametrize("problem", [StorageFull("full"), ReadOnly("read-only")])
async def test_a_log_that_cannot_be_written_is_counted_and_raises_nothing(problem: Exception) -> None:
    store = GatedStore(problem)
    store.gate.set()
    log = DecisionLog(store)

    log.note(local(), CALLS)
    log.note(local(), CALLS)
    await log.close()

    assert (log.failed, log.dropped) == (2, 0)


async def test_closing_waits_a_bounded_time() -> None:
    log = DecisionLog(GatedStore(), close_s=0.05)

    log.note(local(), CALLS)
    await asyncio.wait_for(log.close(), 2)

    assert log.dropped == 1
