"""What holds for every tool: its signature, its schema, and a result whatever happens outside."""

import inspect
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx

import agent_tools.goal  # noqa: F401 -- registers its tool
from agent_tools import compaction, keywords, knowledge, memory, memory_edits, resources
from agent_tools.arguments import CONTEXT_IDS
from agent_tools.client import get_client
from agent_tools.registry import call_tool, registered_tools
from agent_tools.results import ToolResult
from agent_tools.run import running
from tests.tools.routes import query_of

pytestmark = pytest.mark.anyio

MODULES = (compaction, keywords, knowledge, memory, memory_edits, resources)
MESSAGES = [{"role": "user", "content": "Hi"}]

CALLS: dict[str, dict[str, Any]] = {
    "knowledge_search": {"query": "登录"},
    "knowledge_save": {"task": "t", "content": "c", "types": ["tool"]},
    "knowledge_update": {"knowledge_id": "knowledge-1"},
    "knowledge_batch_update": {"feedback_list": [{"knowledge_id": "knowledge-1", "is_helpful": True}]},
    "knowledge_list": {},
    "knowledge_get": {"knowledge_id": "knowledge-1"},
    "knowledge_delete": {"knowledge_id": "knowledge-1"},
    "profile_get": {},
    "undo": {"operation_id": "op-1"},
    "knowledge_slim": {},
    "knowledge_extract": {"messages": MESSAGES},
    "keyword_search": {"query": "Java"},
    "keyword_create": {"name": "Java"},
    "info_save": {"content": "c"},
    "commit_session": {"session_id": "s-1", "messages": MESSAGES},
    "search_memory": {"query": "Java"},
    "read_memory": {"uri": "ctx://default/users/li/sessions/s-1"},
    "memory_create": {"category": "entities", "content": "c"},
    "memory_edit": {"uri": "ctx://a"},
    "memory_move": {"uri": "ctx://a", "to": "ctx://b"},
    "memory_forget": {"uri": "ctx://a"},
    "memory_link": {"from_uri": "ctx://a", "to_uri": "ctx://b"},
    "memory_unlink": {"from_uri": "ctx://a", "to_uri": "ctx://b"},
    "memory_grep": {"text": "Java"},
    "memory_read_many": {"uris": ["ctx://a"]},
    "memory_sessions": {},
    "resource_save": {"resource_id": "a"},
    "resource_get": {"resource_id": "a"},
    "resource_list": {},
}
KNOWLEDGE_TOOLS = [name for name in CALLS if name.startswith("knowledge_") and name != "knowledge_extract"]
KEYWORD_TOOLS = ["keyword_search", "keyword_create", "info_save"]
RECORD_FIELDS = (
    "eval", "types", "task", "content", "resource_ids", "quality_score", "duplicate_of", "status", "knowledge_id",
)  # fmt: skip
KEYWORD_FIELDS = (
    "node", "path", "infos", "candidates", "reason", "degraded", "decided", "dropped", "parent_id",
    "suggested_parent_id", "suggested_name",
)  # fmt: skip
CALLER = dict.fromkeys(CONTEXT_IDS, "x")
# A model must not say who calls, or from where.
HOST_ONLY = {*CONTEXT_IDS, "owner", "submitted_by", "message_id", "trace_id"}

SIGNATURES = {
    "knowledge_search": "query top_k min_score types",
    "knowledge_save": (
        "task content types tags scopes owner source_name source_category urls agent_id submitted_by score message_id"
    ),
    "knowledge_update": "knowledge_id add_helpful_case add_harmful_case update_score evolve_feedback",
    "knowledge_batch_update": "feedback_list",
    "knowledge_list": "limit types scopes",
    "knowledge_slim": "model",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_parameters_that_hosts_know_come_first_and_the_others_are_optional(name: str) -> None:
    parameters = inspect.signature(registered_tools()[name]).parameters
    expected = SIGNATURES[name].split()

    named = [parameter for parameter in parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]

    assert [parameter.name for parameter in named][: len(expected)] == expected
    assert {parameter.default for parameter in named[len(expected) :]} <= {None}
    assert {parameter.kind for parameter in named} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


@pytest.mark.parametrize("name", CALLS)
def test_a_schema_requires_what_has_no_default_and_describes_everything(name: str) -> None:
    parameters = registered_tools()[name].openai_schema()["function"]["parameters"]

    assert parameters["required"] == list(CALLS[name])
    assert all(parameter["description"] for parameter in parameters["properties"].values())


def list_objects(schema: object) -> Iterator[dict[str, Any]]:
    """Yield each schema of an object in this one."""
    values = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict) and schema.get("type") == "object":
        yield schema
    for value in values:
        yield from list_objects(value)


