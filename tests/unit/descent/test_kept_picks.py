"""Decisions of the model that are kept, and which of them are asked for again."""

import pytest

from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.keywords.agent_decision import Intent
from knowhub.keywords.descent import PickQuestion
from tests.builders import caller, local
from tests.fakes.keyword_view import tree_of
from tests.fakes.queued_chat import pointing
from tests.unit.descent.descent_walk import SHAPE, Walk, failing

pytestmark = pytest.mark.anyio


class KeptPicks:
    """The cache of decisions as a dict."""

    def __init__(self) -> None:
        self.rows: dict[PickQuestion, Row] = {}

    def get(self, asked: PickQuestion) -> Row | None:
        return self.rows.get(asked)

    def put(self, asked: PickQuestion, decision: Row) -> None:
        self.rows[asked] = decision


async def test_a_question_that_was_decided_before_is_not_asked_again() -> None:
    picks, view = KeptPicks(), tree_of(SHAPE)
    first = Walk([pointing("编程语言", "jump"), pointing("Go", reason="r")], view, picks=picks)
    # Its own recents: what was matched last is shown first, which makes another question.
    second = Walk([], view, picks=picks)

    made, kept = await first.down(), await second.down()

    assert (second.chat.questions, kept.calls) == ([], ())
    assert (kept.node_id, kept.path, kept.reason) == (made.node_id, made.path, "r")
    assert len(picks.rows) == 2


async def test_a_kept_decision_holds_for_the_same_query_intent_caller_and_tree_only() -> None:
    picks, view = KeptPicks(), tree_of(SHAPE)
    await Walk([{"action": "missing"}], view, picks=picks).down("a")

    async def asks(query: str = "a", intent: Intent = Intent.SEARCH, ctx: RequestContext | None = None) -> bool:
        walk = Walk([failing()], view, picks=picks, ctx=ctx or local())
        await walk.down(query, intent)
        return bool(walk.chat.questions)

    assert not await asks()
    assert await asks("b")
    assert await asks(intent=Intent.SUGGEST_PARENT)
    assert await asks(ctx=caller(user_id="ann"))
    view.edit(view.id_of("Go"), name="Golang")
    assert await asks()


async def test_a_failure_and_an_invented_target_are_not_kept() -> None:
    picks = KeptPicks()
    for answer in (failing(), {"action": "jump", "node_id": 99}, {"action": "match", "node_ids": [1, 99]}, {}):
        await Walk([answer], picks=picks).down()

    assert picks.rows == {}


async def test_a_jump_in_a_circle_is_not_kept() -> None:
    picks, view = KeptPicks(), tree_of(SHAPE)
    up = {"action": "jump", "node_id": view.id_of("技术")}
    await Walk([pointing("技术", "jump"), pointing("编程语言", "jump"), up], view, picks=picks).down()
    walk = Walk([pointing("Go")], view, picks=picks)

    found = await walk.down()

    assert (found.node_id, len(walk.chat.questions)) == (view.id_of("Go"), 1)


async def test_a_kept_jump_that_would_be_a_circle_on_this_way_is_asked_again() -> None:
    picks, view = KeptPicks(), tree_of(SHAPE)
    up = {"action": "jump", "node_id": view.id_of("技术")}
    # Without 技术 on its way, to go back up to it is a way on, and is kept.
    await Walk([pointing("编程语言", "jump"), up, pointing("TCP")], view, picks=picks).down("a")
    back = next(asked for asked, row in picks.rows.items() if row["node_id"] == view.id_of("技术"))
    picks.rows = {back: picks.rows[back]}
    walk = Walk([pointing("技术", "jump"), pointing("编程语言", "jump"), pointing("Go")], view, picks=picks)

    found = await walk.down("a")

    assert (found.node_id, len(walk.chat.questions)) == (view.id_of("Go"), 3)


async def test_a_kept_decision_that_makes_no_sense_is_asked_again() -> None:
    picks, view = KeptPicks(), tree_of(SHAPE)
    await Walk([pointing("Go")], view, picks=picks).down()
    for row in ({"action": "match", "node_id": "gone"}, {"action": 1}, {}):
        picks.rows = dict.fromkeys(picks.rows, row)
        walk = Walk([pointing("Python")], view, picks=picks)

        found = await walk.down()

        assert found.node_id == view.id_of("Python")
