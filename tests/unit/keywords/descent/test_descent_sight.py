"""What a descent shows: recent keywords first, nothing hidden, and changes made during the calls."""

from collections.abc import Callable

import pytest

from knowhub.core.language_models import ChatRequest
from knowhub.keywords.model import ROOT_ID
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.fakes.queued_chat import point_to, point_to_all
from tests.unit.keywords.descent.descent_walk import SHAPE, Descent, chat_failure

pytestmark = pytest.mark.anyio


async def test_a_match_and_its_path_come_first_next_time() -> None:
    view = tree_of({f"top {number}": {f"leaf {number}": {}} for number in range(60)})
    walk = Descent([point_to("top 49", "jump"), point_to("leaf 49"), point_to("top 7")], view)

    await walk.down()
    await walk.down()

    assert walk.recents.list_newest(local()) == [
        view.id_of("top 7"),
        view.id_of("leaf 49"),
        view.id_of("top 49"),
    ]
    assert "leaf 49" not in walk.chat.names(0)
    assert walk.chat.names(2)[:3] == ["leaf 49", "top 49", "top 0"]
    assert len(walk.chat.names(2)) == 50


async def test_only_a_match_is_remembered() -> None:
    walk = Descent([point_to("技术", "jump"), {"action": "missing"}, point_to_all(["Go", "TCP"]), chat_failure()])

    for _ in range(3):
        await walk.down()

    assert walk.recents.list_newest(local()) == []


async def test_a_candidate_deleted_during_the_call_is_not_matched() -> None:
    view = tree_of(SHAPE)
    go = view.id_of("Go")

    def dropping(action: str) -> Callable[[ChatRequest], object]:
        def answer(question: ChatRequest) -> object:
            said = point_to("Go", action)(question)
            view.drop(go)
            return said

        return answer

    matched = await Descent([dropping("match")], view).down()
    view.edit(go, live=True)
    jumped = await Descent([dropping("jump")], view).down()

    assert (matched.outcome, matched.reason, jumped.reason) == ("missing", "agent_failure", "invalid_jump")


async def test_a_keyword_created_during_the_call_is_shown_in_the_next_round() -> None:
    view = tree_of(SHAPE)

    def creating(question: ChatRequest) -> object:
        view.put("Rust", view.id_of("编程语言"))
        return point_to("编程语言", "jump")(question)

    walk = Descent([creating, point_to("Rust")], view)

    found = await walk.down()

    assert (found.outcome, found.node_id) == ("matched", view.id_of("Rust"))


async def test_hidden_keywords_are_never_shown_suggested_or_matched() -> None:
    view = tree_of(SHAPE)
    hidden = view.id_of("编程语言")
    view.edit(hidden, owner="user:bob", scopes=("user:bob",))
    ann = caller(user_id="ann")
    parted = Descent([point_to_all(["Python", "Go"], "jump", "node_ids")], view, ctx=ann)
    named = Descent([{"action": "match", "node_id": hidden}], view, ctx=ann)
    placed = Descent([point_to("Python", "jump")], view, ctx=ann)
    view.put("Django", view.id_of("Python"))

    unclear, refused, below = await parted.down(), await named.down(), await placed.down()

    assert "编程语言" not in str(parted.chat.questions[0].messages)
    assert unclear.suggested_parent_id != hidden
    assert (refused.outcome, refused.failure) == ("missing", "agent_failure")
    assert below.suggested_parent_id == view.id_of("Python")
    assert hidden not in {*unclear.candidates, *refused.candidates, *below.path}


async def test_the_root_is_never_a_match_of_a_search() -> None:
    to_root = {"action": "jump", "node_id": ROOT_ID}

    of_nothing = await Descent([to_root, {"action": "missing"}], FakeKeywordView()).down()
    back = Descent([point_to("技术", "jump"), to_root, point_to("菜谱")])
    taken = await back.down()

    assert (of_nothing.outcome, of_nothing.reason, of_nothing.suggested_parent_id) == (
        "missing",
        "invalid_jump",
        ROOT_ID,
    )
    assert (back.chat.read_prompt()["current_path"], taken.node_id) == ([], back.view.id_of("菜谱"))
