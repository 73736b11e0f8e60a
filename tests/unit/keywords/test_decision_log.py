"""Decisions of a model in reads are logged after the answer, and never delay it."""

import asyncio
from collections.abc import Sequence

import pytest

from knowhub.core.background_writes import DecisionLog
from knowhub.core.errors import ReadOnly, StorageFull
from knowhub.core.operation import Commits, Decide, IdempotencyKey, Operation, Outcome, Row, Unchanged, View
from tests.builders import CountedIds, FakeClock, caller, local
from tests.fakes.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

CALLS: list[Row] = [{"function": "pick_branch", "output": {"action": "missing"}}]


class GatedStore(Commits[View]):
    """Commits nothing before its gate is open, and then raises the given error."""

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


async def test_logging_never_waits_and_counts_dropped_decisions() -> None:
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
async def test_write_failures_of_the_log_are_counted_and_not_raised(problem: Exception) -> None:
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
