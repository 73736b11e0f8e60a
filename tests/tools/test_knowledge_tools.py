"""What each knowledge tool makes of the answer of the API."""

import json
from typing import Any

import pytest
import respx

from agent_tools.fences import FENCE_NOTE
from agent_tools.knowledge import (
    Rating,
    knowledge_batch_update,
    knowledge_list,
    knowledge_save,
    knowledge_search,
    knowledge_slim,
    knowledge_update,
)
from agent_tools.records import format_records
from agent_tools.registry import call_tool
from tests.tools.routes import read_body

pytestmark = pytest.mark.anyio

RECORD: dict[str, Any] = {
    "id": "knowledge-20260305-a1b2",
    "task": "登录网站",
    "content": "随机延迟",
    "types": ["tool"],
    "eval": {"score": 4, "helpful": 2, "harmful": 0, "confidence": 0.9},
    "quality_score": 6.0,
}


async def test_search_shows_records_as_data(hub: respx.MockRouter) -> None:
    hub.get("/api/knowledge/search").respond(json={"results": [RECORD], "count": 1, "degraded": ["llm"]})

    result = await knowledge_search("登录")

    assert FENCE_NOTE in result.output
    assert "| id: knowledge-20260305-a1b2" in result.output
    assert "| task: 登录网站" in result.output
    assert "| content: 随机延迟" in result.output
    assert "| evidence: confidence 0.9, helpful 2, harmful 0, score 4" in result.output
    assert result.output.endswith("The server had to do without: llm.")
    assert result.metadata["degraded"] == ["llm"]


@pytest.mark.parametrize("given", [{}, {"owner": "user:ann"}, {"scopes": ["user:ann"]}])
async def test_save_with_a_key_leaves_owner_and_scopes_to_the_key(
    hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setenv("KNOWHUB_API_KEY", "secret-key")
    route = hub.post("/api/knowledge").respond(201, json=RECORD)

    await knowledge_save("t", "c", ["tool"], **given)

    assert {name: value for name, value in read_body(route).items() if name in {"owner", "scopes"}} == given
    assert route.calls.last.request.headers["X-API-Key"] == "secret-key"


async def test_saving_an_equal_record_says_so(hub: respx.MockRouter) -> None:
    hub.post("/api/knowledge").respond(json={**RECORD, "duplicate_of": RECORD["id"], "operation_id": None})

    result = await knowledge_save("t", "c", ["tool"])

    assert result.error is None
    assert result.output == "An equal record exists already: knowledge-20260305-a1b2. Nothing new was saved."
    assert result.metadata["duplicate_of"] == RECORD["id"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"evolved": True, "diff": "-a\n+b"}, "The content was rewritten."),
        ({"evolved": False, "degraded": ["llm"]}, "The content was not rewritten."),
    ],
)
async def test_update_says_whether_the_content_was_rewritten(
    hub: respx.MockRouter, answer: dict[str, Any], expected: str
) -> None:
    hub.put("/api/knowledge/knowledge-1").respond(json={**RECORD, **answer})

    result = await knowledge_update("knowledge-1", evolve_feedback="shorter")

    assert expected in result.output
    assert "| content: 随机延迟" in result.output
    assert ("do without: llm" in result.output) == ("degraded" in answer)
    assert result.metadata["evolved"] is answer["evolved"]


@pytest.mark.parametrize(("evolve_feedback", "least_s", "most_s"), [(None, 5, 30), ("shorter", 31, 60)])
async def test_an_update_with_the_model_has_a_longer_timeout(
    hub: respx.MockRouter, evolve_feedback: str | None, least_s: float, most_s: float
) -> None:
    route = hub.put("/api/knowledge/knowledge-1").respond(json=RECORD)

    await knowledge_update("knowledge-1", update_score=4, evolve_feedback=evolve_feedback)

    timeout = route.calls.last.request.extensions["timeout"]
    assert least_s <= timeout["read"] <= most_s
    assert timeout["connect"] <= 5


async def test_batch_update_names_unknown_ids(hub: respx.MockRouter) -> None:
    results = [{"knowledge_id": "k-1", "status": "applied"}, {"knowledge_id": "k-2", "status": "unknown"}]
    hub.post("/api/knowledge/batch_update").respond(json={"results": results, "count": 2})
    feedback: list[Rating] = [
        {"knowledge_id": "k-1", "is_helpful": True, "case": {"task": "t", "outcome": "成功"}},
        {"knowledge_id": "k-2", "is_helpful": False},
    ]

    result = await knowledge_batch_update(feedback)

    assert result.error is None
    assert result.metadata == {"items": results, "unknown": ["k-2"]}
    assert result.output.startswith("Feedback was recorded for 1 of 2. Unknown ids: k-2.")


async def test_list_says_that_there_is_more(hub: respx.MockRouter) -> None:
    hub.get("/api/knowledge").respond(json={"results": [RECORD], "count": 1, "next_cursor": "abc"})

    result = await knowledge_list(limit=1)

    assert "There are more" in result.output


async def test_slim_waits_long_and_shows_the_report_as_data(hub: respx.MockRouter) -> None:
    reply = {"merged": [{"into": "k-1", "from": ["k-2"]}], "operation_id": "op-1"}
    route = hub.post("/api/knowledge/slim").respond(json=reply)

    result = await knowledge_slim()

    assert route.calls.last.request.extensions["timeout"]["read"] == 600
    assert result.error is None
    assert result.metadata["report"] == reply
    assert '| report: {"merged": [{"into": "k-1"' in result.output


async def test_text_that_knowhub_showed_is_not_saved_again(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge").respond(201, json={**RECORD, "operation_id": "op-1"})
    shown = format_records([RECORD])

    refused = await call_tool("knowledge_save", {"task": "t", "content": f"1 found.\n\n{shown}", "types": ["tool"]})
    saved = await knowledge_save("t", f"It failed.\n> {shown}", ["tool"])
    lines = shown.count("\n|") + 1
    noticed = await knowledge_save(f"Deploy\n\n{shown}", "It failed.", ["tool"])

    assert refused.error is not None
    assert refused.error.startswith("This text came from KnowHub")
    assert [json.loads(call.request.content)["task"] for call in route.calls] == ["t", "Deploy"]
    assert read_body(route)["content"] == "It failed."
    for result in (saved, noticed):
        assert f"Left out: {lines} lines that came from KnowHub." in result.output
