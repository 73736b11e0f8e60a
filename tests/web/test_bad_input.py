"""Bad input: each a documented 4xx that names the field, with nothing written."""

import json
import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from knowhub.web.route import Route
from knowhub.web.schemas.hooks import HookPayload
from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
DEEP = b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
# In UTF-16, the byte of a quote is half of other characters too: brackets hide behind it, and no parser may read it so.
HIDDEN = ('["∀",' + "[" * 50_000 + "]" * 50_000 + "]").encode("utf-16-le")


async def nothing_written(api: httpx.AsyncClient) -> bool:
    listed: int = (await api.get("/api/operations")).json()["count"]
    return listed == 0


@pytest.mark.parametrize(
    ("path", "sent", "message"),
    [
        ("/api/knowledge", [1, 2], "body: Input should be an object"),
        ("/api/knowledge", {"content": "x", "source": "a book"}, "source: Input should be an object"),
        ("/api/knowledge", {"content": "x", "tags": ["a"]}, "tags: Input should be an object"),
        ("/api/resource", "code", "body: Input should be an object"),
        ("/api/context/sessions/commit", None, "body: Input should be an object"),
    ],
)
async def test_what_is_no_object_is_refused_without_a_name_of_the_code(
    api: httpx.AsyncClient, path: str, sent: object, message: str
) -> None:
    answer = await api.post(path, content=json.dumps(sent), headers=JSON)

    assert (answer.status_code, answer.json()["detail"]) == (422, message)


@pytest.mark.parametrize("number", ["nan", "inf", "-Infinity"])
@pytest.mark.parametrize("path", ["/api/knowledge/search", "/api/recall", "/api/context/search"])
async def test_what_is_no_finite_number_is_named_as_that(api: httpx.AsyncClient, path: str, number: str) -> None:
    answer = await api.get(path, params={"q": "x", "min_relevance": number})

    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [{"field": "min_relevance", "message": "Input should be a finite number"}],
    )


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "content"),
        ({"task": "", "content": "  \n\u3000"}, "content"),
        ({"content": None}, "content"),
        ({"content": 5}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"task": "\ud800"}, "task"),
        ({"content": "x", "types": ["recipe"]}, "types.0"),
        ({"content": "x", "types": []}, "types"),
        ({"content": "x", "types": "tool"}, "types"),
        ({"content": "x", "type": "plan", "types": ["tool"]}, "body"),
        ({"content": "x", "score": 6}, "score"),
        ({"content": "x", "score": 3.0}, "score"),
        ({"content": "x", "score": float("nan")}, "score"),
        ({"content": "x", "score": 10**30}, "score"),
        ({"content": "x", "scopes": ["user:"]}, "scopes.0"),
        ({"content": "x", "scopes": [f"user:{'x' * 200}"]}, "scopes.0"),
        ({"content": "x", "scopes": []}, "scopes"),
        ({"content": "x", "scopes": [f"user:{n}" for n in range(51)]}, "scopes"),
        ({"content": "x", "owner": "team:web"}, "owner"),
        ({"content": "x", "owner": ""}, "owner"),
        ({"content": "x", "visibility": "secret"}, "visibility"),
        ({"content": "x", "tags": {"": "x"}}, "tags..[key]"),
        ({"content": "x", "tags": {"a": 5}}, "tags.a"),
        ({"content": "x", "tags": {"a": "x" * 201}}, "tags.a"),
        ({"content": "x", "tags": {str(n): "x" for n in range(51)}}, "tags"),
        ({"content": "x", "resource_ids": ["/etc/passwd"]}, "resource_ids.0"),
        ({"content": "x", "resource_id": "."}, "resource_id"),
        ({"content": "x", "message_id": "x" * 201}, "message_id"),
        ({"content": "x", "source": {"colour": "red"}}, "source.colour"),
        ({"content": "x", "source": {"timestamp": "yesterday"}}, "source.timestamp"),
        ({"content": "x", "source": {"urls": "https://a"}}, "source.urls"),
        ({"content": "x", "valid_from": "2026-13-01"}, "valid_from"),
        ({"content": "x", "valid_to": "9999-12-31T23:59:59-23:59"}, "valid_to"),
        ({"content": "x", "valid_from": "2026-01-01", "valid_to": "2026-01-01"}, "valid_to"),
        ({"content": "x", "supersedes": "knowledge-20260101-0000"}, "supersedes"),
        ({"content": "x", "account": "a\0b"}, "account"),
        ({"content": "x", "user_id": "x" * 201}, "user_id"),
        ({"content": "x", "dedup": "no"}, "dedup"),
        ({"content": "x", "colour": "red"}, "colour"),
        ({"content": "x", "\ud800": 1}, "body"),
    ],
)
async def test_a_record_that_cannot_be_saved_is_refused_by_field(
    api: httpx.AsyncClient, sent: dict[str, Any], field: str
) -> None:
    response = await api.post("/api/knowledge", content=json.dumps(sent), headers=JSON)

    assert response.status_code == 422
    named = [error["field"] for error in response.json()["errors"]]
    assert any(item == field or item.startswith(f"{field}.") for item in named), named
    assert response.json()["detail"].startswith(f"{named[0]}: {response.json()['errors'][0]['message']}")
    assert await nothing_written(api)


