"""What a model adds over HTTP: a walk, a choice, a place, a double that is found; and what its failure leaves."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from knowhub.core.language_models import ChatRequest
from tests.fakes.scripted_chat import Answer, ScriptedChat, ambiguous, jump_to, match, missing
from tests.web.trees import info, keyword, names

pytestmark = pytest.mark.anyio


class Reading(ScriptedChat):
    """Reads its script as it is when it is asked."""

    def __init__(self, script: list[Answer]) -> None:
        super().__init__()
        self._answers = script


@pytest.fixture
def model(script: list[Answer]) -> ScriptedChat:
    return Reading(script)


def deciding(action: str, idx: int) -> Answer:
    def answer(question: ChatRequest) -> Mapping[str, Any]:
        assert question.function == "dedup_check"
        return {"action": action, "node_id": idx, "reason": "the same"}

    return answer


async def search(api: httpx.AsyncClient, q: str, **params: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await api.get("/api/keywords/search", params={"q": q} | params)).json()
    return answer


async def test_a_question_is_answered_by_a_walk_down_the_tree(
    api: httpx.AsyncClient, script: list[Answer], model: ScriptedChat
) -> None:
    languages = await keyword(api, "编程语言")
    python = await keyword(api, "Python", languages["id"])
    await info(api, "GIL", python["id"])
    script += [jump_to("编程语言"), match("Python", reason="the snake")]

    found = await search(api, "那门用缩进的语言")

    assert (found["status"], found["node"]["id"], found["reason"]) == ("matched", python["id"], "the snake")
    assert [one["name"] for one in found["path"]] == ["root", "编程语言", "Python"]
    assert [one["content"] for one in found["infos"]] == ["GIL"]
    assert (found["degraded"], len(model.questions)) == ([], 2)


async def test_a_model_may_be_undecided_or_find_nothing(api: httpx.AsyncClient, script: list[Answer]) -> None:
    fruit, company = await keyword(api, "苹果 (fruit)"), await keyword(api, "苹果 (company)")
    script += [ambiguous(fruit["name"], company["name"]), missing("香蕉")]

    either = await search(api, "那个被咬了一口的")
    neither = await search(api, "那根弯弯的")

    assert (either["status"], len(either["candidates"])) == ("ambiguous", 2)
    assert (neither["status"], neither["suggested_parent_id"], neither["suggested_name"]) == (
        "not_found",
        "root",
        "香蕉",
    )


@pytest.mark.parametrize(
    ("failure", "reason"), [(ValueError("garbage"), "agent_failure"), (TimeoutError(), "agent_timeout")]
)
async def test_a_search_survives_the_model(
    api: httpx.AsyncClient, script: list[Answer], failure: Exception, reason: str
) -> None:
    shown = await keyword(api, "Python")
    script.append(failure)

    found = await search(api, "which language has a GIL")

    assert (found["status"], found["reason"], found["degraded"]) == ("not_found", reason, ["llm"])
    assert [one["id"] for one in found["candidates"]] == [shown["id"]]


async def test_a_keyword_finds_its_own_parent(api: httpx.AsyncClient, script: list[Answer]) -> None:
    languages = await keyword(api, "编程语言")
    script.append(match("编程语言"))

    made = (await api.post("/api/keywords", json={"name": "Rust"})).json()

    assert (made["parent_id"], made["degraded"]) == (languages["id"], [])
    assert made["decided"]["placed"] == "suggested"


async def test_a_keyword_is_created_though_the_model_fails(api: httpx.AsyncClient, script: list[Answer]) -> None:
    await keyword(api, "编程语言")
    script.append(ValueError("garbage"))

    response = await api.post("/api/keywords", json={"name": "Rust"})

    assert (response.status_code, response.json()["parent_id"], response.json()["degraded"]) == (201, "root", ["llm"])


@pytest.mark.parametrize("body", [{"parent_id": "root"}, {"llm_auto_place": False}])
async def test_a_model_is_not_asked_where_the_place_is_known(
    api: httpx.AsyncClient, model: ScriptedChat, body: dict[str, Any]
) -> None:
    response = await api.post("/api/keywords", json={"name": "Rust"} | body)

    assert (response.status_code, model.questions) == (201, [])


@pytest.mark.parametrize("action", ["alias_of", "merge"])
async def test_a_double_is_answered_with_the_keyword_that_stands_and_again_to_the_same_key(
    api: httpx.AsyncClient, script: list[Answer], model: ScriptedChat, action: str
) -> None:
    python = await keyword(api, "Python")
    script.append(deciding(action, 1))
    body = {"name": "PYTHON", "aliases": ["蟒蛇"], "llm_dedup_check": True}

    response = await api.post("/api/keywords", json=body, headers={"Idempotency-Key": "k"})
    asked = len(model.questions)
    script.append(deciding(action, 1))
    again = await api.post("/api/keywords", json=body, headers={"Idempotency-Key": "k"})

    told = response.json()
    assert (response.status_code, told["id"], told["decided"]["dedup"]) == (200, python["id"], action)
    assert response.headers["location"] == f"/api/keywords/{python['id']}"
    assert (again.status_code, again.json(), asked) == (200, told, 1)
    assert await names(api, "/api/keywords/root/children") == ["Python"]


async def test_a_namesake_that_is_another_thing_is_created(api: httpx.AsyncClient, script: list[Answer]) -> None:
    await keyword(api, "苹果")
    script += [deciding("create_new", 1)]

    response = await api.post("/api/keywords", json={"name": "苹果", "parent_id": "root", "llm_dedup_check": True})

    assert (response.status_code, response.json()["decided"]["dedup"]) == (201, "create_new")
    assert await names(api, "/api/keywords/root/children") == ["苹果", "苹果"]


async def test_several_of_one_name_are_told_apart_where_that_is_asked_for(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    made = [await keyword(api, "苹果", (await keyword(api, top))["id"]) for top in ("水果", "公司")]
    script.append(lambda _: {"action": "match", "node_id": 2, "reason": "the phone"})

    found = await search(api, "苹果", llm_disambiguate="true")

    assert (found["status"], found["node"]["id"], found["reason"]) == ("matched", made[1]["id"], "disambiguated")


async def test_infos_are_linked_to_all_that_they_name_when_the_model_fails(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    await keyword(api, "Python")
    script.append(TimeoutError())

    made = await info(api, "Python 3.13", auto_link=True)

    assert (made["degraded"], [one["relation"] for one in made["decided"]["linked"]]) == (["llm"], ["RELATED"])


async def test_a_plan_of_rules_stands_when_the_model_fails(api: httpx.AsyncClient, script: list[Answer]) -> None:
    first, second = await keyword(api, "日志", description="kept"), await keyword(api, "日志")
    script.append(ValueError("garbage"))

    plan = (await api.post("/api/keywords/reorganize", json={})).json()

    assert plan["degraded"] == ["llm"]
    assert [(one["source"]["id"], one["into"]["id"]) for one in plan["steps"]] == [(second["id"], first["id"])]
