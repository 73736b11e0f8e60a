"""Each knowledge tool is one call of the API, and each failure a result that says what to do (seed 003)."""

import inspect
import json
from typing import Any

import httpx
import pytest
import respx

from agent_tools.client import shared_client
from agent_tools.knowledge import (
    get_knowledge,
    knowledge_batch_update,
    knowledge_list,
    knowledge_save,
    knowledge_search,
    knowledge_slim,
    knowledge_update,
    save_knowledge,
)
from agent_tools.records import FENCE_NOTE
from agent_tools.registry import call_tool, registered_tools
from agent_tools.results import ToolResult

pytestmark = pytest.mark.anyio

RECORD: dict[str, Any] = {
    "id": "knowledge-20260305-a1b2",
    "task": "登录网站",
    "content": "随机延迟",
    "types": ["tool"],
    "eval": {"score": 4, "helpful": 2, "harmful": 0, "confidence": 0.9},
    "quality_score": 6.0,
}

CALLS: dict[str, dict[str, Any]] = {
    "knowledge_search": {"query": "登录"},
    "knowledge_save": {"task": "t", "content": "c", "types": ["tool"]},
    "knowledge_update": {"knowledge_id": "knowledge-1", "update_score": 4},
    "knowledge_batch_update": {"feedback_list": [{"knowledge_id": "knowledge-1", "is_helpful": True}]},
    "knowledge_list": {},
    "knowledge_slim": {},
}

SEED_SIGNATURES: dict[str, dict[str, Any]] = {
    "knowledge_search": {"query": inspect.Parameter.empty, "top_k": 5, "min_score": 3, "types": None},
    "knowledge_save": {
        "task": inspect.Parameter.empty,
        "content": inspect.Parameter.empty,
        "types": inspect.Parameter.empty,
        "tags": None,
        "scopes": None,
        "owner": None,
        "source_name": "",
        "source_category": "exp",
        "urls": None,
        "agent_id": "research_agent",
        "submitted_by": "",
        "score": 3,
        "message_id": "",
    },
    "knowledge_update": {
        "knowledge_id": inspect.Parameter.empty,
        "add_helpful_case": None,
        "add_harmful_case": None,
        "update_score": None,
        "evolve_feedback": None,
    },
    "knowledge_batch_update": {"feedback_list": inspect.Parameter.empty},
    "knowledge_list": {"limit": 10, "types": None, "scopes": None},
    "knowledge_slim": {"model": "google/gemini-2.0-flash-001"},
}


def sent(route: respx.Route) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(route.calls.last.request.content)
    return body


def query_of(route: respx.Route) -> dict[str, str]:
    return dict(route.calls.last.request.url.params.multi_items())


@pytest.mark.parametrize("name", SEED_SIGNATURES)
def test_a_signature_begins_as_the_seed_writes_it_and_adds_only_optional_parameters(name: str) -> None:
    parameters = inspect.signature(registered_tools()[name]).parameters
    seed = SEED_SIGNATURES[name]

    defaults = {each.name: each.default for each in parameters.values()}

    assert list(defaults.items())[: len(seed)] == list(seed.items())
    assert set(list(defaults.values())[len(seed) :]) <= {None}
    assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters.values())


@pytest.mark.parametrize("name", SEED_SIGNATURES)
def test_a_schema_requires_what_the_seed_requires_and_describes_everything(name: str) -> None:
    parameters = registered_tools()[name].openai_schema()["function"]["parameters"]

    required = [each for each, default in SEED_SIGNATURES[name].items() if default is inspect.Parameter.empty]
    assert parameters["required"] == required
    assert all(each["description"] for each in parameters["properties"].values())


def test_the_names_of_seed_004_are_the_same_tools() -> None:
    assert get_knowledge is knowledge_search
    assert save_knowledge is knowledge_save


async def test_search_sends_query_and_defaults_and_leaves_types_out(hub: respx.MockRouter) -> None:
    route = hub.get("/api/knowledge/search").respond(json={"results": [RECORD], "count": 1})

    result = await knowledge_search("登录 & 爬虫")

    assert query_of(route) == {"q": "登录 & 爬虫", "top_k": "5", "min_score": "3"}
    assert route.calls.last.request.content == b""
    assert result.error is None
    assert result.metadata["items"] == [RECORD]
    assert len(result) == 1