@pytest.mark.parametrize("route", ["", "/batch", "/batch_update"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"not json", 400),
        (b'{"content":"x"} trailing', 400),
        (b'{"content":"\xff"}', 400),
        (b'{"content":"\xed\xa0\x80"}', 400),
        ('{"content":"x"}'.encode("utf-16"), 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"content"', 422),
        (b"17", 422),
        (DEEP, 422),
        (HIDDEN, 400),
        (b"[" * 100_000, 422),
    ],
)
async def test_a_body_that_is_not_an_object_is_refused(
    api: httpx.AsyncClient, route: str, body: bytes, status: int
) -> None:
    response = await api.post(f"/api/knowledge{route}", content=body, headers=JSON)

    assert response.status_code == status
    assert response.json()["errors"][0]["field"] == "body"
    assert await nothing_written(api)


async def test_the_last_of_duplicate_json_fields_is_used(api: httpx.AsyncClient) -> None:
    response = await api.post("/api/knowledge", content=b'{"content":"first","content":"last"}', headers=JSON)

    assert response.json()["content"] == "last"


async def test_json_up_to_the_allowed_depth_is_accepted(api: httpx.AsyncClient) -> None:
    brackets = "[" * 70
    response = await api.post("/api/knowledge", json={"content": f'a string may hold {brackets} and "{brackets}'})

    assert response.status_code == 201


# By route, and by the field that the refusal names. None stands for a parameter that is missing.
WRONG_PARAMETERS: dict[str, dict[str, list[str | None]]] = {
    "/api/knowledge/search": {
        "q": [None, "", " \n", "x" * 4097, "a\0b"],
        "top_k": ["0", "101", "1000000000", "9" * 30, "-1"],
        "min_score": ["0", "6"],
        "types.1": ["tool,recipe"],
        "scopes.0": ["user:"],
        "as_of": ["soon"],
        "order": ["random"],
        "explain": ["perhaps"],
        "session_id": [" "],
        "goal_id": ["g" * 201],
        "budget_tokens": ["0", "-1", "many", "1000000000000"],
        "unseen": ["true"],
        "tree_id": ["no such parameter"],
        "org_id": ["a\x07"],
    },
    "/api/knowledge": {
        "limit": ["0", "1001", "many"],
        "types.0": ["recipe"],
        "scopes.0": ["user:"],
        "owner": ["team:web"],
        "since": ["yesterday"],
        "cursor": ["nonsense", "٣"],
        "account": ["a\nb"],
        "user_id": [""],
        "colour": ["red"],
    },
    "/api/keywords/search": {
        "q": [None, "", " \n", "x" * 4097, "a\0b"],
        "llm_expand_query": ["perhaps"],
        "use_agent": ["true"],
        "user_id": [" "],
    },
    "/api/context/search": {
        "q": ["", "   ", "x" * 4097],
        "categories.0": ["wishes"],
        "categories.1": ["events,x"],
        "top_k": ["0", "101"],
        "limit": ["5"],
    },
    "/api/recall": {"q": [None, " ", "x" * 4097], "sources.0": ["web"], "top_k": ["0"], "limit": ["5"]},
    "/api/context/outbox": {"limit": ["5"]},
    "/api/operations": {"since": ["yesterday", "-1"], "limit": ["0"], "cursor": ["x"], "colour": ["red"]},
    "/api/maintenance/audit": {
        "limit": ["0", "1001"],
        "kinds.0": ["junk"],
        "stale_days": ["0", "x"],
        "bogus": ["1"],
    },
}


