"""A large group of operations is atomic, and other requests are served while it is loaded."""

import asyncio
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.keywords.exchange import ImportedTree
from knowhub.keywords.model import NewKeyword
from knowhub.keywords.tree import list_keywords
from knowhub.settings import Settings
from tests.builders import local

pytestmark = pytest.mark.anyio
COUNT = 12_000


async def test_a_large_import_is_atomic_and_yields_to_other_tasks(tmp_path: Path) -> None:
    turns_while_taken_in = 0

    async def count_turns(hub: Hub) -> None:
        nonlocal turns_while_taken_in
        while True:
            turns_while_taken_in += "default" in hub.store.commits.applying
            await asyncio.sleep(0)

    async def count_keywords(hub: Hub, seen: set[int]) -> None:
        while True:
            await hub.store.refresh("default")
            seen.add(len(list(list_keywords(hub.store.view("default")))))
            await asyncio.sleep(0.001)

    async with open_hub(Settings(data_dir=tmp_path, owner="user:local"), maintain=False) as hub:
        seen = set[int]()
        await hub.keywords.tree.make_root(local())
        others = [asyncio.create_task(count_turns(hub)), asyncio.create_task(count_keywords(hub, seen))]
        new = [NewKeyword(f"keyword {number}") for number in range(COUNT)]
        await hub.keywords.exchange.import_tree(local(), ImportedTree(new))
        await asyncio.sleep(0.05)
        for task in others:
            task.cancel()

    assert seen == {1, COUNT + 1}
    assert turns_while_taken_in > 2
