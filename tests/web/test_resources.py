"""Resources over HTTP, and the records that refer to them."""

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.settings import Settings
from tests.sealing import find_texts_in_files
from tests.web.conftest import OpenServer, SaveRecord, open_server

pytestmark = pytest.mark.anyio

ID = "credentials/website_a"
PATH = f"/api/resource/{ID}"
SECRET = "账号：user@example.com\n密码：SecurePass123"
CREDENTIAL = {
    "id": ID,
    "title": "某网站测试账号",
    "body": "使用方法：直接登录即可，每天限额 100 次",
    "secure_body": SECRET,
    "content_type": "credential",
    "metadata": {"acquired_at": "2026-03-06T10:00:00Z"},
}


async def save_resource(api: httpx.AsyncClient, **fields: object) -> dict[str, Any]:
    answer = await api.post("/api/resource", json={**CREDENTIAL, **fields})
    assert answer.status_code == 201, answer.text
    record: dict[str, Any] = answer.json()
    return record


async def test_a_saved_resource_is_answered_whole_with_its_location(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/resource", json=CREDENTIAL)

    record = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == PATH
    assert answer.headers["etag"] == '"1"'
    assert answer.headers["x-operation-id"] == record.pop("operation_id")
    assert {name: record[name] for name in ("title", "body", "content_type", "metadata")} == {
        name: CREDENTIAL[name] for name in ("title", "body", "content_type", "metadata")
    }
    assert (record["owner"], record["scopes"], record["expires_at"]) == ("user:local", ["user:owner"], None)
    assert (record["has_secure_body"], record["expired"]) == (True, False)
    assert (await api.get(answer.headers["location"])).json() == record


@pytest.mark.parametrize(
    "path", [PATH, "/api/resource/credentials%2Fwebsite_a", "/api/resource/credentials%2fwebsite_a"]
)
async def test_an_id_with_slashes_is_read_however_it_is_encoded(api: httpx.AsyncClient, path: str) -> None:
    await save_resource(api)

    assert (await api.get(path)).json()["id"] == ID
    assert (await api.get(path, params={"reveal": "true"})).json()["secure_body"] == SECRET


@pytest.mark.parametrize(
    "resource_id", ["密码/网站 甲", "a", "cookies/a?b#c", "x/.hidden/y", "a/b/.meta.json", "é" * 512]
)
async def test_an_id_of_any_script_survives_a_round_trip(api: httpx.AsyncClient, resource_id: str) -> None:
    made = await api.post("/api/resource", json={"id": resource_id})

    assert made.status_code == 201
    assert (await api.get(made.headers["location"])).json()["id"] == resource_id


@pytest.mark.parametrize(
    "resource_id",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/../b",
        "./a",
        "a/.",
        "a%2e",
        "a\\b",
        "a\nb",
        "a\x00b",
        "x" * 513,
        "．．/a",
        "a／..／b",
    ],
)
async def test_an_invalid_id_is_422(api: httpx.AsyncClient, resource_id: str) -> None:
    answer = await api.post("/api/resource", json={"id": resource_id})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "id"


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["a%252e", "a%5Cb", "%2Fa", "a%00b", "x" * 513, "a%2F%2e%2e%2Fb"])
async def test_a_path_with_an_invalid_id_is_422(api: httpx.AsyncClient, method: str, path: str) -> None:
    body = {"title": "x"} if method == "PATCH" else None

    answer = await api.request(method, f"/api/resource/{path}", json=body)

    assert answer.status_code == 422


async def test_a_taken_id_is_409_and_an_upsert_a_new_version(api: httpx.AsyncClient) -> None:
    await save_resource(api)

    taken = await api.post("/api/resource", json=CREDENTIAL)
    again = await api.post("/api/resource?upsert=true", json={**CREDENTIAL, "secure_body": "密码：2"})

    assert taken.status_code == 409
    assert (again.status_code, again.json()["version"]) == (200, 2)
    assert (await api.get(PATH, params={"reveal": True})).json()["secure_body"] == "密码：2"


