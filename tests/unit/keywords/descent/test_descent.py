"""The descent, round by round: the effect of each answer of the model, and the name of each failure."""

import asyncio

import pytest

from knowhub.core.language_models import ChatRequest, FailureReason
from knowhub.core.operation import Row
from knowhub.keywords.cache import ResultCache
from knowhub.keywords.model import ROOT_ID, TreeOptions
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.search.prompts import Goal, Intent
from tests.builders import FakeClock, local
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of
from tests.fakes.queued_chat import NEVER, point_to, point_to_all
from tests.unit.keywords.descent.descent_walk import BUDGET_S, SHAPE, Descent, chat_failure

pytestmark = pytest.mark.anyio


async def test_descriptions_are_shown_unless_disabled() -> None:
    view = FakeKeywordView()
    view.put("Go")
    view.put("Python", description="一门语言")
    walk = Descent([{"action": "missing"}], view)
    silent = Descent([{"action": "missing"}], view, TreeOptions(describe_candidates=False))

    await walk.down()
    await silent.down()

    assert [candidate.get("description") for candidate in walk.chat.read_prompt()["candidates"]] == [None, "一门语言"]
    assert "一门语言" not in str(silent.chat.questions[0].messages)


async def test_a_cut_list_continues_with_an_outline() -> None:
    view = tree_of({f"top {number}": {"leaf": {}} for number in range(200)})
    walk = Descent(
        [{"action": "more"}, lambda question: {"action": "match", "node_id": _find_idx(question, "top 150")}], view
    )

    found = await walk.down()

    assert (walk.chat.read_prompt(0)["has_more"], walk.chat.read_prompt(1)["has_more"]) == (True, False)
    assert "top 150  (1)\n" in walk.chat.read_prompt(1)["outline"]
    assert (found.outcome, found.node_id) == ("matched", view.id_of("top 150"))


async def test_asking_for_more_of_a_full_list_finds_nothing() -> None:
    found = await Descent([{"action": "more"}]).down()

    assert (found.outcome, found.failure) == ("missing", None)


async def test_the_same_question_about_the_same_keywords_is_asked_once() -> None:
    walk = Descent([point_to("Python"), point_to("Go"), point_to("TCP")])
    agent = KeywordAgent(walk.chat, walk.recents, walk.options, cache=ResultCache(FakeClock()))

    async def ask(query: str) -> str | None:
        return (await agent.descend(local(), lambda: walk.view, Goal(query), BUDGET_S)).node_id

    first, other, again = await ask("蟒蛇"), await ask("语言"), await ask("蟒蛇")
    walk.view.put("deep", walk.view.id_of("Python"))
    deeper = await ask("蟒蛇")
    walk.view.edit(walk.view.id_of("网络"), name="网")
    renamed = await ask("蟒蛇")

    assert (first, other, again, deeper, renamed) == (
        walk.view.id_of("Python"),
        walk.view.id_of("Go"),
        first,
        first,
        walk.view.id_of("TCP"),
    )


def _find_idx(question: ChatRequest, name: str) -> int:
    lines = str(question.messages[1]["content"]).split("\\n")
    return next(int(line.split(".")[0].split('"')[-1]) for line in lines if name in line)


async def test_the_current_keyword_can_be_matched() -> None:
    by_idx = Descent([point_to("编程语言", "jump"), lambda _: {"action": "match", "node_id": 3}])
    above = tree_of(SHAPE).id_of("技术")
    by_id = Descent([point_to("编程语言", "jump"), {"action": "match", "node_id": above}])

    stood_on, passed = await by_idx.down(), await by_id.down()

    assert by_idx.chat.read_prompt(1)["current_idx"] == 3
    assert stood_on.path == by_idx.path("技术", "编程语言")
    assert passed.path == by_id.path("技术")


async def test_a_jump_to_a_leaf_is_a_match() -> None:
    walk = Descent([point_to("菜谱", "jump")])

    found = await walk.down()

    assert (found.outcome, found.path) == ("matched", walk.path("生活", "菜谱"))
    assert len(walk.chat.questions) == 1


