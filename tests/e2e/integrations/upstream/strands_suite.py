"""The memory store of Strands Agents. Started by test_upstream_suites.py, in an environment that has Strands."""

from uuid import uuid4

import pytest
from strands.memory import MemoryManager
from strands.memory.types import MemoryStore, _has_method

from agent_tools.integrations.strands_memory import KnowHubMemoryStore
from agent_tools.results import ToolFailure


def make_store(**options: bool) -> KnowHubMemoryStore:
    return KnowHubMemoryStore(f"li-{uuid4().hex[:8]}", "s1", **options)


async def test_a_manager_finds_what_was_said_and_what_was_added_each_fenced() -> None:
    store = make_store()
    said = [
        {"role": "user", "content": [{"text": "Remember that I prefer tabs over spaces."}]},
        {"role": "assistant", "content": [{"toolUse": {"name": "x", "input": {}, "toolUseId": "1"}}]},
        {"role": "assistant", "content": [{"text": "I will use tabs."}]},
    ]
    await store.add_messages(said)
    await store.add("website_a needs a pause of 2 s before the login")
    await store.add("website_a needs a pause of 2 s before the login")

    manager = MemoryManager(stores=[store])
    tabs, site = [await manager.search(query) for query in ("tabs or spaces", "login at website_a")]

    assert any("tabs over spaces" in entry.content for entry in tabs)
    assert sum("website_a needs a pause" in entry.content for entry in site) == 1
    assert all("| memory: " in entry.content for entry in [*tabs, *site])
    assert {entry.store_name for entry in tabs} == {"knowhub"}


async def test_it_has_what_the_protocol_asks_for() -> None:
    store: MemoryStore = make_store()

    assert all(_has_method(store, name) for name in ("search", "add", "add_messages"))
    assert await store.search("") == []
    assert await make_store().search("tabs") == []


async def test_the_number_of_results_is_limited() -> None:
    store = make_store()
    for number in range(4):
        await store.add(f"fact {number} on the deployment")

    assert len(await store.search("deployment", {"max_search_results": 2})) == 2


async def test_a_refusal_is_an_error() -> None:
    with pytest.raises(ToolFailure, match="category"):
        await make_store().add("text", {"category": "nonsense"})
