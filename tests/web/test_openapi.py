"""The OpenAPI document: whole, true, and every example of it works."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from knowhub.web.route import Route, TextAnswer
from knowhub.web.schemas.keyword_answers import KEYWORD_ID, OTHER_KEYWORD_ID
from tests.web.conftest import SaveRecord, client_of
from tests.web.sessions import commit_session
from tests.web.trees import create_info, create_keyword

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"
# Their examples find nothing to do.
EXAMPLE_WRITES_NOTHING = {
    "/api/context/sessions/{session_id}/distill",
    "/api/keywords/missed",
    "/api/keywords/{keyword_id}/move",
    "/api/knowledge/batch_update",
    "/api/knowledge/outcome",
    "/api/knowledge/slim",
}
WRITE_NOTHING = {
    ("POST", "/api/context/read"),
    ("POST", "/api/keywords/reorganize"),
    ("DELETE", "/api/jobs/{job_id}"),
}
READ_NO_BODY = {
    "/api/admin/keys/{key_id}/rotate",
    "/api/maintenance/reindex",
    "/api/maintenance/compact",
    "/api/maintenance/snapshots",
    "/api/maintenance/snapshots/{ts}/restore",
}


@pytest.fixture
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def list_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield method.upper(), path, described


async def test_the_document_names_its_servers_and_tags(document: dict[str, Any]) -> None:
    assert document["servers"][0]["url"] == "/"
    assert {tag["name"] for tag in document["tags"]} == {
        "knowledge",
        "keywords",
        "infos",
        "resources",
        "memories",
        "operations",
        "keys",
        "upkeep",
        "hooks",
    }
    assert all(tag["description"] for tag in document["tags"])
    assert document["info"]["title"] == "KnowHub"


async def test_every_route_has_a_tag_a_summary_and_a_description(document: dict[str, Any]) -> None:
    known = {tag["name"] for tag in document["tags"]}
    for method, path, described in list_operations(document):
        assert len(described["tags"]) == 1, (method, path)
        assert described["tags"][0] in known
        assert described["summary"], (method, path)
        assert described["description"], (method, path)
    names = [described["operationId"] for _, _, described in list_operations(document)]
    assert len(set(names)) == len(names)


async def test_an_operation_is_named_by_a_plain_verb_and_noun(document: dict[str, Any]) -> None:
    names = [described["operationId"] for _, _, described in list_operations(document)]

    assert "save_knowledge" in names
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


async def test_every_parameter_has_a_description_and_required_ones_come_first(document: dict[str, Any]) -> None:
    for method, path, described in list_operations(document):
        in_query = [item for item in described.get("parameters", ()) if item["in"] == "query"]
        required = [item["required"] for item in in_query]
        assert required == sorted(required, reverse=True), (method, path)
        for parameter in described.get("parameters", ()):
            assert parameter["description"], (method, path, parameter["name"])
            assert "description" not in parameter["schema"], (method, path, parameter["name"])
            assert parameter["in"] in {"path", "query", "header"}
            assert parameter["schema"].keys() & {"type", "anyOf", "enum"}, (method, path, parameter["name"])
            assert "null" not in str(parameter["schema"].get("anyOf"))


async def test_every_answer_names_its_headers_and_shows_an_example(document: dict[str, Any]) -> None:
    for method, path, described in list_operations(document):
        for status, answer in described["responses"].items():
            assert "X-Request-ID" in answer["headers"], (method, path, status)
            assert answer["content"], (method, path, status)
            for media_type, content in answer["content"].items():
                if media_type in {"application/json", PROBLEM}:
                    assert "example" in content, (method, path, status)
                else:
                    assert content["schema"]["type"] == "string", (method, path, status)


async def test_the_example_of_an_error_has_its_status(document: dict[str, Any]) -> None:
    for _, _, described in list_operations(document):
        for status, answer in described["responses"].items():
            example = answer.get("content", {}).get(PROBLEM, {}).get("example")
            if example is not None:
                assert example["status"] == int(status)
                assert ("errors" in example) == (status == "422")


async def test_every_example_of_an_answer_fits_its_model(app: FastAPI, document: dict[str, Any]) -> None:
    checked = 0
    for route in (route for route in app.routes if isinstance(route, Route)):
        for status, answer in route.answers.items():
            if not isinstance(answer, TextAnswer):
                described = document["paths"][route.path_format][route.method.lower()]["responses"][str(status)]
                answer.model.model_validate(described["content"]["application/json"]["example"])
                checked += 1
    assert checked > 70


async def test_no_schema_has_the_name_of_a_module(document: dict[str, Any]) -> None:
    assert [name for name in document["components"]["schemas"] if "__" in name or "-" in name] == []


async def test_head_answers_the_headers_of_get(api: httpx.AsyncClient) -> None:
    answered = await api.head("/api/knowledge")
    refused = await api.put("/api/knowledge", json={})

    assert answered.status_code == 200
    assert answered.headers["content-type"] == "application/json"
    assert refused.status_code == 405
    assert refused.headers["allow"] == "GET, HEAD, POST"


async def test_a_route_without_a_body_accepts_an_empty_object(api: httpx.AsyncClient) -> None:
    answered = await api.request("POST", "/api/maintenance/reindex", json={})
    refused = await api.request("POST", "/api/maintenance/reindex", json={"user_id": "li"})

    assert answered.status_code == 200
    assert refused.status_code == 422


async def test_every_route_describes_its_errors_as_problems(document: dict[str, Any]) -> None:
    for method, path, described in list_operations(document):
        answers = described["responses"]
        assert {"403", "431"} <= answers.keys(), (method, path)
        for status, answer in answers.items():
            if int(status) >= 400 and not (path == "/ready" and status == "503"):
                schema = answer["content"][PROBLEM]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, (method, path, status)
        if "{" in path:
            assert "404" in answers, (method, path)
        if method != "GET":
            assert {"400", "413", "415", "422", "503"} <= answers.keys(), (method, path)
            assert ("507" in answers) == ((method, path) not in WRITE_NOTHING), (method, path)


async def test_every_reference_resolves(document: dict[str, Any]) -> None:
    found = list(list_references(document))

    assert len(found) > 50
    for reference in found:
        place: Any = document
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]
        assert isinstance(place, dict)


async def test_a_generator_of_clients_finds_a_type_for_every_field(document: dict[str, Any]) -> None:
    # tests/e2e/test_generated_clients.py shows it with real ones; of another `anyOf` they make an empty type.
    found = list(alternatives(document["components"]["schemas"]))

    assert len(found) > 10
    for choices in found:
        named, null = choices
        assert null == {"type": "null"}, choices
        assert named.keys() & {"$ref", "enum"}, choices


async def test_every_route_with_a_body_shows_an_example(document: dict[str, Any]) -> None:
    with_body = [(method, path) for method, path, operation in list_operations(document) if "requestBody" in operation]

    assert {(method, path) for method, path, _ in list_examples(document)} == set(with_body)
    without_body = {
        path
        for method, path, operation in list_operations(document)
        if method in {"POST", "PUT", "PATCH"} and "requestBody" not in operation
    }
    assert without_body == READ_NO_BODY
    # A route that takes a file has no other way to say so.
    assert ("POST", "/api/keywords/import") in with_body


async def test_every_example_is_executed_and_a_retry_of_its_write_gets_the_first_answer(
    document: dict[str, Any], app: FastAPI, save_record: SaveRecord
) -> None:
    executed = 0
    retried, versioned = set(), set()
    async with client_of(app) as client:
        for method, path, (content_type, value) in list_examples(document):
            record = await save_record(f"for example {executed}")
            made, other = [await create_keyword(client, f"{name} {executed}") for name in ("made", "other")]
            on_it = await create_info(client, f"for example {executed}")
            stored = (await client.post("/api/resource", json={"id": f"examples/{executed}"})).json()
            kept = await commit_session(client, f"example-{executed}", "said for example")
            url = path.format(
                knowledge_id=record["id"],
                operation_id=record["operation_id"],
                keyword_id=made["id"],
                info_id=on_it["id"],
                resource_id=stored["id"],
                session_id=f"example-{executed}",
                event_id="none",
                host="claude",
                event="Stop",
            )
            for category, name in (("preferences", "report-language"), ("entities", "finance")):
                # It is there from the example before, or was moved by it.
                memory = {"category": category, "name": name, "content": "for example", "user_id": "li"}
                assert (await client.post("/api/context/nodes", json=memory)).status_code in (201, 409)
            if (method, path) == ("PATCH", "/api/context/nodes"):
                url += f"?uri={kept['archive']['archive_uri']}"
            content = (
                value if isinstance(value, str) else httpx.Request("POST", "http://h", json=value).content.decode()
            )
            content = content.replace(KEYWORD_ID, made["id"]).replace(OTHER_KEYWORD_ID, other["id"])
            parameters = document["paths"][path][method.lower()].get("parameters", ())
            if any(parameter["name"] == "If-Match" for parameter in parameters):
                outdated = {"Content-Type": content_type, "If-Match": '"99"'}
                refused = await client.request(method, url, content=content, headers=outdated)
                # The link is not there yet.
                version = None if method == "PUT" and "{info_id}" in path else 1
                assert (refused.status_code, refused.json().get("current_version")) == (409, version), (method, path)
                versioned.add((method, path))
            headers = {"Content-Type": content_type, "Idempotency-Key": f"example {executed}"}
            response = await client.request(method, url, content=content, headers=headers)
            # There is no dead letter without an embedder that fails, and nothing is missed without a model.
            is_answered = response.status_code == 404 if path.endswith(("/retry", "/missed")) else response.is_success
            assert is_answered, (method, path, response.text)
            executed += 1
            if "x-operation-id" in response.headers:
                again = await client.request(method, url, content=content, headers=headers)
                # The text of a key is answered once.
                first = response.json() | ({"key": None} if path == "/api/admin/keys" else {})
                assert (again.status_code, again.json()) == (response.status_code, first), (method, path)
                retried.add((method, path))
    takes_body = [found for found in list_operations(document) if "requestBody" in found[2]]
    assert versioned == {
        (method, path)
        for method, path, described in takes_body
        if any(parameter["name"] == "If-Match" for parameter in described.get("parameters", ()))
    }
    writing = {
        (method, path)
        for method, path, described in takes_body
        if any("X-Operation-Id" in answer.get("headers", ()) for answer in described["responses"].values())
    }
    assert {path for _, path in writing - retried} == EXAMPLE_WRITES_NOTHING
    assert retried <= writing


async def test_a_route_that_writes_nothing_declares_no_operation(document: dict[str, Any]) -> None:
    for method, path in WRITE_NOTHING:
        for status, answer in document["paths"][path][method.lower()]["responses"].items():
            assert "X-Operation-Id" not in answer["headers"], (method, path, status)


async def test_the_document_is_served_as_it_is_built(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    assert (await api.get("/openapi.json")).json() == document


def list_examples(document: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, Any]]]:
    for method, path, described in list_operations(document):
        for content_type, content in described.get("requestBody", {}).get("content", {}).items():
            for example in content["examples"].values():
                yield method, path, (content_type, example["value"])


def list_references(part: Any) -> Iterator[str]:  # noqa: ANN401 -- any part of a JSON document
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from list_references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from list_references(inner)


def alternatives(part: Any) -> Iterator[list[dict[str, Any]]]:  # noqa: ANN401 -- any part of a JSON document
    if isinstance(part, dict):
        if isinstance(part.get("anyOf"), list):
            yield part["anyOf"]
        for inner in part.values():
            yield from alternatives(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from alternatives(inner)
