"""The summary of a record, the key of duplicates, and the order in which records are listed."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.knowledge import table
from knowhub.knowledge.model import Feedback, ImportedKnowledge, ListQuery, OnConflict
from knowhub.knowledge.table import find_replacements
from tests.builders import Domain, knowledge_row, local, new_knowledge, opened

pytestmark = pytest.mark.anyio


SAME = [
    ({"content": "Wait for it"}, {"content": "  wait   FOR\nit "}),
    ({"content": "ＡＢＣ １２３"}, {"content": "abc 123"}),
    ({"types": ("tool", "plan")}, {"types": ("plan", "tool")}),
    ({"scopes": ["public", "team:a"]}, {"scopes": ["team:a", "public"]}),
    ({"tags": {"a": "b"}}, {"tags": {}}),
    ({"score": 5}, {"score": 1}),
]

OTHER = [
    ({"content": "wait"}, {"content": "waits"}),
    ({"task": "ab", "content": "c"}, {"task": "a", "content": "bc"}),
    ({"types": ("tool",)}, {"types": ("plan",)}),
    ({"scopes": ["public"]}, {"scopes": ["team:a"]}),
    ({"owner": "user:a"}, {"owner": "user:b"}),
]


def key(fields: dict[str, Any]) -> bytes:
    return table.dedup_key(knowledge_row("a", **fields))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_records_that_say_the_same_have_one_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_records_that_differ_for_a_reader_have_keys_of_their_own(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(one) != key(other)


def test_a_head_keeps_its_place_and_its_text_number_while_its_text_stays() -> None:
    row = knowledge_row("a")
    first = table.summarize(row, 7, 100)

    voted = table.summarize(row | {"eval": row["eval"] | {"helpful": 9}, "version": 2}, 8, 200, first)
    edited = table.summarize(row | {"content": "other", "version": 2}, 8, 200, first)

    assert (voted.ordinal, voted.text_num, voted.helpful, voted.version) == (7, 100, 9, 2)
    assert (edited.ordinal, edited.text_num) == (7, 200)
    assert edited.dedup_key != first.dedup_key


@pytest.mark.parametrize(
    "change", [{"deleted": True}, {"scopes": ["public"]}, {"types": ["plan"]}, {"tags": {"a": "b"}}, {"task": "x"}]
)
def test_what_search_filters_by_is_part_of_the_text(change: dict[str, Any]) -> None:
    row = knowledge_row("a")
    first = table.summarize(row, 0, 100)

    assert table.summarize(row | change, 0, 200, first).text_num == 200


@pytest.mark.parametrize("name", table.FACETS)
def test_a_change_of_any_field_that_search_filters_by_is_a_change_of_what_is_searched(name: str) -> None:
    row = knowledge_row("a", tags={"site": "x"})
    changed = {"tags": {"site": "y"}, "types": ["plan"], "scopes": ["public"]}.get(name, "user:someone")
    first = table.summarize(row, 0, 100)
    second = table.summarize(row | {name: changed}, 0, 200, first)

    assert second.facets != first.facets
    assert second.text_num == 200
    assert table.get_searched_value(row | {name: changed}) != table.get_searched_value(row)


def test_facets_name_all_that_a_list_is_filtered_by() -> None:
    row = knowledge_row("a", scopes=["team:web"], tags={"site": ["x", "y"], "tool": "z"})

    facets = table.summarize(row, 0, 1).facets

    assert facets == {
        "type:tool",
        "scope:team:web",
        "owner:user:local",
        "tag.site:x",
        "tag.site:y",
        "tag.tool:z",
        "sees:team:web",
        "sees:user:local",
    }


def test_the_scope_of_the_owner_is_found_by_the_owners_name_too() -> None:
    head = table.summarize(knowledge_row("a", owner="user:li"), 0, 1)

    assert {"scope:user:owner", "scope:user:li"} <= head.facets


async def pages(hub: Domain, limit: int) -> list[str]:
    shown: list[str] = []
    before: int | None = None
    while True:
        page = await hub.knowledge.records.page(local(), ListQuery(limit=limit, before=before))
        shown += [orjson.loads(record)["content"] for record in page.records]
        if page.next_before is None:
            return shown
        before = page.next_before


async def test_records_made_beside_changes_to_older_ones_are_listed_in_their_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        old = [await hub.knowledge.records.save(local(), new_knowledge(f"old {number}")) for number in range(3)]
        votes = [
            hub.knowledge.records.give_feedback(local(), saved.record["id"], Feedback(helpful_case={"task": "t"}))
            for saved in old
        ]
        patches = [hub.knowledge.records.patch(local(), saved.record["id"], {"tags": {"k": "v"}}) for saved in old]
        saves = [hub.knowledge.records.save(local(), new_knowledge(f"new {number}")) for number in range(3)]

        await asyncio.gather(*votes, saves[0], *patches, *saves[1:])

        expected = ["new 2", "new 1", "new 0", "old 2", "old 1", "old 0"]
        assert await pages(hub, 2) == expected
        tagged = await hub.knowledge.records.page(local(), ListQuery(filters=[frozenset({"tag.k:v"})]))
        assert [orjson.loads(record)["content"] for record in tagged.records] == ["old 2", "old 1", "old 0"]
    async with opened(tmp_path) as hub:
        assert await pages(hub, 4) == expected


@pytest.mark.parametrize("supersedes", ["new-old", None])
async def test_a_record_supersedes_what_it_says_now_and_not_what_it_said(
    tmp_path: Path, supersedes: str | None
) -> None:
    async with opened(tmp_path) as hub:
        for said in ("old", supersedes):
            line = ImportedKnowledge("b", new_knowledge(supersedes=said), {})
            await hub.knowledge.exchange.import_lines(local(), [line], OnConflict.REPLACE)

        view = hub.store.view("default")

        assert find_replacements(view, "old") == []
        assert [head.id for head in find_replacements(view, "new-old")] == (["b"] if supersedes else [])
