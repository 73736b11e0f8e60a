"""What a search caches, and until when it is valid."""

import orjson
import pytest

from knowhub.keywords.model import SearchStatus
from tests.fakes.queued_chat import point_to
from tests.unit.keywords.tree_hub import ANN, BOB, hub_with

pytestmark = pytest.mark.anyio


async def test_a_descent_is_cached_for_an_hour() -> None:
    hub = hub_with([point_to("Python", reason="one"), point_to("Python", reason="two")], cached=True)
    await hub.keyword("Python")

    first = await hub.search("the snake language")
    hub.clock.advance(3_599)
    again = await hub.search("The Snake Language!")
    hub.clock.advance(2)
    later = await hub.search("the snake language")

    assert (first.reason, again, later.reason) == ("one", first, "two")


async def test_a_cached_descent_is_not_used_without_model_or_for_others() -> None:
    hub = hub_with([point_to("Python"), point_to("Python")], cached=True)
    await hub.keyword("Python")
    await hub.search("the snake language")

    without = await hub.search("the snake language", expand=False)
    by_another = await hub.search("the snake language", BOB)

    assert (without.status, without.reason) == (SearchStatus.NOT_FOUND, "exact_miss_llm_disabled")
    assert by_another.status is SearchStatus.MATCHED
    assert len(hub.chat.questions) == 2


@pytest.mark.parametrize("change", ["rename", "move", "child of the top", "namesake"])
async def test_tree_changes_invalidate_a_cached_descent(change: str) -> None:
    hub = hub_with([point_to("Python"), point_to("Python")], cached=True)
    language, elsewhere = await hub.keyword("编程语言"), await hub.keyword("elsewhere")
    python = await hub.keyword("Python", language)
    await hub.search("the snake language")

    match_by_name = False
    if change == "rename":
        await hub.keywords.update(ANN, language, {"name": "语言"})
    elif change == "move":
        await hub.keywords.move(ANN, python, elsewhere)
    elif change == "child of the top":
        await hub.keyword("装饰器", elsewhere)
    else:
        await hub.keyword("The snake language")
        match_by_name = True
    found = await hub.search("the snake language")

    assert found.status is SearchStatus.MATCHED
    assert (found.reason == "exact") == match_by_name
    assert len(hub.chat.questions) == (1 if match_by_name else 2)


async def test_a_cached_miss_is_dropped_when_a_keyword_shares_a_word() -> None:
    hub = hub_with([{"action": "missing"}, {"action": "missing"}, point_to("snake charm")], cached=True)
    language = await hub.keyword("编程语言")
    python = await hub.keyword("Python", language)
    await hub.search("the snake language")

    await hub.keyword("装饰器", python)
    again = await hub.search("the snake language")
    asked = len(hub.chat.questions)
    await hub.keyword("snake oil", python)
    await hub.search("the snake language")

    assert (again.status, asked, len(hub.chat.questions)) == (SearchStatus.NOT_FOUND, 1, 2)


async def test_a_choice_of_namesakes_is_cached_until_one_path_changes() -> None:
    hub = hub_with([{"node_id": 1}, {"node_id": 2}], cached=True)
    firm = await hub.keyword("公司")
    left, other = await hub.keyword("苹果"), await hub.keyword("苹果", firm)

    undecided = await hub.search("苹果")
    first = await hub.search("苹果", disambiguate=True)
    again = await hub.search("苹果", disambiguate=True)
    await hub.keywords.update(ANN, firm, {"name": "企业"})
    later = await hub.search("苹果", disambiguate=True)

    assert undecided.status is SearchStatus.AMBIGUOUS
    assert again == first
    assert [orjson.loads(found.node or b"{}")["id"] for found in (first, later)] == [left, other]
