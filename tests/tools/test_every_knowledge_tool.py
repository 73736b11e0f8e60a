"""What holds for every knowledge tool: its signature, its schema, a result whatever happens (seed 003)."""

import inspect
from typing import Any

import httpx
import pytest
import respx

from agent_tools.client import shared_client
from agent_tools.knowledge import get_knowledge, knowledge_save, knowledge_search, save_knowledge
from agent_tools.registry import call_tool, registered_tools
from agent_tools.results import ToolResult

pytestmark = pytest.mark.anyio

REQUIRED = inspect.Parameter.empty

CALLS: dict[str, dict[str, Any]] = {
    "knowledge_search": {"query": "登录"},
    "knowledge_save": {"task": "t", "content": "c", "types": ["tool"]},
    "knowledge_update": {"knowledge_id": "knowledge-1", "update_score": 4},
    "knowledge_batch_update": {"feedback_list": [{"knowledge_id": "knowledge-1", "is_helpful": True}]},
    "knowledge_list": {},
    "knowledge_slim": {},
}

SEED_SIGNATURES: dict[str, dict[str, Any]] = {
    "knowledge_search": {"query": REQUIRED, "top_k": 5, "min_score": 3, "types": None},
    "knowledge_save": {
        "task": REQUIRED,
        "content": REQUIRED,
        "types": REQUIRED,
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
        "knowledge_id": REQUIRED,
        "add_helpful_case": None,
        "add_harmful_case": None,
        "update_score": None,
        "evolve_feedback": None,
    },
    "knowledge_batch_update": {"feedback_list": REQUIRED},
    "knowledge_list": {"limit": 10, "types": None, "scopes": None},
    "knowledge_slim": {"model": "google/gemini-2.0-flash-001"},
}


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

    required = [each for each, default in SEED_SIGNATURES[name].items() if default is REQUIRED]
    assert parameters["required"] == required
    assert all(each["description"] for each in parameters["properties"].values())


def test_the_names_of_seed_004_are_the_same_tools() -> None:
    assert get_knowledge is knowledge_search
    assert save_knowledge is knowledge_save


@pytest.mark.parametrize("name", ["knowledge_save", "knowledge_update"])
async def test_an_answer_without_a_record_does_not_pass_for_success(hub: respx.MockRouter, name: str) -> None:
    hub.route().respond(json={"ok": True})

    result = await call_tool(name, CALLS[name])

    assert result.error is not None
    assert "is not an answer of KnowHub" in result.error


async def call_every_tool() -> list[ToolResult]:
    return [await call_tool(name, arguments) for name, arguments in CALLS.items()]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 502, 503, 507])
async def test_no_tool_raises_at_a_status(hub: respx.MockRouter, status: int) -> None:
    hub.route().respond(status, json={"status": status, "detail": "so it is"})

    results = await call_every_tool()

    assert all(result.error is not None and f"KnowHub answered {status}" in result.error for result in results)
    assert all(result.metadata["items"] == [] for result in results)


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("refused"), httpx.ConnectTimeout(""), httpx.ReadTimeout(""), httpx.ReadError("")],
)
async def test_no_tool_raises_at_a_connection_that_fails(hub: respx.MockRouter, error: httpx.TransportError) -> None:
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
    hub.route().respond(json={**record, "results": [record], "degraded": odd, "evolved": odd, "next_cursor": odd})

    results = await call_every_tool()

    assert [result.error for result in results] == [None] * len(CALLS)


async def test_all_tools_call_through_one_client(hub: respx.MockRouter) -> None:
    hub.route().respond(json={"id": "k-1", "results": []})
    client = shared_client()

    await call_every_tool()

    assert shared_client() is client
    assert hub.calls.call_count == len(CALLS)