async def test_a_hidden_id_is_a_conflict_without_details(api: httpx.AsyncClient) -> None:
    await save_resource(api, user_id="li")

    hidden = await api.post("/api/resource?upsert=true", json={"id": ID, "user_id": "wang"})
    own = await api.post("/api/resource", json={"id": ID, "user_id": "li"})

    assert hidden.status_code == 409
    assert hidden.json() == own.json()


async def test_a_change_needs_the_version_that_was_read(api: httpx.AsyncClient) -> None:
    await save_resource(api)

    first = await api.patch(PATH, json={"title": "new", "expires_at": "2020-01-01"}, headers={"If-Match": '"1"'})
    late = await api.patch(PATH, json={"title": "late"}, headers={"If-Match": '"1"'})
    gone = await api.delete(PATH, headers={"If-Match": '"2"'})

    assert (first.status_code, first.json()["expired"], first.json()["has_secure_body"]) == (200, True, True)
    assert (late.status_code, late.json()["current_version"]) == (409, 2)
    assert gone.status_code == 200
    assert (await api.get(PATH)).status_code == 404


async def test_a_reveal_names_its_line_in_the_log(api: httpx.AsyncClient) -> None:
    await save_resource(api, user_id="li", scopes=["user:owner", "agent:bot"])

    answer = await api.get(PATH, params={"reveal": "true", "agent_id": "bot"})

    assert answer.headers["cache-control"] == "no-store"
    operation_id = answer.json()["operation_id"]
    assert answer.headers["x-operation-id"] == operation_id
    line = (await api.get(f"/api/operations/{operation_id}", params={"user_id": "li"})).json()
    assert (line["op"], line["actor"], line["subjects"], line["undoable"]) == (
        "reveal_resource",
        "agent:bot",
        [ID],
        False,
    )
    listed = await api.get("/api/operations", params={"subject": ID, "op": "reveal_resource", "user_id": "li"})
    assert [result["operation_id"] for result in listed.json()["results"]] == [operation_id]
    assert (await api.post(f"/api/operations/{operation_id}/undo")).status_code == 409


async def test_a_public_resource_can_be_read_but_not_revealed(api: httpx.AsyncClient) -> None:
    await save_resource(api, user_id="li", scopes=["public"])

    read = await api.get(PATH, params={"user_id": "wang"})
    revealed = await api.get(PATH, params={"user_id": "wang", "reveal": "true"})

    assert (read.status_code, read.json()["has_secure_body"]) == (200, True)
    assert revealed.status_code == 403
    assert (await api.get(PATH, params={"user_id": "zhao", "reveal": "true"})).content == revealed.content


