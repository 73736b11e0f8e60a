"""Creating keywords: what is refused, and what a model may decide."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import pytest

from knowhub.core.errors import Conflict, InvalidInput
from knowhub.core.language_models import ChatFailed, FailureReason
from knowhub.core.operation import IdempotencyKey, View
from knowhub.core.owned_rows import SavedRow
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import RecentMatchesByReader
from knowhub.keywords.model import (
    ROOT_ID,
    NewKeyword,
    Node,
    TreeOptions,
)
from knowhub.keywords.search.agent import DedupDecision, KeywordAgent
from knowhub.keywords.search.descent import DescentResult, ViewOf
from knowhub.keywords.search.prompts import Goal, Intent
from knowhub.keywords.service import DeleteOptions, KeywordService
from knowhub.keywords.tree import BY_TOKEN
from tests.builders import CountedIds, FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.queued_chat import QueuedChat, point_to
from tests.keyword_verbs import (
    ANN,
    BOB,
    create_keyword,
    get_last_operation,
    list_child_names,
    list_op_names,
    read_keyword,
    service_on,
    service_with,
)

pytestmark = pytest.mark.anyio

FAILED = ChatFailed(FailureReason.TIMEOUT, "too late")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock(), CountedIds())


@pytest.fixture
def service(store: MemoryStore) -> KeywordService:
    return service_on(store)


def retry_key(body: str = "b-1") -> IdempotencyKey:
    return IdempotencyKey(principal="user:ann", method="POST", path="/api/keywords", key="k-1", body=body)


# create


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
async def test_a_failing_model_places_the_keyword_at_its_last_position(
    store: MemoryStore, answer: object, reason: str
) -> None:
    others = service_on(store)
    top = await create_keyword(others, "技术")
    languages = await create_keyword(others, "编程语言", parent_id=top)
    await create_keyword(others, "Python", parent_id=languages)
    way = [point_to("技术", "jump"), point_to("编程语言", "jump"), answer]
    options = TreeOptions(uncategorized_name="未分类")

    agent = KeywordAgent(QueuedChat(way), RecentMatchesByReader(), options)
    goal = Goal("Rust", Intent.SUGGEST_PARENT)
    suggested = await agent.descend(ANN, lambda: store.view("default"), goal, 5.0)
    created = await service_on(store, QueuedChat(way), options).create(ANN, NewKeyword("Rust"))

    assert (created.record["parent_id"], suggested.parent_id) == (languages, languages)
    assert created.degraded == ["llm"]
    assert created.decided == {"placed": "suggested", "parent_id": languages, "reason": reason}
    assert len((await get_last_operation(store)).agent_io or ()) == 3


async def test_a_failed_model_is_not_asked_again_if_its_parent_is_deleted(store: MemoryStore) -> None:
    others = service_on(store)
    top = await create_keyword(others, "技术")
    await create_keyword(others, "编程语言", parent_id=top)

    agent = InterruptedAgent(
        [point_to("技术", "jump"), FAILED, FAILED], lambda: others.delete(ANN, top, DeleteOptions(cascade=True))
    )
    created = await service_with(store, agent).create(ANN, NewKeyword("Rust"))

    assert created.record["parent_id"] == ROOT_ID
    assert created.decided == {"placed": "root", "parent_id": ROOT_ID, "reason": "the suggested parent is gone"}
    assert (created.degraded, len(agent.chat.questions)) == (["llm"], 2)


async def test_invalid_keywords_are_refused_before_the_model_call(store: MemoryStore) -> None:
    chat = QueuedChat([point_to("top")])
    service = service_on(store, chat)
    await create_keyword(service, "top")

    with pytest.raises(Conflict):
        await service.create(ANN, NewKeyword("x", aliases=["TOP"]))
    with pytest.raises(InvalidInput):
        await service.create(ANN, NewKeyword("!"))

    assert chat.questions == []


class InterruptedAgent(KeywordAgent):
    """Runs `meddle` between each answer of the model and its use."""

    def __init__(self, answers: Iterable[object], meddle: Callable[[], Awaitable[object]]) -> None:
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


async def test_a_parent_deleted_during_the_call_is_asked_for_again(store: MemoryStore) -> None:
    others = service_on(store)
    first, second = await create_keyword(others, "first"), await create_keyword(others, "second")

    async def drop_first() -> None:
        if store.view("default").lookup(BY_TOKEN, "first"):
            await others.delete(ANN, first)

    agent = InterruptedAgent([point_to("first"), point_to("second")], drop_first)
    created = await service_with(store, agent).create(ANN, NewKeyword("x"))

    assert (created.record["parent_id"], created.decided["placed"]) == (second, "suggested")
    assert len((await get_last_operation(store)).agent_io or ()) == 2


async def test_a_namesake_deleted_during_the_call_is_no_merge_target(store: MemoryStore) -> None:
    others = service_on(store)
    there = await create_keyword(others, "Apple")
    agent = InterruptedAgent([dedup_answer("merge")], lambda: others.delete(ANN, there))

    created = await service_with(store, agent).create(ANN, NewKeyword("apple"), auto_place=False, dedup_check=True)

    assert (created.record["name"], created.decided) == ("apple", {"dedup": "create_new"})
    assert len((await get_last_operation(store)).agent_io or ()) == 1


async def test_uncategorised_is_created_once_for_unplaced_keywords(store: MemoryStore) -> None:
    options = TreeOptions(uncategorized_name="未分类")
    service = service_on(store, QueuedChat([{"action": "missing", "reason": "none"}] * 2), options)
    await create_keyword(service, "top")

    first = await service.create(ANN, NewKeyword("x"))
    operation = await get_last_operation(store)
    second = await service.create(ANN, NewKeyword("y"))

    home = first.record["parent_id"]
    assert [change.after["name"] for change in operation.changes] == ["未分类", "x"]
    assert first.decided == {"placed": "uncategorized", "parent_id": home, "reason": "none"}
    assert (first.record["name"], first.record["level"], second.record["parent_id"]) == ("x", 2, home)
    assert await list_child_names(service) == ["top", "未分类"]


async def test_the_placement_prompt_has_aliases_and_description(store: MemoryStore) -> None:
    await create_keyword(service_on(store), "动物")
    chat = QueuedChat([point_to("动物")])

    await service_on(store, chat).create(ANN, NewKeyword("Crane", aliases=["鹤"], description="一种动物"))

    shown = chat.read_prompt()
    assert (shown["query"], shown["aliases"], shown["description"]) == ("Crane", ["鹤"], "一种动物")


async def test_a_retry_is_answered_even_if_its_alias_is_now_taken(store: MemoryStore) -> None:
    service = service_on(store, QueuedChat())
    first = await service.create(ANN, NewKeyword("Python", aliases=["py"]), retry_key())
    await create_keyword(service, "PY", parent_id=ROOT_ID)

    again = await service.create(ANN, NewKeyword("Python", aliases=["py"]), retry_key())

    assert again == first


# a model judges namesakes


def dedup_answer(action: str, **fields: object) -> dict[str, object]:
    return {"action": action, "node_id": 1, "reason": "the same"} | fields


async def create_with_dedup(store: MemoryStore, answer: object, new: NewKeyword, ctx: RequestContext = ANN) -> SavedRow:
    return await service_on(store, QueuedChat([answer])).create(ctx, new, auto_place=False, dedup_check=True)


async def test_a_keyword_that_is_another_spelling_becomes_an_alias(store: MemoryStore) -> None:
    there = await create_keyword(service_on(store), "Node.js")

    answered = await create_with_dedup(store, dedup_answer("alias_of"), NewKeyword("NodeJS"))

    assert (answered.record["id"], answered.record["aliases"]) == (there, ["NodeJS"])
    assert answered.decided == {"dedup": "alias_of", "into": there}
    assert await list_op_names(store) == ["create_root", "create_keyword", "update_keyword"]
    assert [call["function"] for call in (await get_last_operation(store)).agent_io or ()] == ["dedup_check"]


async def test_a_duplicate_adds_missing_fields_to_the_existing_keyword(store: MemoryStore) -> None:
    there = await create_keyword(service_on(store), "Python", aliases=["py"])

    new = NewKeyword("python", aliases=["PY", "Python 3"], description="a language", metadata={"a": 1})
    answered = await create_with_dedup(store, dedup_answer("merge"), new)

    row = answered.record
    assert (row["id"], row["aliases"], row["description"]) == (there, ["py", "Python 3"], "a language")
    assert (row["metadata"], answered.decided) == ({"a": 1}, {"dedup": "merge", "into": there})


async def test_a_duplicate_without_new_data_logs_only_the_decision(store: MemoryStore) -> None:
    there = await create_keyword(service_on(store), "Python")

    answered = await create_with_dedup(store, dedup_answer("alias_of"), NewKeyword("Python"))

    assert (answered.record["id"], answered.record["version"], answered.operation_id) == (there, 1, None)
    operation = await get_last_operation(store)
    assert (operation.op, operation.changes, len(operation.agent_io or ())) == ("agent_decision", [], 1)


async def test_a_failed_dedup_creates_the_keyword_and_is_reported(store: MemoryStore) -> None:
    await create_keyword(service_on(store), "Apple")

    failed = await create_with_dedup(store, FAILED, NewKeyword("apple"))
    unasked = await service_on(store).create(ANN, NewKeyword("APPLE"), dedup_check=True)

    for answered in (failed, unasked):
        assert (answered.decided, answered.degraded) == ({"dedup": "create_new"}, ["llm"])
        assert answered.operation_id is not None


async def test_a_duplicate_is_not_merged_into_a_foreign_keyword(store: MemoryStore) -> None:
    theirs = await create_keyword(service_on(store), "Apple", BOB)

    answered = await create_with_dedup(store, dedup_answer("merge"), NewKeyword("apple", description="fruit"))

    assert (answered.record["id"] != theirs, answered.decided) == (True, {"dedup": "create_new"})
    assert (await read_keyword(service_on(store), theirs))["description"] == ""


async def test_no_dedup_call_without_a_visible_namesake(store: MemoryStore) -> None:
    chat = QueuedChat([dedup_answer("merge")])
    service = service_on(store, chat)
    await create_keyword(service, "Apple", BOB, scopes=["user:owner"])

    answered = await service.create(ANN, NewKeyword("apple"), auto_place=False, dedup_check=True)

    assert (chat.questions, answered.decided) == ([], {})