@pytest.mark.parametrize("name", [*CALLS, "goal"])
def test_no_schema_lets_a_model_say_who_calls_or_name_fields_of_its_own(name: str) -> None:
    objects = list(list_objects(registered_tools()[name].anthropic_schema()))

    assert objects
    assert not any(HOST_ONLY & schema["properties"].keys() for schema in objects)
    assert all(schema["additionalProperties"] is False for schema in objects)


@pytest.mark.parametrize("name", [*CALLS, "goal"])
def test_every_schema_passes_in_strict_mode(name: str) -> None:
    function = registered_tools()[name].openai_schema(strict=True)["function"]
    objects = list(list_objects(function["parameters"]))

    assert function["strict"] is True
    assert all(schema["required"] == list(schema["properties"]) for schema in objects)
    assert all(schema["additionalProperties"] is False for schema in objects)
    assert '"default"' not in json.dumps(function)


@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_calls_for_the_caller_of_the_run(hub: respx.MockRouter, name: str) -> None:
    route = hub.route().respond(json={"id": "k-1", "results": []})

    with running(caller=CALLER):
        await call_tool(name, CALLS[name])
    asked = route.calls.last.request

    given = json.loads(asked.content) if asked.content else query_of(route)
    assert {key: given.get(key) for key in CONTEXT_IDS} == CALLER


@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_says_so_where_the_run_has_an_invalid_caller(hub: respx.MockRouter, name: str) -> None:
    with running(caller={"user": "x"}):
        result = await call_tool(name, CALLS[name])

    assert "which is not a context id" in (result.error or "")
    assert not hub.calls


def test_every_tool_of_the_server_is_in_these_tests() -> None:
    of_modules = {name for name, tool in registered_tools().items() if tool.__module__ in {m.__name__ for m in MODULES}}

    assert of_modules == CALLS.keys()


async def call_every_tool() -> list[ToolResult]:
    return [await call_tool(name, arguments) for name, arguments in CALLS.items()]


@pytest.mark.parametrize("status", [404, 409, 500, None])
async def test_a_failure_is_a_result_with_the_status(hub: respx.MockRouter, status: int | None) -> None:
    if status is None:
        hub.route().mock(side_effect=httpx.ConnectError("refused"))
    else:
        hub.route().respond(status, json={"status": status, "detail": "so it is"})

    results = await call_every_tool()

    known = {} if status is None else {"status": status}
    assert all(result.error and result.metadata == {"items": [], **known} for result in results)


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"ok": true}', b'{"status": "made up", "id": 1}'])
async def test_an_answer_of_another_program_is_an_error(hub: respx.MockRouter, body: bytes) -> None:
    hub.route().respond(200, content=body)

    errors = {name: (await call_tool(name, arguments)).error for name, arguments in CALLS.items()}

    # The report of a slimming is any object.
    del errors["knowledge_slim"]
    assert all(error is not None and "does not come from KnowHub" in error for error in errors.values())


@pytest.mark.parametrize("status", ["matched", "ambiguous", "not_found", None])
@pytest.mark.parametrize("odd", [None, 1, "text", ["text"], [{"aliases": 1, "name": []}], {"a": 1}])
async def test_fields_of_another_type_do_not_stop_a_tool(
    hub: respx.MockRouter, status: str | None, odd: object
) -> None:
    record = {"id": "k-1", "operation_id": "op-1", **dict.fromkeys(RECORD_FIELDS, odd)}
    answer = {**record, **dict.fromkeys(KEYWORD_FIELDS, odd), "status": status or odd}
    hub.route().respond(json={**answer, "results": [record], "evolved": odd, "next_cursor": odd})

    names = [*KNOWLEDGE_TOOLS, *(KEYWORD_TOOLS if status else ())]
    results = [await call_tool(name, CALLS[name]) for name in names]

    assert [result.error for result in results] == [None] * len(names)


async def test_all_tools_call_through_one_client(hub: respx.MockRouter) -> None:
    hub.route().respond(json={"id": "k-1", "results": []})
    client = get_client()

    await call_every_tool()

    assert get_client() is client
    assert hub.calls.call_count == len(CALLS)