async def test_too_many_reveals_are_429_with_the_seconds_to_wait(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", owner="user:local", reveals_per_hour=2)
    async with open_server(settings, maintain=False) as api:
        await save_resource(api)

        answers = [await api.get(PATH, params={"reveal": "true"}) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1700 < int(answers[2].headers["retry-after"]) <= 1800


async def test_undo_restores_a_sealed_body_and_history_does_not_show_it(api: httpx.AsyncClient) -> None:
    first = await save_resource(api)
    changed = (await api.patch(PATH, json={"secure_body": "another", "title": "t"})).json()

    details = [await api.get(f"/api/operations/{item['operation_id']}") for item in (first, changed)]
    planned = await api.post(f"/api/operations/{changed['operation_id']}/undo", json={"dry_run": True})
    undone = await api.post(f"/api/operations/{changed['operation_id']}/undo")

    assert undone.status_code == 200
    for answer in (*details, planned, undone):
        assert "sealed" not in answer.text
        assert "nonce" not in answer.text
    shown = (await api.get(PATH, params={"reveal": "true"})).json()
    assert (shown["secure_body"], shown["title"], shown["version"]) == (SECRET, CREDENTIAL["title"], 3)


async def test_undoing_a_deletion_restores_the_sealed_body(api: httpx.AsyncClient) -> None:
    await save_resource(api)
    deleted = (await api.delete(PATH)).json()

    await api.post(f"/api/operations/{deleted['operation_id']}/undo")

    assert (await api.get(PATH, params={"reveal": "true"})).json()["secure_body"] == SECRET


async def test_an_erased_resource_is_gone_with_its_keys_and_keeps_its_id(
    api: httpx.AsyncClient, settings: Settings
) -> None:
    first = await save_resource(api, body="a body that only this resource has")
    await api.patch(PATH, json={"secure_body": "another"})

    erased = await api.delete(PATH, params={"erase": "true"})

    assert (erased.json()["erased"], erased.json()["pending"]) == (True, [])
    ring = (settings.data_dir / "keys" / "keyring.json").read_text()
    assert (ring.count("destroyed"), ring.count("wrapped")) == (2, 0)
    assert find_texts_in_files(settings.data_dir, ["a body that only this resource has", '"nonce"']) == []
    assert (await api.post(f"/api/operations/{first['operation_id']}/undo")).status_code == 409
    assert (await api.post("/api/resource", json={"id": ID})).status_code == 409


@pytest.mark.parametrize("first", ["reveal", "seal"])
async def test_a_body_sealed_by_another_process_can_be_opened_and_changed(
    api: httpx.AsyncClient, open_second_server: OpenServer, first: str
) -> None:
    async with open_second_server() as second:
        await save_resource(second)
        if first == "reveal":
            answer = await api.get(PATH, params={"reveal": "true"})
        else:
            answer = await api.patch(PATH, json={"secure_body": "sealed anew"})
        second_answer = (await second.get(PATH, params={"reveal": "true"})).json()["secure_body"]

    assert answer.status_code == 200
    assert second_answer == (SECRET if first == "reveal" else "sealed anew")


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_retry_is_answered_as_the_first_time_after_the_master_key_was_rotated(
    api: httpx.AsyncClient, hub: Hub, open_second_server: OpenServer, method: str
) -> None:
    path = "/api/resource" if method == "POST" else PATH
    body = {"secure_body": SECRET} | ({"id": ID} if method == "POST" else {})
    if method == "PATCH":
        await save_resource(api)
    headers = {"Idempotency-Key": "once"}
    first = await api.request(method, path, json=body, headers=headers)

    again = []
    for _ in range(2):
        await hub.vault.rotate()
        again.append(await api.request(method, path, json=body, headers=headers))
    async with open_second_server() as second:
        again.append(await second.request(method, path, json=body, headers=headers))
    differs = await api.request(method, path, json={**body, "secure_body": "another"}, headers=headers)

    assert first.status_code in {200, 201}
    assert [(item.status_code, item.content) for item in again] == [(first.status_code, first.content)] * 3
    assert differs.status_code == 422


async def test_a_record_with_a_missing_resource_is_saved_with_a_warning(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_resource(api, user_id="li")
    both = ["code/selenium/undetected_login", ID]

    hidden = await save_record("Log in with both.", resource_ids=both, user_id="wang", scopes=["public"])
    seen = await save_record("Log in with these.", resource_ids=both, user_id="li")
    none = await save_record("Log in with nothing.")
    batch = await api.post("/api/knowledge/batch", json={"items": [{"content": "x", "resource_ids": ["none/such"]}]})
    patch = await api.patch(f"/api/knowledge/{seen['id']}", json={"user_id": "li", "resource_ids": [ID]})

    assert hidden["missing_resource_ids"] == both
    assert seen["missing_resource_ids"] == both[:1]
    assert "missing_resource_ids" not in none
    assert batch.json()["results"][0]["missing_resource_ids"] == ["none/such"]
    assert "missing_resource_ids" not in patch.json()
    assert (await api.get(f"/api/knowledge/{hidden['id']}")).json()["resource_ids"] == both


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("secure_body", 5),
        ("secure_body", "half \ud800"),
        ("content_type", " "),
        ("metadata", ["a"]),
        ("metadata", {"expires_at": "soon"}),
        ("expires_at", "soon"),
        ("scopes", []),
        ("version", 3),
        ("created_at", "2026-01-01"),
        ("has_secure_body", True),
        ("sealed", {"key_id": "key-1"}),
        ("expired", False),
    ],
)
async def test_an_invalid_field_is_named_and_nothing_is_stored(
    api: httpx.AsyncClient, settings: Settings, field: str, value: object
) -> None:
    # As a careless client writes it: with half a surrogate pair escaped.
    body = json.dumps({**CREDENTIAL, field: value})

    answer = await api.post("/api/resource", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith(field)
    assert "SecurePass" not in answer.text
    assert not (settings.data_dir / "keys").exists()


async def test_invalid_parameters_are_refused(api: httpx.AsyncClient) -> None:
    answers = [
        await api.post("/api/resource?upsert=maybe", json=CREDENTIAL),
        await api.post("/api/resource?user_id=li", json=CREDENTIAL),
        await api.get("/api/resource", params={"limit": 0}),
        await api.get(PATH, params={"reveal": "perhaps"}),
    ]

    assert [answer.status_code for answer in answers] == [422] * 4


async def test_without_a_master_key_only_sealed_bodies_are_refused(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", owner="user:local", auth="api-key", root_key="r" * 40)
    headers = {"X-API-Key": "r" * 40}
    async with open_server(settings, maintain=False, headers=headers) as api:
        sealed = await api.post("/api/resource", json=CREDENTIAL)
        plain = await api.post("/api/resource", json={"id": "code/x", "body": "plain"})
        patched = await api.patch("/api/resource/code/x", json={"secure_body": SECRET})
        read = await api.get("/api/resource/code/x", params={"reveal": "true"})

    assert [item.status_code for item in (sealed, plain, patched, read)] == [503, 201, 503, 200]
    assert "KNOWHUB_SECRET_KEY" in sealed.json()["detail"]
    assert not (settings.data_dir / "keys" / "master.key").exists()


@pytest.mark.parametrize("lost", ["keys", "keys/keyring.json"])
async def test_lost_keys_are_not_replaced_and_can_be_put_back(
    hub: Hub, api: httpx.AsyncClient, settings: Settings, lost: str, tmp_path: Path
) -> None:
    await save_resource(api)
    await api.post("/api/resource", json={"id": "code/x", "body": "plain"})
    shutil.move(settings.data_dir / lost, tmp_path / "lost")

    shut = await api.get(PATH, params={"reveal": "true"})
    refused = await api.post("/api/resource", json={"id": "cookies/b", "secure_body": "crumbs"})
    resealed = await api.patch("/api/resource/code/x", json={"secure_body": "crumbs"})
    plain = await api.patch("/api/resource/code/x", json={"body": "still plain"})
    made = [name for name in ("master.key", "keyring.json") if (settings.data_dir / "keys" / name).exists()]

    assert [item.status_code for item in (shut, refused, resealed, plain)] == [503, 503, 503, 200]
    assert all("put back from a backup" in item.json()["detail"] for item in (refused, resealed))
    assert made == ([] if lost == "keys" else ["master.key"])

    shutil.rmtree(settings.data_dir / lost, ignore_errors=True)
    shutil.move(tmp_path / "lost", settings.data_dir / lost)
    opened = await api.get(PATH, params={"reveal": "true"})
    sealed = await api.post("/api/resource", json={"id": "cookies/b", "secure_body": "crumbs"})

    assert [opened.json()["secure_body"], sealed.status_code] == [SECRET, 201]


async def test_who_deletes_what_no_key_opens_can_seal_again(api: httpx.AsyncClient, settings: Settings) -> None:
    await save_resource(api)
    shutil.rmtree(settings.data_dir / "keys")

    await api.delete(PATH)
    sealed = await api.post("/api/resource", json={"id": "cookies/b", "secure_body": "crumbs"})
    opened = await api.get("/api/resource/cookies/b", params={"reveal": "true"})

    assert [sealed.status_code, opened.json().get("secure_body")] == [201, "crumbs"]


async def test_a_lost_master_key_locks_only_sealed_bodies(hub: Hub, api: httpx.AsyncClient, settings: Settings) -> None:
    await save_resource(api)
    key = settings.data_dir / "keys" / "master.key"
    kept = key.read_bytes()
    key.unlink()

    shut = await api.get(PATH, params={"reveal": "true"})
    other = await api.post("/api/resource", json={"id": "b", "secure_body": "x"})
    read = await api.get(PATH)
    key.write_bytes(kept)
    opened = await api.get(PATH, params={"reveal": "true"})

    assert [item.status_code for item in (shut, other, read, opened)] == [503, 503, 200, 200]
    assert [operation.op async for operation in hub.store.operations("default")] == ["reveal_resource", "save_resource"]
