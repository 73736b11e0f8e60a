"""A search with a budget of tokens: whole records while they fit, and never nothing where something was found."""

from typing import Any

import httpx
import pytest

from knowhub.knowledge.search.retrieval import estimate_tokens
from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio


async def search(api: httpx.AsyncClient, **params: str | int) -> dict[str, Any]:
    answer: dict[str, Any] = (await api.get("/api/knowledge/search", params={"q": "wait", **params})).json()
    return answer


def count_tokens(answer: dict[str, Any]) -> int:
    return sum(estimate_tokens(result["task"]) + estimate_tokens(result["content"]) for result in answer["results"])


@pytest.mark.parametrize("budget", [1, 5, 30, 100, 400, 100_000])
async def test_the_texts_of_all_results_together_keep_to_the_budget(
    api: httpx.AsyncClient, save_record: SaveRecord, budget: int
) -> None:
    for number in range(8):
        await save_record(f"wait {'等待元素的出现。' * (number * 3 + 1)}", task=f"task {number}")

    answer = await search(api, top_k=8, budget_tokens=budget)

    assert answer["results"]
    assert answer["tokens"] == count_tokens(answer) <= budget
    assert (len(answer["results"]) == 8) == (budget == 100_000)


async def test_the_best_records_are_kept_whole_in_any_order(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("wait " + "mine " * 20, user_id="li", score=3)
    await save_record("team " * 20, task="wait", scopes=["team:web"], owner="user:chen")

    answer = await search(api, user_id="li", team_id="web", budget_tokens=30)

    assert [result["owner"] for result in answer["results"]] == ["user:chen"]
    assert [result["truncated"] for result in answer["results"]] == [False]


async def test_a_record_over_the_budget_is_replaced_by_the_next(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record("wait wait wait")
    long = await save_record("wait wait " + "long " * 200)
    await save_record("wait at last")

    answer = await search(api, budget_tokens=20, explain="true")

    assert [result["content"] for result in answer["results"]] == ["wait wait wait", "wait at last"]
    assert answer["explanation"]["filtered"] == [{"id": long["id"], "rule": "over_budget"}]


async def test_the_best_record_is_cut_if_it_alone_exceeds_the_budget(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait " + "等待元素的出现。" * 100, task="登录网站")

    answer = await search(api, budget_tokens=50)

    result = answer["results"][0]
    assert (result["id"], result["task"], result["truncated"]) == (record["id"], "登录网站", True)
    assert record["content"].startswith(result["content"].removesuffix("…"))
    assert 40 < answer["tokens"] <= 50


async def test_without_a_budget_nothing_is_counted_or_cut(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("wait " + "等待" * 20_000)

    answer = await search(api)

    assert "tokens" not in answer
    assert "truncated" not in answer["results"][0]
    assert answer["results"][0]["content"] == record["content"]
