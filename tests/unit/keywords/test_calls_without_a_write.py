"""Calls of a model are logged even if nothing is written: the verb is refused, cancelled or a retry."""

import asyncio
from collections.abc import Awaitable

import pytest

from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.operation import IdempotencyKey
from knowhub.keywords.curate.curator import NODES_PER_CALL
from knowhub.keywords.model import NewInfo, NewKeyword
from knowhub.keywords.service import DeleteOptions
from tests.fakes.queued_chat import NEVER, point_to
from tests.unit.keywords.tree_hub import ANN, TreeHub, hub_with

pytestmark = pytest.mark.anyio

KEY = IdempotencyKey(principal="user:ann", method="POST", path="/api/keywords", key="k-1", body="b-1")


async def list_logged_calls(hub: TreeHub) -> list[tuple[str, str, list[str]]]:
    """Return the operations with model calls, oldest first: the kind, the actor, and the called functions."""
    await hub.log.close()
    found = [item for item in await hub.list_operations() if item.agent_io]
    return [(item.op, item.actor, [str(call["function"]) for call in item.agent_io or ()]) for item in found][::-1]


async def cancel_while_asked(hub: TreeHub, verb: Awaitable[object], asked: int) -> None:
    """Break a verb off while the model thinks about its question of this number."""
    task = asyncio.ensure_future(verb)
    while len(hub.chat.questions) < asked:
        assert not task.done(), task
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_calls_of_a_refused_keyword_are_logged() -> None:
    hub = hub_with([{"action": "create_new"}, point_to("top")])
    await hub.keyword("top")
    hub.chat.happens = lambda: hub.keyword("taken")

    with pytest.raises(Conflict):
        await hub.keywords.create(ANN, NewKeyword("top", aliases=["taken"]), dedup_check=True)

    assert await list_logged_calls(hub) == [("agent_decision", "user:ann", ["dedup_check", "pick_branch"])]


async def test_calls_of_a_refused_info_are_logged() -> None:
    hub = hub_with([{"links": []}])
    keyword_id = await hub.keyword("top")
    hub.chat.happens = lambda: hub.keywords.delete(ANN, keyword_id, DeleteOptions())

    with pytest.raises(InvalidInput):
        await hub.infos.create(ANN, NewInfo("top of all", keyword_ids=[keyword_id], auto_link=True))

    assert await list_logged_calls(hub) == [("agent_decision", "user:ann", ["link_info"])]


async def test_calls_of_a_concurrent_retry_are_logged() -> None:
    hub = hub_with([point_to("top")])
    await hub.keyword("top")
    hub.chat.happens = lambda: hub.keywords.create(ANN, NewKeyword("one"), KEY, auto_place=False)

    retried = await hub.keywords.create(ANN, NewKeyword("one"), KEY)

    assert retried.record["parent_id"] == "root"
    assert await list_logged_calls(hub) == [("agent_decision", "user:ann", ["pick_branch"])]


async def test_calls_of_a_cancelled_search_are_logged() -> None:
    hub = hub_with([point_to("top", "jump"), NEVER])
    await hub.keyword("below", await hub.keyword("top"))

    await cancel_while_asked(hub, hub.search("what nobody named"), asked=2)

    assert await list_logged_calls(hub) == [("agent_decision", "user:ann", ["pick_branch"])]


async def test_calls_of_a_cancelled_plan_are_logged() -> None:
    hub = hub_with([{"moves": []}, NEVER])
    for number in range(NODES_PER_CALL + 1):
        await hub.keyword(f"keyword {number}")

    await cancel_while_asked(hub, hub.curator.reorganize(ANN), asked=2)

    assert await list_logged_calls(hub) == [("agent_decision", "user:ann", ["reorganize"])]