async def test_search_joins_types_with_commas_and_sends_who_is_asking(hub: respx.MockRouter) -> None:
    route = hub.get("/api/knowledge/search").respond(json={"results": [], "count": 0})

    await get_knowledge(
        "q", 3, 4, ["tool", "strategy"], user_id="u", agent_id="a", project_id="p", team_id="t", org_id="o"
    )

    assert query_of(route) == {
        "q": "q",
        "top_k": "3",
        "min_score": "4",
        "types": "tool,strategy",
        "user_id": "u",
        "agent_id": "a",
        "project_id": "p",
        "team_id": "t",
        "org_id": "o",
    }


async def test_search_shows_what_was_found_as_data(hub: respx.MockRouter) -> None:
    hub.get("/api/knowledge/search").respond(json={"results": [RECORD], "count": 1, "degraded": ["llm"]})

    result = await knowledge_search("登录")

    assert FENCE_NOTE in result.output
    assert "| id: knowledge-20260305-a1b2" in result.output
    assert "| task: 登录网站" in result.output
    assert "| content: 随机延迟" in result.output
    assert "| quality: 6.0 (score 4," in result.output
    assert result.output.endswith("The server had to do without: llm.")
    assert result.metadata["degraded"] == ["llm"]


async def test_search_that_finds_nothing_is_a_result_and_no_error(hub: respx.MockRouter) -> None:
    hub.get("/api/knowledge/search").respond(json={"results": [], "count": 0, "degraded": []})

    result = await knowledge_search("q")

    assert result.error is None
    assert result.metadata["items"] == []
    assert bool(result)
    assert result.output == "No knowledge matches. Use other words, or a lower min_score."