async def test_a_jump_to_several_shows_the_children_of_all() -> None:
    walk = Descent(
        [point_to_all(["编程语言", "网络"], "jump"), {"action": "missing", "suggest_name": "蟒", "reason": "none"}]
    )

    found = await walk.down()

    assert walk.chat.names(1) == ["Python", "TCP", "Go"]
    assert walk.chat.read_prompt(1)["current_path"] == ["技术"]
    assert (found.outcome, found.suggested_parent_id) == ("missing", walk.view.id_of("技术"))
    assert (found.suggested_name, found.reason, found.failure) == ("蟒", "none", None)


async def test_a_jump_to_leaves_only_is_ambiguous() -> None:
    leaves = Descent([point_to_all(["Go", "TCP"], "jump")])
    mixed = Descent([point_to_all(["Go", "生活"], "jump"), point_to("菜谱")])

    unclear, clear = await leaves.down(), await mixed.down()

    assert (unclear.outcome, unclear.candidates) == ("ambiguous", [leaves.view.id_of("Go"), leaves.view.id_of("TCP")])
    assert mixed.chat.names(1) == ["菜谱"]
    assert clear.outcome == "matched"


async def test_several_matches_and_several_candidates_are_ambiguous() -> None:
    matches = Descent([point_to_all(["Go", "Python"])])
    named = Descent([point_to_all(["Go", "Python"], "ambiguous", "candidate_ids")])

    for walk in (matches, named):
        found = await walk.down()

        assert (found.outcome, found.failure) == ("ambiguous", None)
        assert found.candidates == [walk.view.id_of("Go"), walk.view.id_of("Python")]


@pytest.mark.parametrize(
    "answer",
    [{"action": "jump"}, {"action": "match", "node_ids": []}, {"action": "ambiguous", "candidate_ids": None}],
)
async def test_an_answer_without_a_target_means_missing(answer: Row) -> None:
    found = await Descent([answer]).down()

    assert (found.outcome, found.suggested_parent_id, found.failure) == ("missing", ROOT_ID, None)
    assert found.reason == "missing"


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ({"action": "jump", "node_id": 99}, "invalid_jump"),
        ({"action": "jump", "node_ids": ["no-such-id", True]}, "invalid_jump"),
        ({"action": "jump", "node_ids": [99, 1]}, "invalid_jump"),
        ({"action": "jump", "node_ids": ["1", "no-such-id"]}, "invalid_jump"),
        ({"action": "match", "node_id": 99}, "agent_failure"),
        ({"action": "match", "node_id": ROOT_ID}, "agent_failure"),
        ({"action": "ambiguous", "candidate_ids": [0, -1]}, "agent_failure"),
        ({"action": "fly"}, "agent_failure"),
        ({}, "agent_failure"),
        (None, "agent_failure"),
        ([1, 2], "agent_failure"),
        (chat_failure(), "agent_failure"),
        (KeyError("bug"), "agent_failure"),
        (chat_failure(FailureReason.TIMEOUT), "agent_timeout"),
        (TimeoutError(), "agent_timeout"),
    ],
)
async def test_every_failure_has_a_name_and_the_place_that_was_reached(answer: object, failure: str) -> None:
    walk = Descent([point_to("编程语言", "jump"), answer])

    found = await walk.down()

    assert (found.outcome, found.failure, found.reason) == ("missing", failure, failure)
    assert found.suggested_parent_id == walk.view.id_of("编程语言")
    assert (found.candidates, len(found.calls)) == ((), 2)


async def test_only_shown_keywords_and_the_path_are_valid_jump_targets() -> None:
    view = tree_of(SHAPE)
    elsewhere, above = view.id_of("菜谱"), view.id_of("技术")
    lost = Descent([point_to("编程语言", "jump"), {"action": "jump", "node_id": elsewhere}], view)
    back = Descent([point_to("编程语言", "jump"), {"action": "jump", "node_id": above}, point_to("TCP")], view)

    refused, taken = await lost.down(), await back.down()

    assert (refused.outcome, refused.reason) == ("missing", "invalid_jump")
    assert (taken.outcome, taken.node_id) == ("matched", view.id_of("TCP"))


async def test_a_jump_to_several_with_a_deleted_one_is_invalid() -> None:
    view = tree_of(SHAPE)

    def dropping(question: ChatRequest) -> object:
        said = point_to_all(["技术", "菜谱"], "jump")(question)
        view.drop(view.id_of("菜谱"))
        return said

    found = await Descent([dropping], view).down()

    assert (found.outcome, found.failure, found.suggested_parent_id) == ("missing", "invalid_jump", ROOT_ID)


