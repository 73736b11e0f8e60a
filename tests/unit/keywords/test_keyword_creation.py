"""Creating keywords: what is refused, and what a model may decide."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest

from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.language_models import ChatFailed, FailureReason
from knowhub.core.operation import IdempotencyKey, View
from knowhub.core.owned_rows import SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, TreeOptions
from knowhub.keywords.search.agent import DedupDecision, KeywordAgent
from knowhub.keywords.search.descent import DescentResult, ViewOf
from knowhub.keywords.search.prompts import Goal, Intent
from knowhub.keywords.search.text_search import NearKeywords
from knowhub.keywords.service import DeleteOptions, KeywordService
from knowhub.keywords.tree import BY_NAME
from tests.builders import CountedIds
from tests.fakes.queued_chat import QueuedChat, point_to
from tests.unit.keywords.tree_hub import ANN, BOB, TEXT, TreeHub, hub_with, list_names

pytestmark = pytest.mark.anyio

FAILED = ChatFailed(FailureReason.TIMEOUT, "too late")
KEY = IdempotencyKey(principal="user:ann", method="POST", path="/api/keywords", key="k-1", body="b-1")


# a model chooses the place


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (FAILED, "agent_timeout"),
        (RuntimeError("down"), "agent_failure"),
        ({"action": "jump", "node_id": 99}, "invalid_jump"),
        ({"action": "match", "node_id": 99}, "agent_failure"),
    ],
)
async def test_a_failing_model_places_the_keyword_at_its_last_position(answer: object, reason: str) -> None:
    way = [point_to("技术", "jump"), point_to("编程语言", "jump"), answer]
    hub = hub_with(way, uncategorized_name="未分类")
    languages = await hub.keyword("编程语言", await hub.keyword("技术"))
    await hub.keyword("Python", languages)

    agent = KeywordAgent(QueuedChat(way), RecentMatchesByReader(), TreeOptions())
    goal = Goal("Rust", Intent.SUGGEST_PARENT)
    suggested = await agent.descend(ANN, lambda: hub.store.view("default"), goal, 5.0)
    created = await hub.keywords.create(ANN, NewKeyword("Rust"))

    assert (created.record["parent_id"], suggested.parent_id) == (languages, languages)
    assert created.degraded == ["llm"]
    assert created.decided == {"placed": "suggested", "parent_id": languages, "reason": reason}
    assert len((await hub.last()).agent_io or ()) == 3


async def test_a_failed_model_is_not_asked_again_if_its_parent_is_deleted(hub: TreeHub) -> None:
    top = await hub.keyword("技术")
    await hub.keyword("编程语言", top)

    answers = [point_to("技术", "jump"), FAILED, FAILED]
    agent = InterruptedAgent(answers, lambda: hub.keywords.delete(ANN, top, DeleteOptions(cascade=True)))
    created = await create_with(hub, agent, NewKeyword("Rust"))

    assert created.record["parent_id"] == ROOT_ID
    assert created.decided == {"placed": "root", "parent_id": ROOT_ID, "reason": "the suggested parent is gone"}
    assert (created.degraded, len(agent.chat.questions)) == (["llm"], 2)


async def test_invalid_keywords_are_refused_before_the_model_call() -> None:
    hub = hub_with([point_to("top")])
    await hub.keyword("top")

    with pytest.raises(Conflict):
        await hub.keywords.create(ANN, NewKeyword("x", aliases=["TOP"]))
    with pytest.raises(InvalidInput):
        await hub.keywords.create(ANN, NewKeyword("!"))

    assert hub.chat.questions == []


class InterruptedAgent(KeywordAgent):
    """Runs `meddle` between each answer of the model and its use."""

    def __init__(self, answers: Sequence[object], meddle: Callable[[], Awaitable[object]]) -> None:
        self.chat = QueuedChat(answers)
        super().__init__(self.chat, RecentMatchesByReader(), TreeOptions())
        self._meddle = meddle

    async def descend(self, ctx: RequestContext, views: ViewOf, goal: Goal, budget_s: float) -> DescentResult:
        placement = await super().descend(ctx, views, goal, budget_s)
        await self._meddle()
        return placement

    async def dedup_check(
        self, ctx: RequestContext, view: View, new: NewKeyword, nodes: Sequence[Node], budget_s: float
    ) -> DedupDecision:
        decision = await super().dedup_check(ctx, view, new, nodes, budget_s)
        await self._meddle()
        return decision


async def create_with(hub: TreeHub, agent: KeywordAgent, new: NewKeyword, **how: Any) -> SavedRow:  # noqa: ANN401 -- any option
    """Create a keyword in the tree of a hub with another agent."""
    service = KeywordService(hub.store, NearKeywords(TEXT), CountedIds(1_000), agent, TreeOptions())
    return await service.create(ANN, new, **how)


async def test_a_parent_deleted_during_the_call_is_asked_for_again(hub: TreeHub) -> None:
    first, second = await hub.keyword("first"), await hub.keyword("second")

    async def drop_first() -> None:
        if hub.store.view("default").lookup(BY_NAME, "first"):
            await hub.keywords.delete(ANN, first)

    agent = InterruptedAgent([point_to("first"), point_to("second")], drop_first)
    created = await create_with(hub, agent, NewKeyword("x"))

    assert (created.record["parent_id"], created.decided["placed"]) == (second, "suggested")
    assert len((await hub.last()).agent_io or ()) == 2


async def test_a_namesake_deleted_during_the_call_is_no_merge_target(hub: TreeHub) -> None:
    there = await hub.keyword("Apple")

    agent = InterruptedAgent([dedup_answer("merge")], lambda: hub.keywords.delete(ANN, there))
    created = await create_with(hub, agent, NewKeyword("apple"), auto_place=False, dedup_check=True)

    assert (created.record["name"], created.decided) == ("apple", {"dedup": "create_new"})
    assert len((await hub.last()).agent_io or ()) == 1


async def test_uncategorised_is_created_once_for_unplaced_keywords() -> None:
    hub = hub_with([{"action": "missing", "reason": "none"}] * 2, uncategorized_name="未分类")
    await hub.keyword("top")

    first = await hub.keywords.create(ANN, NewKeyword("x"))
    operation = await hub.last()
    second = await hub.keywords.create(ANN, NewKeyword("y"))

    home = first.record["parent_id"]
    assert [change.after["name"] for change in operation.changes] == ["未分类", "x"]
    assert first.decided == {"placed": "uncategorized", "parent_id": home, "reason": "none"}
    assert (first.record["name"], first.record["level"], second.record["parent_id"]) == ("x", 2, home)
    assert list_names((await hub.keywords.list_children(ANN, ROOT_ID)).records) == ["top", "未分类"]


async def test_the_placement_prompt_has_aliases_and_description() -> None:
    hub = hub_with([point_to("动物")])
    await hub.keyword("动物")

    await hub.keywords.create(ANN, NewKeyword("Crane", aliases=["鹤"], description="一种动物"))

    shown = hub.chat.read_prompt()
    assert (shown["query"], shown["aliases"], shown["description"]) == ("Crane", ["鹤"], "一种动物")


async def test_a_retry_is_answered_even_if_its_alias_is_now_taken() -> None:
    hub = hub_with([])
    first = await hub.keywords.create(ANN, NewKeyword("Python", aliases=["py"]), KEY)
    await hub.keyword("PY")

    again = await hub.keywords.create(ANN, NewKeyword("Python", aliases=["py"]), KEY)

    assert again == first


# a model judges namesakes


def dedup_answer(action: str) -> dict[str, object]:
    return {"action": action, "node_id": 1, "reason": "the same"}


async def create_with_dedup(hub: TreeHub, name: str, **fields: Any) -> SavedRow:  # noqa: ANN401 -- any field
    return await hub.keywords.create(ANN, NewKeyword(name, **fields), auto_place=False, dedup_check=True)


async def test_a_keyword_that_is_another_spelling_becomes_an_alias() -> None:
    hub = hub_with([dedup_answer("alias_of")])
    there = await hub.keyword("Node.js")

    answered = await create_with_dedup(hub, "NodeJS")

    assert (answered.record["id"], answered.record["aliases"]) == (there, ["NodeJS"])
    assert answered.decided == {"dedup": "alias_of", "into": there}
    operation = await hub.last()
    assert operation.op == "update_keyword"
    assert [call["function"] for call in operation.agent_io or ()] == ["dedup_check"]


async def test_a_duplicate_adds_missing_fields_to_the_existing_keyword() -> None:
    hub = hub_with([dedup_answer("merge")])
    there = await hub.keyword("Python", aliases=["py"])

    more = {"aliases": ["PY", "Python 3"], "description": "a language", "metadata": {"a": 1}}
    answered = await create_with_dedup(hub, "python", **more)

    row = answered.record
    assert (row["id"], row["aliases"], row["description"]) == (there, ["py", "Python 3"], "a language")
    assert (row["metadata"], answered.decided) == ({"a": 1}, {"dedup": "merge", "into": there})


async def test_a_duplicate_without_new_data_logs_only_the_decision() -> None:
    hub = hub_with([dedup_answer("alias_of")])
    there = await hub.keyword("Python")

    answered = await create_with_dedup(hub, "Python")

    assert (answered.record["id"], answered.record["version"], answered.operation_id) == (there, 1, None)
    operation = await hub.last()
    assert (operation.op, operation.changes, len(operation.agent_io or ())) == ("agent_decision", [], 1)


@pytest.mark.parametrize("answers", [[FAILED], None], ids=["a failure", "no model"])
async def test_a_failed_dedup_creates_the_keyword_and_is_reported(answers: list[object] | None) -> None:
    hub = hub_with(answers)
    await hub.keyword("Apple")

    answered = await create_with_dedup(hub, "apple")

    assert (answered.decided, answered.degraded) == ({"dedup": "create_new"}, ["llm"])
    assert answered.operation_id is not None


async def test_a_duplicate_is_not_merged_into_a_foreign_keyword() -> None:
    hub = hub_with([dedup_answer("merge")])
    theirs = await hub.keyword("Apple", ctx=BOB)

    answered = await create_with_dedup(hub, "apple", description="fruit")

    assert (answered.record["id"] != theirs, answered.decided) == (True, {"dedup": "create_new"})
    assert orjson.loads((await hub.keywords.get(ANN, theirs)).json)["description"] == ""


async def test_no_dedup_call_without_a_visible_namesake() -> None:
    hub = hub_with([dedup_answer("merge")])
    await hub.keyword("Apple", ctx=BOB, scopes=["user:owner"])

    answered = await create_with_dedup(hub, "apple")

    assert (hub.chat.questions, answered.decided) == ([], {})