async def test_save_sends_the_seeds_body_with_its_defaults(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge").respond(201, json={**RECORD, "operation_id": "op-1"})

    result = await knowledge_save("登录网站", "随机延迟", ["tool"])

    assert sent(route) == {
        "task": "登录网站",
        "content": "随机延迟",
        "types": ["tool"],
        "tags": {},
        "scopes": ["org:cybertogether"],
        "owner": "agent:research_agent",
        "source": {
            "name": "",
            "category": "exp",
            "urls": [],
            "agent_id": "research_agent",
            "submitted_by": "",
            "message_id": "",
        },
        "score": 3,
    }
    assert query_of(route) == {}
    assert result.output == "Saved as knowledge-20260305-a1b2."
    assert result.metadata["id"] == "knowledge-20260305-a1b2"
    assert len(result) == 1


async def test_save_sends_everything_that_is_given(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge").respond(201, json=RECORD)

    await save_knowledge(
        task="t",
        content="c",
        types=["tool", "usecase"],
        tags={"domain": "web"},
        scopes=["user:ann"],
        owner="user:ann",
        source_name="docs",
        source_category="paper",
        urls=["https://example.com"],
        agent_id="crawler",
        submitted_by="ann@example.com",
        score=5,
        message_id="msg-1",
        resource_ids=["code/selenium/login"],
    )

    assert sent(route) == {
        "task": "t",
        "content": "c",
        "types": ["tool", "usecase"],
        "tags": {"domain": "web"},
        "scopes": ["user:ann"],
        "owner": "user:ann",
        "source": {
            "name": "docs",
            "category": "paper",
            "urls": ["https://example.com"],
            "agent_id": "crawler",
            "submitted_by": "ann@example.com",
            "message_id": "msg-1",
        },
        "score": 5,
        "resource_ids": ["code/selenium/login"],
    }


async def test_save_makes_the_given_agent_the_owner(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge").respond(201, json=RECORD)

    await knowledge_save("t", "c", ["tool"], agent_id="crawler")

    assert sent(route)["owner"] == "agent:crawler"
    assert sent(route)["source"]["agent_id"] == "crawler"


@pytest.mark.parametrize("given", [{}, {"owner": "user:ann"}, {"scopes": ["user:ann"]}])
async def test_save_with_a_key_leaves_owner_and_scopes_to_the_key(
    hub: respx.MockRouter, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setenv("KNOWHUB_API_KEY", "secret-key")
    route = hub.post("/api/knowledge").respond(201, json=RECORD)

    await knowledge_save("t", "c", ["tool"], **given)

    assert {name: value for name, value in sent(route).items() if name in {"owner", "scopes"}} == given
    assert route.calls.last.request.headers["X-API-Key"] == "secret-key"


async def test_save_of_something_known_says_so(hub: respx.MockRouter) -> None:
    hub.post("/api/knowledge").respond(json={**RECORD, "duplicate_of": RECORD["id"], "operation_id": None})

    result = await knowledge_save("t", "c", ["tool"])

    assert result.error is None
    assert result.output == "The same is known already, as knowledge-20260305-a1b2. Nothing new was saved."
    assert result.metadata["duplicate_of"] == RECORD["id"]


@pytest.mark.parametrize("name", ["knowledge_save", "knowledge_update"])
async def test_an_answer_without_a_record_does_not_pass_for_success(hub: respx.MockRouter, name: str) -> None:
    hub.route().respond(json={"ok": True})

    result = await call_tool(name, CALLS[name])

    assert result.error is not None
    assert "is not an answer of KnowHub" in result.error


async def test_update_sends_only_what_is_given(hub: respx.MockRouter) -> None:
    route = hub.put("/api/knowledge/knowledge-1").respond(json=RECORD)

    result = await knowledge_update("knowledge-1", add_helpful_case={"task": "t", "outcome": "成功"})

    assert sent(route) == {"add_helpful_case": {"task": "t", "outcome": "成功"}}
    assert result.error is None
    assert result.output.startswith("The feedback was recorded.\n")


async def test_update_sends_all_feedback_and_says_that_the_content_was_rewritten(
    hub: respx.MockRouter,
) -> None:
    route = hub.put("/api/knowledge/knowledge-1").respond(json={**RECORD, "evolved": True, "diff": "-a\n+b"})
    body = {
        "add_helpful_case": {"task": "t"},
        "add_harmful_case": {"task": "t", "outcome": "失败", "reason": "r"},
        "update_score": 5,
        "evolve_feedback": "shorter",
    }

    result = await knowledge_update("knowledge-1", **body)  # type: ignore[arg-type]

    assert sent(route) == body
    assert "The content was rewritten." in result.output
    assert "| content: 随机延迟" in result.output
    assert result.metadata["evolved"] is True


async def test_update_says_when_the_content_could_not_be_rewritten(hub: respx.MockRouter) -> None:
    hub.put("/api/knowledge/knowledge-1").respond(json={**RECORD, "evolved": False, "degraded": ["llm"]})

    result = await knowledge_update("knowledge-1", evolve_feedback="shorter")

    assert "The content was not rewritten." in result.output
    assert "do without: llm" in result.output


async def test_update_keeps_an_odd_id_in_one_segment(hub: respx.MockRouter) -> None:
    route = hub.put().respond(json=RECORD)

    await knowledge_update("知识 a/b?", update_score=1)

    assert route.calls.last.request.url.raw_path == b"/api/knowledge/%E7%9F%A5%E8%AF%86%20a%2Fb%3F"


async def test_update_without_an_id_calls_nobody(hub: respx.MockRouter) -> None:
    result = await knowledge_update("", update_score=1)

    assert result.error == "The id is empty. Pass an id that a search or a list has shown."
    assert not hub.calls


async def test_update_of_an_unknown_id_says_where_ids_come_from(hub: respx.MockRouter) -> None:
    hub.put("/api/knowledge/nope").respond(404, json={"status": 404, "detail": "no knowledge with id 'nope'"})

    result = await knowledge_update("nope", update_score=1)

    assert result.error == (
        "KnowHub answered 404: no knowledge with id 'nope'. "
        "Take an id that knowledge_search or knowledge_list has shown."
    )


async def test_batch_update_sends_the_list_and_names_unknown_ids(hub: respx.MockRouter) -> None:
    results = [{"knowledge_id": "k-1", "status": "applied"}, {"knowledge_id": "k-2", "status": "unknown"}]
    route = hub.post("/api/knowledge/batch_update").respond(json={"results": results, "count": 2})
    feedback = [
        {"knowledge_id": "k-1", "is_helpful": True, "case": {"task": "t", "outcome": "成功"}},
        {"knowledge_id": "k-2", "is_helpful": False},
    ]

    result = await knowledge_batch_update(feedback)

    assert sent(route) == {"feedback_list": feedback}
    assert result.error is None
    assert result.metadata == {"items": results, "unknown": ["k-2"]}
    assert result.output.startswith("Feedback was recorded for 1 of 2. Unknown ids: k-2.")


async def test_list_sends_its_default_and_leaves_the_filters_out(hub: respx.MockRouter) -> None:
    route = hub.get("/api/knowledge").respond(json={"results": [RECORD], "count": 1, "next_cursor": None})

    result = await knowledge_list()

    assert query_of(route) == {"limit": "10"}
    assert result.metadata["items"] == [RECORD]
    assert "| task: 登录网站" in result.output


async def test_list_joins_its_filters_and_says_that_there_is_more(hub: respx.MockRouter) -> None:
    route = hub.get("/api/knowledge").respond(json={"results": [RECORD], "count": 1, "next_cursor": "abc"})

    result = await knowledge_list(limit=1, types=["tool", "plan"], scopes=["org:a", "public"])

    assert query_of(route) == {"limit": "1", "types": "tool,plan", "scopes": "org:a,public"}
    assert "There are more" in result.output


async def test_slim_sends_the_model_and_shows_the_report_as_data(hub: respx.MockRouter) -> None:
    reply = {"merged": [{"into": "k-1", "from": ["k-2"]}], "operation_id": "op-1"}
    route = hub.post("/api/knowledge/slim").respond(json=reply)

    result = await knowledge_slim()

    assert sent(route) == {"model": "google/gemini-2.0-flash-001"}
    assert result.error is None
    assert result.metadata["report"] == reply
    assert '| report: {"merged": [{"into": "k-1"' in result.output


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_without_slim_is_told_as_an_older_version(hub: respx.MockRouter, status: int) -> None:
    hub.post("/api/knowledge/slim").respond(
        status, json={"status": status, "detail": "there is nothing here"}
    )

    result = await knowledge_slim("another/model")

    assert result.error is not None
    assert "This server version has no" in result.error
    assert "slim" in result.error
    assert result.metadata["status"] == status


async def call_every_tool() -> list[ToolResult]:
    return [await call_tool(name, arguments) for name, arguments in CALLS.items()]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 502, 503, 507])
async def test_no_tool_raises_at_a_status(hub: respx.MockRouter, status: int) -> None:
    hub.route().respond(status, json={"status": status, "detail": "so it is"})

    results = await call_every_tool()

    assert all(
        result.error is not None and f"KnowHub answered {status}" in result.error for result in results
    )
    assert all(result.metadata["items"] == [] for result in results)


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("refused"), httpx.ConnectTimeout(""), httpx.ReadTimeout(""), httpx.ReadError("")],
)
async def test_no_tool_raises_at_a_connection_that_fails(
    hub: respx.MockRouter, error: httpx.TransportError
) -> None:
    hub.route().mock(side_effect=error)

    results = await call_every_tool()

    assert all(result.error for result in results)


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]"])
async def test_no_tool_raises_at_an_answer_that_is_no_json_object(hub: respx.MockRouter, body: bytes) -> None:
    hub.route().respond(200, content=body)

    results = await call_every_tool()

    assert all(result.error and "is not an answer of KnowHub" in result.error for result in results)


@pytest.mark.parametrize("odd", [None, 1, "text", ["text"], {"a": 1}])
async def test_no_tool_raises_at_fields_of_another_shape(hub: respx.MockRouter, odd: object) -> None:
    names = (
        "eval",
        "types",
        "task",
        "content",
        "resource_ids",
        "quality_score",
        "duplicate_of",
        "status",
        "knowledge_id",
    )
    record = {"id": "k-1", **dict.fromkeys(names, odd)}
    hub.route().respond(
        json={**record, "results": [record], "degraded": odd, "evolved": odd, "next_cursor": odd}
    )

    results = await call_every_tool()

    assert [result.error for result in results] == [None] * len(CALLS)


async def test_all_tools_call_through_one_client(hub: respx.MockRouter) -> None:
    hub.route().respond(json={**RECORD, "results": []})
    client = shared_client()

    await call_every_tool()

    assert shared_client() is client
    assert hub.calls.call_count == len(CALLS)
