"""`POST /api/knowledge/extract`: what it takes, what it answers, and that what it saved is found."""

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.anyio

URL = "/api/knowledge/extract"
LI = {"user_id": "li", "agent_id": "coder", "project_id": "web"}


def user_message(content: str, **fields: object) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content, **fields}]


async def test_an_extracted_record_is_found_only_by_its_user(api: httpx.AsyncClient) -> None:
    answer = await api.post(URL, json={"messages": user_message("请以后都用中文回答我。", message_id="m-1"), **LI})

    found = await api.get("/api/knowledge/search", params={"q": "中文 回答", "user_id": "li"})
    others = await api.get("/api/knowledge/search", params={"q": "中文 回答", "user_id": "eve"})
    body = answer.json()
    assert answer.status_code == 200
    assert answer.headers["X-Operation-Id"] == body["operation_id"]
    assert [candidate["status"] for candidate in body["candidates"]] == ["new"]
    assert body["count"] == 1
    assert [result["id"] for result in found.json()["results"]] == [body["saved"][0]["id"]]
    assert others.json()["count"] == 0


async def test_a_contradiction_hides_the_older_record_until_it_is_undone(api: httpx.AsyncClient) -> None:
    first = await api.post(URL, json={"messages": user_message("I live in Rome", message_id="m-1"), **LI})
    second = await api.post(URL, json={"messages": user_message("I live in Oslo", message_id="m-2"), **LI})
    query = {"q": "live Rome Oslo", "user_id": "li"}
    after = await api.get("/api/knowledge/search", params=query)

    undone = await api.post(f"/api/operations/{second.json()['operation_id']}/undo", json={"user_id": "li"})
    before = await api.get("/api/knowledge/search", params=query)

    assert [result["id"] for result in after.json()["results"]] == [second.json()["saved"][0]["id"]]
    assert undone.status_code == 200
    assert [result["id"] for result in before.json()["results"]] == [first.json()["saved"][0]["id"]]


async def test_a_conversation_without_facts_saves_nothing(api: httpx.AsyncClient) -> None:
    answer = await api.post(URL, json={"messages": user_message("Good morning! How are you?")})

    assert answer.status_code == 200
    assert answer.json() == {
        "candidates": [],
        "saved": [],
        "count": 0,
        "resources": [],
        "rejected": [],
        "degraded": [],
        "dropped": [],
        "messages_read": 1,
        "dry_run": False,
        "operation_id": None,
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": []}]}, "messages.0.tool_calls"),
        ({"messages": user_message("x", timestamp="yesterday")}, "messages.0.timestamp"),
        ({"messages": user_message("x"), "trigger": "whenever"}, "trigger"),
        ({"messages": user_message("x"), "model": "m"}, "model"),
    ],
)
async def test_an_invalid_conversation_is_refused_by_field(
    api: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    answer = await api.post(URL, json=body)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.parametrize("trigger", ["task_completed", "task_completion", "user_feedback"])
async def test_the_same_is_found_on_each_occasion(api: httpx.AsyncClient, trigger: str) -> None:
    answer = await api.post(URL, json={"messages": user_message("I prefer tabs"), "trigger": trigger})

    assert [found["content"] for found in answer.json()["candidates"]] == ["The user said: I prefer tabs"]


async def test_a_message_without_text_is_ignored(api: httpx.AsyncClient) -> None:
    silent = {"role": "assistant", "content": None}

    answer = await api.post(URL, json={"messages": [silent, *user_message("I prefer tabs")]})

    assert answer.status_code == 200
    assert [candidate["messages"] for candidate in answer.json()["candidates"]] == [[1]]


async def test_a_private_statement_is_not_visible_in_a_project(api: httpx.AsyncClient) -> None:
    private, project = {"user_id": "li"}, {"user_id": "li", "project_id": "web"}
    for words, place in (
        ("我喜欢深色主题。", project),
        ("我喜欢深色主题，因为我得了青光眼。", private),
        ("I prefer tabs over spaces", project),
        ("I prefer spaces over tabs because of my surgery", private),
    ):
        await api.post(URL, json={"messages": user_message(words), **place})

    read = await api.get("/api/knowledge", params={"project_id": "web"})

    texts = [result["content"] for result in read.json()["results"]]
    assert sorted(texts) == ["The user said: I prefer tabs over spaces", "用户说：我喜欢深色主题。"]
    assert "青光眼" not in read.text
    assert "surgery" not in read.text
