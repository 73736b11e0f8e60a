"""The gate before every route where keys are asked for, and whose request it then is."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from knowhub.bootstrap import Hub
from knowhub.core.operation import Unchanged, View
from knowhub.identity.key_table import KeyTable
from knowhub.identity.model import KeyHolder
from knowhub.identity.service import IdentityService
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.web.request_guard import BODY
from tests.builders import CountedIds, FakeClock
from tests.keys import ROOT_KEY, issue_key, issue_key_text, key_headers, text_of
from tests.web.conftest import client_of, make_post_scope

pytestmark = pytest.mark.anyio

KEYS = "/api/admin/keys"
ROOT = {"X-API-Key": ROOT_KEY}


# ── the gate ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/version", "/docs", "/docs/assets/swagger-ui.css", "/openapi.json", "/"]
)
async def test_open_routes_answer_without_a_key_and_with_any_key(api: httpx.AsyncClient, path: str) -> None:
    for headers in ({}, key_headers("forged")):
        assert (await api.get(path, headers=headers, follow_redirects=True)).status_code == 200


async def test_every_other_path_requires_a_key(app: FastAPI, api: httpx.AsyncClient) -> None:
    open_paths = {"/", "/health", "/ready", "/version", "/docs", "/openapi.json"}
    routes = [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
        if path not in open_paths
    ]

    assert len(routes) > 40
    for method, path in [*routes, ("GET", "/api"), ("GET", "/api/nothing"), ("GET", "/debug")]:
        answer = await api.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["//api/knowledge", "/api//knowledge", "/%61pi/knowledge", "/docs/assets/../../api/knowledge", "/metrics/"]
)
async def test_no_spelling_of_a_path_bypasses_authentication(app: FastAPI, path: str) -> None:
    async with client_of(app) as client:
        url = httpx.URL("http://127.0.0.1:8000").copy_with(raw_path=path.encode())
        answer = await client.get(url)

    assert answer.status_code in {401, 404}
    assert "results" not in answer.text


@pytest.mark.parametrize("control", ["%0a", "%0A", "%00", "%0d", "%09", "%1f", "%7f", "%0d%0a"])
async def test_a_path_with_a_control_character_matches_no_row_or_route(app: FastAPI, control: str) -> None:
    body = {"id": "c/1", "body": "b", "secure_body": "what is sealed"}
    paths = [
        *(("GET", path) for path in ("/metrics", "/ready", "/api/knowledge", "/api/admin/keys", "/api/resource")),
        *(("GET", f"/api/resource/{path}") for path in ("c/1", f"c{control}/1")),
        ("PATCH", "/api/resource/c/1"),
        ("POST", "/api/context/sessions/s-1/distill"),
    ]
    # An unchecked client: these paths belong to no route.
    base = httpx.URL("http://127.0.0.1:8000")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client:
        await client.post("/api/resource", json=body, headers=ROOT)

        answers = [
            await client.request(
                method, httpx.URL("http://127.0.0.1:8000").copy_with(raw_path=raw.encode()), headers=ROOT
            )
            for method, path in paths
            for raw in (f"{path}{control}", f"{path}{control}?reveal=true")
        ]
        unkeyed = await client.get(f"/health{control}")

    assert unkeyed.status_code == 401
    for answer in answers:
        status = 422 if "/api/resource/" in str(answer.url) else 404
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert "what is sealed" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        [("X-API-Key", "KEY")],
        [("Authorization", "Bearer KEY")],
        [("Authorization", "bearer  KEY ")],
        [("X-API-Key", "KEY"), ("Authorization", "Bearer KEY")],
        [("X-API-Key", "KEY"), ("X-API-Key", "KEY")],
        [("X-API-Key", "KEY"), ("Authorization", "Basic bGk6bGk=")],
    ],
)
async def test_a_key_is_accepted_in_either_header_or_both(
    api: httpx.AsyncClient, hub: Hub, headers: list[tuple[str, str]]
) -> None:
    key = await issue_key_text(hub, "li")

    answer = await api.get("/api/knowledge", headers=[(name, value.replace("KEY", key)) for name, value in headers])

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-API-Key", "")],
        [("Authorization", "KEY")],
        [("Authorization", "Basic KEY")],
        [("Cookie", "X-API-Key=KEY")],
        [("X-API-Key", "KEY"), ("Authorization", "Bearer OTHER")],
        [("X-API-Key", "KEY"), ("X-API-Key", "OTHER")],
        [("X-API-Key", "KEY"), ("Authorization", "Bearer ")],
    ],
)
async def test_a_missing_key_or_two_different_keys_are_refused(
    api: httpx.AsyncClient, hub: Hub, headers: list[tuple[str, str]]
) -> None:
    key, other = await issue_key_text(hub, "li"), await issue_key_text(hub, "chen")
    sent = [(name, value.replace("KEY", key).replace("OTHER", other)) for name, value in headers]

    assert (await api.get("/api/knowledge", headers=sent)).status_code == 401
    assert (await api.get(f"/api/knowledge?api_key={key}", headers=sent)).status_code == 401


async def test_unknown_expired_and_revoked_keys_get_the_same_bytes(
    api: httpx.AsyncClient, hub: Hub, clock: FakeClock
) -> None:
    expired = await issue_key(hub, KeyHolder("li"), expires_at="2026-03-06")
    revoked, rotated = await issue_key(hub, KeyHolder("li")), await issue_key(hub, KeyHolder("li"))
    assert (await api.get("/api/knowledge", headers=key_headers(text_of(expired)))).status_code == 200
    await api.delete(f"{KEYS}/{revoked.key.key_id}", headers=ROOT)
    await api.post(f"{KEYS}/{rotated.key.key_id}/rotate", headers=ROOT)
    clock.advance(24 * 3600)

    keys = [text_of(expired), text_of(revoked), text_of(rotated), text_of(revoked)[:-1], "forged", "kh_x_y"]
    refused = [await api.get("/api/knowledge", headers=key_headers(key)) for key in keys]

    assert {(item.status_code, item.content) for item in refused} == {(401, refused[0].content)}
    assert all(key not in item.text for key, item in zip(keys, refused, strict=True))


async def test_a_request_without_a_key_is_refused_before_its_body_is_read(app: FastAPI) -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        pytest.fail("the body was asked for")

    async def send(message: Any) -> None:  # noqa: ANN401 -- an ASGI message
        sent.append(dict(message))

    scope = make_post_scope("/api/knowledge")
    await app(scope, receive, send)

    assert sent[0]["status"] == 401
    assert BODY not in scope


async def test_any_host_is_accepted_if_keys_are_required(api: httpx.AsyncClient, hub: Hub) -> None:
    headers = key_headers(await issue_key_text(hub, "li")) | {"Host": "hub.example.com:9000"}

    assert (await api.get("/api/knowledge", headers=headers)).status_code == 200
    assert (await api.get("/api/knowledge", headers={"Host": "hub.example.com"})).status_code == 401


class UnreadableStore:
    """A store whose log cannot be read."""

    async def refresh(self, account: str | None = None) -> None:
        raise OSError(5, "Input/output error")

    def view(self, account: str) -> View:
        raise OSError(5, "Input/output error")

    async def commit(self, *_: object) -> Unchanged:
        return Unchanged()

    async def commit_group(self, *_: object) -> list[Unchanged]:
        return []

    async def find_replay(self, *_: object) -> None:
        return None


async def test_an_unreadable_key_store_refuses_every_key(hub: Hub, clock: FakeClock) -> None:
    key = await issue_key_text(hub, "li")
    table = KeyTable([])
    identity = IdentityService(UnreadableStore(), table, clock, CountedIds(), None)
    hub.identity = identity
    app = create_app(hub.settings, hub)
    async with client_of(app) as client:
        answer = await client.get("/api/knowledge", headers=key_headers(key))

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


# ── whose request it is ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_record_belongs_to_the_user_and_account_of_its_key(api: httpx.AsyncClient, hub: Hub) -> None:
    key = text_of(await issue_key(hub, KeyHolder("li", "crawler"), account="acme"))

    saved = await api.post("/api/knowledge", json={"content": "wait"}, headers=key_headers(key))
    read = await api.get(f"/api/knowledge/{saved.json()['id']}", headers=ROOT, params={"account": "acme"})
    elsewhere = await api.get(f"/api/knowledge/{saved.json()['id']}", headers=ROOT)

    assert saved.status_code == 201
    assert (read.json()["owner"], read.json()["scopes"]) == ("user:li", ["user:owner"])
    assert elsewhere.status_code == 404


async def test_the_root_key_saves_for_root_or_a_named_user(api: httpx.AsyncClient) -> None:
    plain = await api.post("/api/knowledge", json={"content": "wait"}, headers=ROOT)
    named = [
        await api.post("/api/knowledge", json={"content": "wait", **ids}, headers=ROOT)
        for ids in ({"user_id": "li"}, {"agent_id": "bot"}, {"user_id": "wang", "agent_id": "bot"})
    ]

    owners = [answer.json()["owner"] for answer in (plain, *named)]
    assert owners == ["user:root", "user:li", "agent:bot", "user:wang"]
    operations = (await api.get("/api/operations", headers=ROOT)).json()["results"]
    assert {item["actor"] for item in operations} == {"user:root"}


async def test_ids_of_others_are_refused_in_body_and_query_alike(api: httpx.AsyncClient, hub: Hub) -> None:
    headers = key_headers(await issue_key_text(hub, "li"))

    for ids in ({"user_id": "chen"}, {"team_id": "web"}, {"account": "acme"}):
        by_query = await api.get("/api/knowledge", params=ids, headers=headers)
        by_body = await api.post("/api/knowledge", json={"content": "wait", **ids}, headers=headers)
        assert (by_query.status_code, by_body.status_code) == (403, 403)
    assert (await api.get("/api/knowledge", params={"user_id": "li"}, headers=headers)).status_code == 200


# ── what the document tells ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_document_describes_key_headers_and_open_routes(app: FastAPI, tmp_path: Path) -> None:
    asking, open_one = app.openapi(), create_app(Settings(data_dir=tmp_path / "open")).openapi()

    assert asking["components"]["securitySchemes"]["key"] == {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key, or the root key.",
    }
    assert asking["security"] == [{"key": []}, {"bearer": []}]
    assert asking["paths"]["/health"]["get"]["security"] == []
    assert "401" not in asking["paths"]["/health"]["get"]["responses"]
    assert "401" in asking["paths"]["/api/knowledge"]["get"]["responses"]
    assert open_one["components"]["securitySchemes"] == asking["components"]["securitySchemes"]
    assert open_one["security"] == [{}, *asking["security"]]
    assert open_one["paths"]["/health"]["get"]["security"] == []
