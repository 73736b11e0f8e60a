"""The OpenAPI document: whole, true, and every example of it works."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from knowhub.bootstrap import Hub
from knowhub.web.schemas.examples import KEYWORD_ID, OTHER_KEYWORD_ID
from tests.web.conftest import Saved, client_of
from tests.web.sessions import commit
from tests.web.trees import info, keyword

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"


@pytest.fixture
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
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
    }
    assert all(tag["description"] for tag in document["tags"])
    assert document["info"]["title"] == "KnowHub"


async def test_every_route_has_a_tag_a_summary_and_a_description(document: dict[str, Any]) -> None:
    known = {tag["name"] for tag in document["tags"]}
    for method, path, described in operations(document):
        assert len(described["tags"]) == 1, (method, path)
        assert described["tags"][0] in known
        assert described["summary"], (method, path)
        assert described["description"], (method, path)
    names = [described["operationId"] for _, _, described in operations(document)]
    assert len(set(names)) == len(names)


async def test_every_route_describes_its_errors_as_problems(document: dict[str, Any]) -> None:
    for method, path, described in operations(document):
        answers = described["responses"]
        assert "403" in answers, (method, path)
        for status, answer in answers.items():
            if int(status) >= 400 and not (path == "/ready" and status == "503"):
                schema = answer["content"][PROBLEM]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, (method, path, status)
        if "{" in path:
            assert "404" in answers, (method, path)
        if method != "GET":
            assert {"400", "413", "415", "422", "503", "507"} <= answers.keys(), (method, path)


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = list(references(document))

    assert len(found) > 50
    for reference in found:
        place: Any = document
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]
        assert isinstance(place, dict)


async def test_every_parameter_of_a_path_and_query_has_a_schema(document: dict[str, Any]) -> None:
    for method, path, described in operations(document):
        for parameter in described.get("parameters", ()):
            assert parameter["in"] in {"path", "query", "header"}
            assert parameter["schema"].keys() & {"type", "anyOf", "enum"}, (method, path, parameter["name"])
            assert "null" not in str(parameter["schema"].get("anyOf"))


async def test_every_route_with_a_body_shows_an_example(document: dict[str, Any]) -> None:
    with_body = [(method, path) for method, path, one in operations(document) if "requestBody" in one]

    assert {(method, path) for method, path, _ in examples(document)} == set(with_body)
    assert len(with_body) == 29


async def test_every_example_is_executed_and_answers_a_declared_success(
    document: dict[str, Any], app: FastAPI, saved: Saved
) -> None:
    executed = 0
    async with client_of(app) as client:
        for method, path, (content_type, value) in examples(document):
            record = await saved(f"for example {executed}")
            made, other = [await keyword(client, f"{name} {executed}") for name in ("made", "other")]
            on_it = await info(client, f"for example {executed}")
            stored = (await client.post("/api/resource", json={"id": f"examples/{executed}"})).json()
            kept = await commit(client, f"example-{executed}", "said for example")
            url = path.format(
                knowledge_id=record["id"],
                operation_id=record["operation_id"],
                keyword_id=made["id"],
                info_id=on_it["id"],
                resource_id=stored["id"],
                session_id=f"example-{executed}",
                event_id="none",
            )
            if path == "/api/context/nodes":
                url += f"?uri={kept['archive']['archive_uri']}"
            content = (
                value if isinstance(value, str) else httpx.Request("POST", "http://h", json=value).content.decode()
            )
            content = content.replace(KEYWORD_ID, made["id"]).replace(OTHER_KEYWORD_ID, other["id"])
            response = await client.request(method, url, content=content, headers={"Content-Type": content_type})
            # There is no dead letter without an embedder that fails.
            is_answered = response.status_code == 404 if path.endswith("/retry") else response.is_success
            assert is_answered, (method, path, response.text)
            executed += 1
    assert executed >= 26


async def test_the_document_is_served_as_it_is_built(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    assert (await api.get("/openapi.json")).json() == document


async def test_every_declared_success_has_a_schema_or_names_its_type(document: dict[str, Any], hub: Hub) -> None:
    for method, path, described in operations(document):
        for status, answer in described["responses"].items():
            if status.startswith("2"):
                assert answer["content"], (method, path, status)


def examples(document: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, Any]]]:
    for method, path, described in operations(document):
        for content_type, content in described.get("requestBody", {}).get("content", {}).items():
            for example in content["examples"].values():
                yield method, path, (content_type, example["value"])


def references(part: Any) -> Iterator[str]:  # noqa: ANN401 -- any part of a JSON document
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)
