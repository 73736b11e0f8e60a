"""A model that finds nothing, fails or answers garbage takes no candidate away, and adds none."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowhub.core.language_models import ChatFailed, ChatRequest, FailureReason
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.fakes.queued_chat import QueuedChat
from tests.web.conftest import open_server
from tests.web.trees import create_keyword

pytestmark = pytest.mark.anyio

TREE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "编程语言": [
        ("Python", {"aliases": ["蟒蛇语言"], "description": "a language with significant indentation"}),
        ("Java", {"description": "runs on a virtual machine"}),
        ("JavaScript", {"aliases": ["JS"]}),
        ("面向对象编程", {"description": "类与对象"}),
    ],
    "数据库": [
        ("PostgreSQL", {"aliases": ["pg"]}),
        ("Redis 缓存", {"description": "keeps values in memory"}),
        ("事务隔离级别", {"description": "并发事务能看到什么"}),
    ],
    "Web": [("nginx server", {"aliases": ["reverse proxy"]}), ("web design", {}), ("快速排序算法", {})],
    "目的地": [("Java", {"description": "an island of Indonesia"}), ("苹果", {}), ("Emergencies at sea", {})],
    "公司": [("苹果", {"description": "makes phones"}), ("自动化", {})],
}

QUERIES = {
    "typos": ["Pyton", "javascrpt", "postgersql", "ngnix", "redsi", "快速排续算法"],
    "parts of names": ["nginx", "design", "script", "emergencies", "快速排序", "面向对象", "隔离级别"],
    "pinyin": ["zdh", "bcyy", "shujuku", "pingguo", "zdhua"],
    "Chinese": ["冒泡排序怎么写", "数据库事务是什么", "那门用缩进的语言", "缓存放在哪里", "学编程"],
    "two words": ["web server", "python java", "redis 事务", "design patterns", "proxy server setup"],
    "homonyms": ["苹果", "Java", "苹果 手机", "java island", "目的地/Java"],
    "nothing near": ["quantum chromodynamics", "烹饪", "xyzzy", "🦀"],
}


def answer(data: object) -> Callable[[ChatRequest], object]:
    return lambda _question: data


def fail(failure: Exception) -> Callable[[ChatRequest], object]:
    def ask(_question: ChatRequest) -> object:
        raise failure

    return ask


MODELS = {
    "says missing": answer({"action": "missing", "suggest_name": "something", "reason": "no such keyword"}),
    "wants more and more": answer({"action": "more"}),
    "is late": fail(TimeoutError()),
    "is down": fail(ChatFailed(FailureReason.FAILURE, "status 500")),
    "breaks": fail(KeyError("bug")),
    "answers no object": answer([1, 2]),
    "answers nothing": answer({}),
    "answers an unknown action": answer({"action": "fly", "node_id": 1}),
    "matches a stranger": answer({"action": "match", "node_id": 9_999}),
    "jumps to a stranger": answer({"action": "jump", "node_ids": ["no-such-id", True]}),
    "doubts between strangers": answer({"action": "ambiguous", "candidate_ids": [0, -1, None]}),
    "matches the root": answer({"action": "match", "node_id": "root"}),
}


class SingleAnswerChat(QueuedChat):
    """A model that always gives the same answer."""

    def __init__(self, data: Callable[[ChatRequest], object]) -> None:
        super().__init__(iter(lambda: data, None))


async def list_answers(api: httpx.AsyncClient) -> dict[str, Any]:
    """Return what a search answers by its query: status, ids of candidates, and the id of the keyword found."""
    answers = {}
    for query in (query for queries in QUERIES.values() for query in queries):
        found = (await api.get("/api/keywords/search", params={"q": query})).json()
        assert {*found["degraded"]} <= {"llm"}, found
        ids = [row["id"] for row in found["candidates"]]
        answers[query] = (found["status"], ids, found["node"] and found["node"]["id"])
    return answers


@pytest.fixture
def overrides() -> Overrides:
    """Return what makes the first server one without a model."""
    return Overrides()


async def test_a_model_that_finds_nothing_leaves_the_candidates_as_they_are(
    api: httpx.AsyncClient, settings: Settings
) -> None:
    for name, below in TREE.items():
        top = await create_keyword(api, name)
        for child, fields in below:
            await create_keyword(api, child, top["id"], **fields)
    expected = await list_answers(api)
    asked = {query for query, (status, _, _) in expected.items() if status == "not_found"}
    assert (len(expected), len(asked) > 25) == (37, True)
    assert {bool(expected[query][1]) for query in asked} == {True, False}

    for what, data in MODELS.items():
        chat = SingleAnswerChat(data)
        async with open_server(settings, Overrides(llm=chat)) as client:
            assert await list_answers(client) == expected, what
        assert len(chat.questions) >= len(asked), what
