"""The routes that make, list, replace and end keys."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder
from knowhub.settings import Settings
from tests.keys import ROOT_KEY, issue_key, issue_key_text, key_headers, text_of
from tests.web.conftest import open_server

pytestmark = pytest.mark.anyio

KEYS = "/api/admin/keys"
ROOT = {"X-API-Key": ROOT_KEY}


async def test_a_key_is_shown_once_and_listed_without_its_text(api: httpx.AsyncClient) -> None:
    wanted = {
        "account": "acme",
        "user_id": "li",
        "agent_id": "crawler",
        "role": "writer",
        "project_ids": ["atlas"],
        "team_ids": ["web", "web"],
        "org_ids": [],
        "expires_at": "2099-01-01",
    }

    made = await api.post(KEYS, json=wanted, headers=ROOT)
    listed = await api.get(KEYS, headers=ROOT)

    assert made.status_code == 201
    answer = made.json()
    assert answer["key"].startswith("kh_")
    expected = wanted | {"team_ids": ["web"], "expires_at": "2099-01-01T00:00:00Z"}
    assert {name: answer[name] for name in wanted} == expected
    assert made.headers["x-operation-id"] == answer["operation_id"]
    (key,) = listed.json()["results"]
    assert key["key_id"] == answer["key_id"]
    assert answer["key"] not in listed.text
    assert "hash" not in made.text + listed.text
    assert (await api.get("/api/knowledge", headers=key_headers(answer["key"]))).status_code == 200
    assert (await api.get(KEYS, headers=ROOT)).json()["results"][0]["last_used_at"] is not None


async def test_an_admin_manages_only_the_keys_of_their_account(api: httpx.AsyncClient, hub: Hub) -> None:
    admin = key_headers(await issue_key_text(hub, "boss", Role.ADMIN, account="acme"))
    foreign = await issue_key(hub, KeyHolder("li"))

    made = await api.post(KEYS, json={"user_id": "chen", "role": "reader"}, headers=admin)
    named = await api.post(KEYS, json={"user_id": "ann", "role": "admin", "account": "acme"}, headers=admin)
    elsewhere = await api.post(KEYS, json={"user_id": "ann", "account": "default"}, headers=admin)
    listed = await api.get(KEYS, headers=admin)

    assert (made.status_code, named.status_code, elsewhere.status_code) == (201, 201, 403)
    assert made.json()["account"] == "acme"
    assert [result["user_id"] for result in listed.json()["results"]] == ["boss", "chen", "ann"]
    assert (await api.get(KEYS, params={"account": "default"}, headers=admin)).status_code == 403
    for verb in ("", "/rotate"):
        method = "POST" if verb else "DELETE"
        body = set()
        for key_id in (foreign.key.key_id, "key-0000000000000000"):
            answer = await api.request(method, f"{KEYS}/{key_id}{verb}", headers=admin)
            body.add((answer.status_code, answer.text.replace(key_id, "KEY")))
        ((status, text),) = body
        assert status == 404
        assert "no key with id 'KEY'" in text


async def test_the_root_key_rotates_and_revokes_in_any_account_named_or_not(api: httpx.AsyncClient, hub: Hub) -> None:
    key = await issue_key(hub, KeyHolder("li"), account="acme")

    wrong = await api.post(f"{KEYS}/{key.key.key_id}/rotate", params={"account": "other"}, headers=ROOT)
    rotated = await api.post(f"{KEYS}/{key.key.key_id}/rotate", headers=ROOT, json={})
    revoked = await api.delete(f"{KEYS}/{rotated.json()['key_id']}", params={"account": "acme"}, headers=ROOT)
    again = await api.delete(f"{KEYS}/{rotated.json()['key_id']}", headers=ROOT)

    assert wrong.status_code == 404
    assert (rotated.status_code, rotated.json()["replaces"]) == (200, key.key.key_id)
    assert (await api.post(f"{KEYS}/{key.key.key_id}/rotate", headers=ROOT)).status_code == 409
    assert revoked.json()["operation_id"] is not None
    assert again.json() == {"operation_id": None}
    for text in (text_of(key), rotated.json()["key"]):
        assert (await api.get("/api/knowledge", headers=key_headers(text))).status_code == 401


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "user_id"),
        ({"user_id": "owner"}, "user_id"),
        ({"user_id": ""}, "user_id"),
        ({"user_id": "root"}, "user_id"),
        ({"user_id": "Root", "agent_id": "crawler"}, "user_id"),
        ({"user_id": "ｒｏｏｔ"}, "user_id"),
        ({"user_id": " ro\u200bot "}, "user_id"),
        ({"user_id": "user:root", "role": "admin"}, "user_id"),
        ({"agent_id": "USER：ROOT"}, "agent_id"),
        ({"user_id": "li", "role": "root"}, "role"),
        ({"user_id": "li", "role": None}, "role"),
        ({"user_id": "li", "expires_at": "2020-01-01"}, "expires_at"),
        ({"user_id": "li", "expires_at": "soon"}, "expires_at"),
        ({"user_id": "li", "project_ids": ["a\nb"]}, "project_ids.0"),
        ({"user_id": "li", "team_ids": "web"}, "team_ids"),
        ({"user_id": "li", "org_ids": ["o"] * 51}, "org_ids"),
        ({"user_id": "li", "team_id": "web"}, "team_id"),
        ({"user_id": "li", "key": "kh_mine"}, "key"),
        ({"user_id": "li", "hash": "00"}, "hash"),
        ({"user_id": "li", "id": "key-1"}, "id"),
        ({"user_id": "li", "revoked_at": None}, "revoked_at"),
        ({"user_id": "li", "version": 7}, "version"),
    ],
)
async def test_an_invalid_key_request_is_refused_by_field(
    api: httpx.AsyncClient, wrong: dict[str, Any], field: str
) -> None:
    answer = await api.post(KEYS, json=wrong, headers=ROOT)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert (await api.get(KEYS, headers=ROOT)).json()["count"] == 0


@pytest.mark.parametrize("wanted", [{"user_id": "roots"}, {"agent_id": "root"}, {"user_id": "toor"}])
async def test_a_name_similar_to_the_root_key_is_allowed(api: httpx.AsyncClient, wanted: dict[str, str]) -> None:
    assert (await api.post(KEYS, json=wanted, headers=ROOT)).status_code == 201


async def test_a_retry_creates_no_second_key_and_shows_no_text(api: httpx.AsyncClient) -> None:
    headers = ROOT | {"Idempotency-Key": "once"}

    first, again = [await api.post(KEYS, json={"user_id": "li"}, headers=headers) for _ in range(2)]

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["key_id"] == first.json()["key_id"]
    assert (first.json()["key"] is None, again.json()["key"]) == (False, None)


async def test_key_operations_show_no_hash_and_cannot_be_undone(api: httpx.AsyncClient, hub: Hub) -> None:
    made = await api.post(KEYS, json={"user_id": "li"}, headers=ROOT)
    operation = f"/api/operations/{made.json()['operation_id']}"

    answer, undone = await api.get(operation, headers=ROOT), await api.post(f"{operation}/undo", headers=ROOT)
    by_holder = await api.get(operation, headers=key_headers(made.json()["key"]))

    assert answer.json()["changes"][0]["after"]["user_id"] == "li"
    assert "hash" not in answer.text
    assert (undone.status_code, undone.json()["undoable"]) == (409, False)
    assert by_holder.status_code == 404


async def test_without_auth_only_the_local_principal_creates_keys(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "open", owner="user:local")
    async with open_server(settings) as client:
        made = await client.post(KEYS, json={"user_id": "li"})
        listed = [await client.get(KEYS, params=params) for params in ({}, {"user_id": "li"})]

    assert made.status_code == 201
    assert [item.status_code for item in listed] == [200, 403]