@pytest.mark.parametrize("path", WRONG_PARAMETERS)
async def test_a_wrong_parameter_is_refused_by_name(api: httpx.AsyncClient, path: str) -> None:
    needed = {"q": "x"} if "q" in WRONG_PARAMETERS[path] else {}
    for field, values in WRONG_PARAMETERS[path].items():
        for value in values:
            params = needed | {field.partition(".")[0]: value}

            response = await api.get(path, params={name: sent for name, sent in params.items() if sent is not None})

            assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field), params


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/knowledge/search?q=a&q=b", "q"),
        ("/api/knowledge/search?q=a&q=a", "q"),
        ("/api/knowledge/search?q=a&user_id=ann&user_id=bob", "user_id"),
        ("/api/knowledge?limit=1&limit=2", "limit"),
        ("/api/knowledge?account=a&types=tool&account=b", "account"),
        ("/api/keywords/search?q=a&q=b", "q"),
        ("/api/keywords/root?user_id=ann&user_id=ann,eve", "user_id"),
        ("/api/knowledge?tag.domain=web&tag.domain=api", "tag.domain"),
        ("/api/infos?nonsense=1&nonsense=2", "nonsense"),
    ],
)
async def test_a_repeated_single_value_parameter_is_refused_by_name(
    api: httpx.AsyncClient, path: str, field: str
) -> None:
    response = await api.get(path)

    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_a_list_may_come_in_several_parameters(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    for kind in ("tool", "plan", "strategy", "definition"):
        await save_record(f"wait for {kind}", types=[kind])

    found = await api.get("/api/knowledge?types=tool&types=plan,definition")

    assert [result["types"] for result in found.json()["results"]] == [["definition"], ["plan"], ["tool"]]


@pytest.mark.parametrize("query", ["q=%ff", "q=x&%ff=1", "q=%ed%a0%80"])
async def test_a_query_that_is_not_utf_8_is_refused(api: httpx.AsyncClient, query: str) -> None:
    response = await api.get(f"/api/knowledge/search?{query}")

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "query"


async def test_caller_ids_belong_in_the_body_if_there_is_one(app: FastAPI, api: httpx.AsyncClient) -> None:
    # The body of a hook is its host's.
    with_body = [
        route
        for route in app.routes
        if isinstance(route, Route) and route.body is not None and route.body is not HookPayload
    ]

    for route in with_body:
        path = re.sub(r"{[^}]*}", "x", route.path)
        body: Any = next(iter(route.options.get("examples", {"": {}}).values()))
        response = await api.request(route.method, path, json=body, params={"user_id": "li"})

        assert response.status_code == 422, (route.method, path)
        assert response.json()["errors"][0]["field"] in {"query", "user_id"}, (route.method, path)
    assert len(with_body) > 35
    assert await nothing_written(api)


@pytest.mark.parametrize(
    ("votes", "field"),
    [
        ([], "feedback_list"),
        ([{"knowledge_id": "x"}], "feedback_list.0.is_helpful"),
        ([{"is_helpful": True}], "feedback_list.0.knowledge_id"),
        ([{"knowledge_id": "x", "is_helpful": "yes"}], "feedback_list.0.is_helpful"),
        ([{"knowledge_id": "x", "is_helpful": 1}], "feedback_list.0.is_helpful"),
        ([{"knowledge_id": "x", "is_helpful": True, "weight": 9}], "feedback_list.0.weight"),
        ([{"knowledge_id": "x", "is_helpful": True}] * 1001, "feedback_list"),
    ],
)
async def test_an_invalid_feedback_batch_is_refused_as_a_whole(
    api: httpx.AsyncClient, save_record: SaveRecord, votes: list[dict[str, Any]], field: str
) -> None:
    record = await save_record()
    good = {"knowledge_id": record["id"], "is_helpful": True}

    response = await api.post("/api/knowledge/batch_update", json={"feedback_list": votes and [*votes, good]})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert (await api.get(f"/api/knowledge/{record['id']}")).json()["version"] == 1


async def test_an_undo_of_unknown_shape_is_refused(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    operation_id = (await save_record())["operation_id"]

    for body, field in (({"dry_run": "yes"}, "dry_run"), ({"force": True}, "force")):
        response = await api.post(f"/api/operations/{operation_id}/undo", json=body)
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