@pytest.mark.parametrize("action", ["match", "ambiguous"])
async def test_targets_that_were_not_shown_are_dropped(action: str) -> None:
    view = tree_of(SHAPE)
    field_of = {"match": "node_ids", "ambiguous": "candidate_ids"}

    found = await Descent([{"action": action, field_of[action]: ["no-such-id", view.id_of("Go"), 99]}], view).down()

    assert found.outcome == {"match": "matched", "ambiguous": "ambiguous"}[action]
    assert view.id_of("Go") in {found.node_id, *found.candidates}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["root"], id="to the root, from the root"),
        pytest.param(["技术", "技术"], id="to where it stands"),
        pytest.param(["技术", "编程语言", "技术"], id="a second time back up"),
        pytest.param(["编程语言", "技术", "编程语言"], id="a second time down"),
        pytest.param([["技术", "编程语言"], "技术"], id="to where all of it was shown"),
        pytest.param(["技术", ["技术", "编程语言"]], id="to what was shown, in another order"),
        pytest.param(["编程语言", ["编程语言", "技术"], ["技术", "编程语言"]], id="to the same ones in another order"),
    ],
)
async def test_a_jump_that_leads_nowhere_is_invalid_at_once(names: list[str | list[str]]) -> None:
    view = tree_of(SHAPE)
    ids = [
        [view.id_of(item) if item != ROOT_ID else item for item in ([some] if isinstance(some, str) else some)]
        for some in names
    ]
    walk = Descent([*({"action": "jump", "node_ids": item} for item in ids), point_to("Go")], view)

    found = await walk.down()

    assert (found.outcome, found.failure, found.reason) == ("missing", "invalid_jump", "invalid_jump")
    assert len(walk.chat.questions) == len(names)


async def test_a_jump_to_a_common_ancestor_shows_all_its_branches() -> None:
    view = tree_of({"技术": {"编程语言": {"Go": {}}, "网络": {"TCP": {}}, "数据": {"SQL": {}}}})
    up = {"action": "jump", "node_id": view.id_of("技术")}
    walk = Descent([point_to_all(["编程语言", "网络"], "jump"), up, point_to("SQL")], view)

    found = await walk.down()

    assert (found.outcome, found.node_id) == ("matched", view.id_of("SQL"))


async def test_a_descent_stops_at_the_round_limit() -> None:
    deep: Shape = {"leaf": {}, "other": {}}
    for number in range(9, -1, -1):
        deep = {f"level {number}": deep}
    walk = Descent([point_to(f"level {number}", "jump") for number in range(10)], tree_of(deep))

    found = await walk.down()

    assert (found.outcome, found.reason, len(walk.chat.questions)) == ("missing", "agent_timeout", 6)
    assert found.suggested_parent_id == walk.view.id_of("level 5")


async def test_the_budget_covers_all_rounds() -> None:
    walk = Descent([point_to("技术", "jump"), point_to("编程语言", "jump"), NEVER, point_to("Go")], budget_s=0.1)

    found = await asyncio.wait_for(walk.down(), 5)

    assert (found.reason, len(walk.chat.questions)) == ("agent_timeout", 3)
    assert sorted(walk.chat.budgets, reverse=True) == walk.chat.budgets
    assert all(0 < budget <= 0.1 for budget in walk.chat.budgets)
    assert [call["failure"] for call in found.calls] == [None, None, "agent_timeout"]


async def test_a_keyword_is_placed_below_a_match_or_else_below_the_root() -> None:
    async def placed(*answers: object) -> tuple[str, str | None]:
        walk = Descent(answers)
        placement = await walk.down("Rust", Intent.SUGGEST_PARENT)
        return placement.parent_id, placement.failure

    view = tree_of(SHAPE)
    languages, tech = view.id_of("编程语言"), view.id_of("技术")

    assert await placed(point_to("技术", "jump"), point_to("编程语言")) == (languages, None)
    assert await placed(point_to("技术", "jump"), {"action": "missing"}) == (tech, None)
    assert await placed(point_to_all(["编程语言", "网络"])) == (ROOT_ID, None)
    assert await placed(point_to("技术", "jump"), {"action": "match", "node_id": "root"}) == (ROOT_ID, None)
    assert await placed(point_to("技术", "jump"), chat_failure()) == (tech, "agent_failure")
