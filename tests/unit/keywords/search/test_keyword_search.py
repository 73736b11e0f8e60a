"""Searching the tree: by name, by spelling, by a model."""

from collections.abc import Sequence

import orjson
import pytest

from knowhub.keywords.model import SearchStatus
from tests.fakes.queued_chat import Answer, point_to
from tests.unit.keywords.tree_hub import ANN, TreeHub, hub_with, list_names

pytestmark = pytest.mark.anyio


async def test_candidates_with_one_name_are_limited() -> None:
    small = hub_with(max_candidates=3)
    for _ in range(5):
        await small.keyword("x")

    assert len((await small.search("x")).candidates) == 3


async def test_pinyin_is_used_only_without_an_exact_match(hub: TreeHub) -> None:
    await hub.keyword("排序")
    await hub.keyword("树")
    await hub.keyword("数")
    spelt = await hub.search("paixu")
    several = await hub.search("shu")
    await hub.keyword("paixu")
    exact = await hub.search("paixu")

    assert (spelt.status, spelt.reason, list_names(spelt.path)) == (SearchStatus.MATCHED, "pinyin", ["root", "排序"])
    assert (several.status, several.reason) == (SearchStatus.AMBIGUOUS, "pinyin")
    assert list_names(several.candidates) == ["树", "数"]
    assert (exact.reason, list_names(exact.path)) == ("exact", ["root", "paixu"])


async def test_a_keyword_deleted_during_the_call_is_not_found() -> None:
    hub = hub_with([point_to("Python")])
    doomed = await hub.keyword("Python")
    hub.chat.happens = lambda: hub.keywords.delete(ANN, doomed)

    found = await hub.search("the snake language")

    assert found.status is SearchStatus.NOT_FOUND
    assert found.node is None
    assert doomed not in [orjson.loads(row)["id"] for row in found.candidates]


@pytest.mark.parametrize(
    ("answer", "reason", "degraded"),
    [
        ({"node_id": None}, "undecided", ()),
        ({"node_id": 99, "reason": "hm"}, "agent_failure", ("llm",)),
        ({"node_id": "root"}, "agent_failure", ("llm",)),
        ({"node_id": True}, "agent_failure", ("llm",)),
        (RuntimeError("down"), "agent_failure", ("llm",)),
    ],
)
async def test_namesakes_stay_ambiguous_without_a_choice_of_the_model(
    answer: Answer, reason: str, degraded: Sequence[str]
) -> None:
    hub = hub_with([answer], cached=True)
    await hub.keyword("苹果")
    await hub.keyword("苹果")

    found = await hub.search("苹果", disambiguate=True)

    assert (found.status, found.reason, found.degraded) == (SearchStatus.AMBIGUOUS, reason, degraded)
    assert list_names(found.candidates) == ["苹果", "苹果"]
    assert (await hub.search("苹果")).reason == "exact"
