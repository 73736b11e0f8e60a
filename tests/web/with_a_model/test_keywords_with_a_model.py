"""What a model adds over HTTP: a walk, a choice, a place, a double that is found; and what its failure leaves."""

from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import pytest

from knowhub.core.language_models import ChatRequest
from tests.fakes.queued_chat import Answer, QueuedChat, point_to, point_to_all
from tests.web.trees import create_info, create_keyword, list_names

pytestmark = pytest.mark.anyio


def missing(name: str) -> Answer:
    """Say that there is no such keyword, and suggest this name for it."""
    return {"action": "missing", "suggest_name": name, "reason": ""}


def answer_dedup_check(action: str, idx: int) -> Answer:
    def answer(question: ChatRequest) -> Mapping[str, Any]:
        assert question.function == "dedup_check"
        return {"action": action, "node_id": idx, "reason": "the same"}

    return answer


async def search(api: httpx.AsyncClient, q: str, **params: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await api.get("/api/keywords/search", params={"q": q} | params)).json()
    return answer


async def test_a_model_may_answer_ambiguous_or_not_found(api: httpx.AsyncClient, script: list[Answer]) -> None:
    fruit, company = await create_keyword(api, "苹果 (fruit)"), await create_keyword(api, "苹果 (company)")
    names = [fruit["name"], company["name"]]
    script += [point_to_all(names, "ambiguous", "candidate_ids"), missing("香蕉")]

    either = await search(api, "那个被咬了一口的")
    neither = await search(api, "那根弯弯的")

    assert (either["status"], len(either["candidates"])) == ("ambiguous", 2)
    assert (neither["status"], neither["suggested_parent_id"], neither["suggested_name"]) == (
        "not_found",
        "root",
        "香蕉",
    )


@pytest.mark.parametrize("body", [{"parent_id": "root"}, {"llm_auto_place": False}])
async def test_a_model_is_not_asked_if_the_parent_is_given(
    api: httpx.AsyncClient, model: QueuedChat, body: dict[str, Any]
) -> None:
    response = await api.post("/api/keywords", json={"name": "Rust"} | body)

    assert (response.status_code, model.questions) == (201, [])


@pytest.mark.parametrize("action", ["alias_of", "merge"])
async def test_a_duplicate_gets_the_existing_keyword_and_so_does_its_retry(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat, action: str
) -> None:
    python = await create_keyword(api, "Python")
    script.append(answer_dedup_check(action, 1))
    body = {"name": "PYTHON", "aliases": ["蟒蛇"], "llm_dedup_check": True}

    response = await api.post("/api/keywords", json=body, headers={"Idempotency-Key": "k"})
    asked = len(model.questions)
    script.append(answer_dedup_check(action, 1))
    again = await api.post("/api/keywords", json=body, headers={"Idempotency-Key": "k"})

    answer = response.json()
    assert (response.status_code, answer["id"], answer["decided"]["dedup"]) == (200, python["id"], action)
    assert response.headers["location"] == f"/api/keywords/{python['id']}"
    assert (again.status_code, again.json(), asked) == (200, answer, 1)
    assert await list_names(api, "/api/keywords/root/children") == ["Python"]


