"""A real server that finds records through a model behind HTTP: what it sends, and what failures leave of a search."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.scripted_llm import ScriptedLLM, Step
from tests.e2e.server_process import WAIT_S, Server, run_server

pytestmark = pytest.mark.anyio

BUDGET_S = 1.5
SLACK_S = 2.0
TASKS = ("登录 网站", "request limits", "the color of walls", "wait for elements", "wait for pages")


@pytest.fixture(scope="module")
def server(llm: ScriptedLLM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    variables = {
        "KNOWHUB_LLM_BASE_URL": llm.url,
        "KNOWHUB_LLM_BREAKER_FAILURES": "0",
        "KNOWHUB_LLM_BUDGET_S": str(BUDGET_S),
    }
    with run_server(tmp_path_factory.mktemp("routing") / "data", **variables) as running:
        with httpx.Client(base_url=running.url, timeout=WAIT_S, trust_env=False) as http:
            for task in TASKS:
                body = {"task": task, "content": f"never told: {task}", "types": ["tool", "plan"]}
                http.post("/api/knowledge", json=body).raise_for_status()
        yield running


async def search(server: Server, llm: ScriptedLLM, *steps: Step, **params: str | int) -> dict[str, Any]:
    await llm.script(*steps)
    asked = {"q": "how to sign in", "top_k": 1, "order": "relevance", **params}
    async with httpx.AsyncClient(base_url=server.url, timeout=WAIT_S, trust_env=False) as http:
        response = await http.get("/api/knowledge/search", params=asked)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def tasks(answer: dict[str, Any]) -> list[str]:
    return [record["task"] for record in answer["results"]]


async def test_a_question_finds_records_by_meaning_without_shared_words(server: Server, llm: ScriptedLLM) -> None:
    found = await search(server, llm, {"pick": ["登录"]})

    assert (tasks(found), found["degraded"]) == (["登录 网站"], [])


async def test_the_model_gets_id_types_and_task_but_no_content(server: Server, llm: ScriptedLLM) -> None:
    before = len(await llm.requests())

    await search(server, llm, {"pick": []})

    body = (await llm.requests())[before]["body"]
    data = json.loads(body["messages"][-1]["content"].split("\n")[1])
    assert sorted(candidate["task"] for candidate in data["candidates"]) == sorted(TASKS)
    assert {frozenset(candidate) for candidate in data["candidates"]} == {frozenset({"id", "types", "task"})}
    assert "never told" not in json.dumps(body)


@pytest.mark.parametrize(
    "steps",
    [
        [{"answer": {"ids": ["knowledge-20260305-none"]}}],
        [{"garbage": True}, {"garbage": True}],
        [{"other_schema": True}, {"other_schema": True}],
        [{"late": 30}],
        [{"slow_drip": 5}],
        [{"status": 401}],
        [{"status": 429, "retry_after": 60}],
        [{"status": 500}] * 3,
        [{"close": True}] * 3,
    ],
)
async def test_the_search_falls_back_to_recall_within_the_budget(
    server: Server, llm: ScriptedLLM, steps: list[Step]
) -> None:
    started = time.monotonic()

    found = await search(server, llm, *steps, q="wait for elements", top_k=2)

    assert time.monotonic() - started < BUDGET_S + SLACK_S
    assert (tasks(found), found["degraded"]) == (["wait for elements", "wait for pages"], ["llm"])


async def test_the_model_is_not_asked_if_top_k_covers_all_records(server: Server, llm: ScriptedLLM) -> None:
    before = len(await llm.requests())

    found = await search(server, llm, q="wait login color limits 登录 request", top_k=5)

    assert (len(found["results"]), len(await llm.requests()) - before) == (5, 0)
