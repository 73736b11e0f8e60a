"""The summary of a record, the key of duplicates, and the order in which records are listed."""

import asyncio
from pathlib import Path

import orjson
import pytest

from knowhub.knowledge.model import Feedback, ImportedKnowledge, ListQuery, OnConflict
from knowhub.knowledge.table import find_replacements
from tests.builders import Domain, local, new_knowledge, open_domain

pytestmark = pytest.mark.anyio


async def list_pages(hub: Domain, limit: int) -> list[str]:
    shown: list[str] = []
    before: int | None = None
    while True:
        page = await hub.knowledge.records.page(local(), ListQuery(limit=limit, before=before))
        shown += [orjson.loads(record)["content"] for record in page.records]
        if page.next_position is None:
            return shown
        before = page.next_position


async def test_records_created_beside_updates_are_listed_in_order(tmp_path: Path) -> None:
    async with open_domain(tmp_path) as hub:
        old = [await hub.knowledge.records.save(local(), new_knowledge(f"old {number}")) for number in range(3)]
        votes = [
            hub.knowledge.records.give_feedback(local(), saved.record["id"], Feedback(helpful_case={"task": "t"}))
            for saved in old
        ]
        patches = [hub.knowledge.records.patch(local(), saved.record["id"], {"tags": {"k": "v"}}) for saved in old]
        saves = [hub.knowledge.records.save(local(), new_knowledge(f"new {number}")) for number in range(3)]

        await asyncio.gather(*votes, saves[0], *patches, *saves[1:])

        expected = ["new 2", "new 1", "new 0", "old 2", "old 1", "old 0"]
        assert await list_pages(hub, 2) == expected
        tagged = await hub.knowledge.records.page(local(), ListQuery(filters=[frozenset({"tag.k:v"})]))
        assert [orjson.loads(record)["content"] for record in tagged.records] == ["old 2", "old 1", "old 0"]
    async with open_domain(tmp_path) as hub:
        assert await list_pages(hub, 4) == expected


@pytest.mark.parametrize("supersedes", ["new-old", None])
async def test_a_record_supersedes_only_what_its_current_version_names(tmp_path: Path, supersedes: str | None) -> None:
    async with open_domain(tmp_path) as hub:
        for said in ("old", supersedes):
            line = ImportedKnowledge("b", new_knowledge(supersedes=said), {})
            await hub.knowledge.exchange.import_lines(local(), [line], OnConflict.REPLACE)

        view = hub.store.view("default")

        assert find_replacements(view, "old") == []
        assert [head.id for head in find_replacements(view, "new-old")] == (["b"] if supersedes else [])