async def test_a_keyword_of_equal_name_but_other_meaning_is_created(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    await create_keyword(api, "苹果")
    script += [answer_dedup_check("create_new", 1)]

    response = await api.post("/api/keywords", json={"name": "苹果", "parent_id": "root", "llm_dedup_check": True})

    assert (response.status_code, response.json()["decided"]["dedup"]) == (201, "create_new")
    assert await list_names(api, "/api/keywords/root/children") == ["苹果", "苹果"]


async def test_a_model_disambiguates_keywords_of_one_name_on_request(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    made = [await create_keyword(api, "苹果", (await create_keyword(api, top))["id"]) for top in ("水果", "公司")]
    script.append(lambda _: {"action": "match", "node_id": 2, "reason": "the phone"})

    found = await search(api, "苹果", llm_disambiguate="true")

    assert (found["status"], found["node"]["id"], found["reason"]) == ("matched", made[1]["id"], "disambiguated")


async def test_infos_link_to_every_named_keyword_if_the_model_fails(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    await create_keyword(api, "Python")
    script.append(TimeoutError())

    made = await create_info(api, "Python 3.13", auto_link=True)

    assert (made["degraded"], [item["relation"] for item in made["decided"]["linked"]]) == (["llm"], ["RELATED"])


async def test_an_answer_and_its_retry_count_links_to_what_the_model_was_not_shown(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    await create_keyword(api, "Python")
    pointers = [1, 99, "Go", None]
    script.append(lambda _: {"links": [{"keyword_id": pointer} for pointer in pointers]})
    body, key = {"content": "Python 3.13", "auto_link": True}, {"Idempotency-Key": "k"}

    made, again = [(await api.post("/api/infos", json=body, headers=key)).json() for _ in range(2)]

    assert [item["relation"] for item in made["decided"]["linked"]] == ["RELATED"]
    assert (made["degraded"], made["dropped"]) == ([], [{"what": "links", "why": "not_shown", "count": 2}])
    assert again == made


async def test_a_plan_by_rules_is_returned_if_the_model_fails(api: httpx.AsyncClient, script: list[Answer]) -> None:
    first, second = await create_keyword(api, "日志", aliases=["log"]), await create_keyword(api, "Log")
    script.append(ValueError("garbage"))

    plan = (await api.post("/api/keywords/reorganize", json={})).json()

    assert plan["degraded"] == ["llm"]
    assert [(step["source"]["id"], step["into"]["id"]) for step in plan["steps"]] == [(second["id"], first["id"])]


async def wait_for_missed(api: httpx.AsyncClient, count: int, **params: str) -> list[dict[str, Any]]:
    """Wait until the queue has `count` rows, which are written after the answer, and return them."""
    rows: list[dict[str, Any]] = []
    for _ in range(200):
        rows = (await api.get("/api/keywords/missed", params=params)).json()["results"]
        if len(rows) == count:
            break
        await anyio.sleep(0.01)
    return rows


async def test_a_missed_query_is_queued_until_it_is_accepted(api: httpx.AsyncClient, script: list[Answer]) -> None:
    fruit = await create_keyword(api, "水果")
    await create_keyword(api, "苹果", fruit["id"])
    script += [point_to("水果", "jump"), missing("香蕉")]
    await search(api, "那根弯弯的")

    (row,) = await wait_for_missed(api, 1)
    assert (row["query"], row["suggested_parent_id"], row["suggested_name"], row["count"]) == (
        "那根弯弯的",
        fruit["id"],
        "香蕉",
        1,
    )
    accepted = await api.post("/api/keywords/missed", json={"id": row["id"]})

    assert (accepted.status_code, accepted.json()["name"], accepted.json()["parent_id"]) == (201, "香蕉", fruit["id"])
    assert (await search(api, "那根弯弯的"))["node"]["id"] == accepted.json()["id"]
    assert await wait_for_missed(api, 0) == []
    await api.post(f"/api/operations/{accepted.json()['operation_id']}/undo", json={})
    assert [item["id"] for item in await wait_for_missed(api, 1)] == [row["id"]]
    assert [item["op"] for item in (await api.get("/api/operations")).json()["results"]].count(
        "note_missed_keyword"
    ) == 0


async def test_a_missed_query_can_be_placed_elsewhere_or_dismissed(
    api: httpx.AsyncClient, script: list[Answer]
) -> None:
    await create_keyword(api, "水果")
    script += [missing("香蕉"), missing("梨"), missing("梨"), missing("梨")]
    await search(api, "那根弯弯的")
    await wait_for_missed(api, 1)
    await search(api, "那个有核的", user_id="li")
    both = await wait_for_missed(api, 2)

    assert [row["query"] for row in both] == ["那个有核的", "那根弯弯的"]
    dismissed = await api.delete("/api/keywords/missed", params={"id": both[0]["id"]})
    assert (dismissed.status_code, len(await wait_for_missed(api, 1))) == (200, 1)
    await search(api, "那个有核的", user_id="li")
    elsewhere = await api.post(
        "/api/keywords/missed", json={"id": both[1]["id"], "name": "Banana", "parent_id": "水果"}
    )
    assert (elsewhere.json()["name"], elsewhere.json()["aliases"]) == ("Banana", ["那根弯弯的"])
    assert await wait_for_missed(api, 0) == []
    assert (await api.delete("/api/keywords/missed", params={"id": both[0]["id"]})).status_code == 404


async def test_a_failed_walk_is_no_missed_query(api: httpx.AsyncClient, script: list[Answer]) -> None:
    await create_keyword(api, "水果")
    script += [TimeoutError(), missing("梨")]
    await search(api, "failed")
    await search(api, "found nothing")

    assert [row["query"] for row in await wait_for_missed(api, 1)] == ["found nothing"]
