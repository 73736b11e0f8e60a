"""Slimming while it writes: a late cancel, a conflict in one batch, several operations."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.language_models import ChatModel
from knowhub.core.operation import Decide, IdempotencyKey, Outcome
from knowhub.knowledge.evolve.slimming import Slimming, SlimOptions
from knowhub.knowledge.table import list_live_records
from knowhub.settings import Settings
from tests.builders import CountedIds, local, new_knowledge

pytestmark = pytest.mark.anyio


class GatedHubStore:
    """A store whose group commits wait for `let_through`; `begun` is set when one waits."""

    def __init__(self, hub: Hub) -> None:
        self._store = hub.store
        self.begun, self.let_through = asyncio.Event(), asyncio.Event()
        self.refresh, self.view = hub.store.refresh, hub.store.view
        self.find_replay, self.group = hub.store.find_replay, hub.store.group
        self.commit, self.operations_on = hub.store.commit, hub.store.operations_on
        self.operation, self.operations, self.undone_by = hub.store.operation, hub.store.operations, hub.store.undone_by
        self.last_seq, self.base_seq, self.last_seq_of = hub.store.last_seq, hub.store.base_seq, hub.store.last_seq_of

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[Any]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        self.begun.set()
        await self.let_through.wait()
        return await self._store.commit_group(account, actor, decides, idempotency)


@asynccontextmanager
async def no_model(_name: str | None) -> AsyncIterator[ChatModel | None]:
    yield None


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(Settings(data_dir=tmp_path, owner="user:local"), maintain=False) as opened:
        yield opened


@pytest.fixture
def gate(hub: Hub) -> GatedHubStore:
    return GatedHubStore(hub)


@pytest.fixture
def slimming(hub: Hub, gate: GatedHubStore) -> Slimming:
    return Slimming(gate, hub.indexes.records.lexical, SlimOptions(CountedIds(), no_model, 1.0))


async def save_copies(hub: Hub, content: str, count: int) -> list[str]:
    saved = await hub.knowledge.records.save_batch(local(), [new_knowledge(content, dedup=False) for _ in range(count)])
    return [str(item.record["id"]) for item in saved.records]


async def live_ids(hub: Hub) -> list[str]:
    return [summary.id for summary in list_live_records(hub.store.view("default"))]


async def test_a_cancel_during_the_write_still_returns_the_result(
    hub: Hub, gate: GatedHubStore, slimming: Slimming
) -> None:
    first, _ = await save_copies(hub, "one", 2)
    work = asyncio.create_task(slimming.slim(local()))
    await gate.begun.wait()

    work.cancel()
    await asyncio.sleep(0)
    gate.let_through.set()
    done = await work

    assert (done.report["records_after"], len(done.operation_ids)) == (1, 1)
    assert await live_ids(hub) == [first]


async def test_many_copies_are_several_operations_with_one_undo(
    hub: Hub, gate: GatedHubStore, slimming: Slimming
) -> None:
    ids = await save_copies(hub, "one", 500)
    gate.let_through.set()

    done = await slimming.slim(local())

    assert (len(done.operation_ids), done.report["merged_count"], await live_ids(hub)) == (6, 6, ids[:1])
    assert hub.store.view("default").get("knowledge", ids[0])["version"] == 7  # type: ignore[index]  # it is there
    await hub.operations.log.undo(local(), done.slim_id or "")
    assert await live_ids(hub) == ids


async def test_a_conflict_in_the_last_batch_keeps_the_other_merges(
    hub: Hub, gate: GatedHubStore, slimming: Slimming
) -> None:
    ids = await save_copies(hub, "one", 300)
    work = asyncio.create_task(slimming.slim(local()))
    await gate.begun.wait()

    await hub.knowledge.records.patch(local(), ids[-1], {"content": "moved"})
    gate.let_through.set()
    done = await work

    assert [item["reason"] for item in done.report["skipped"]] == ["one of these was changed meanwhile"]
    assert done.report["skipped"][0]["ids"][-1] == ids[-1]
    assert await live_ids(hub) == [ids[0], *ids[298:]]
    await hub.operations.log.undo(local(), done.slim_id or "")
    assert await live_ids(hub) == ids


async def test_an_impossible_merge_in_the_last_batch_keeps_the_others(
    hub: Hub, gate: GatedHubStore, slimming: Slimming
) -> None:
    for number in range(50):
        await save_copies(hub, f"fact {number}", 2)
    bad = await save_copies(hub, "too many resources", 2)
    for name, row_id in zip("ab", bad, strict=True):
        await hub.knowledge.records.patch(
            local(), row_id, {"resource_ids": [f"{name}-{number}" for number in range(30)]}
        )
    planned = await slimming.slim(local(), dry_run=True)
    gate.let_through.set()

    done = await slimming.slim(local())

    assert (done.report["merged_count"], [item["ids"] for item in done.report["skipped"]]) == (50, [bad])
    assert done.report == {**planned.report, "dry_run": False}
    assert len(done.operation_ids) == 2
