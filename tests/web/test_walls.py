"""What a named caller must not see, keep or change, by ways that are easily forgotten; each was once open."""

import httpx
import pytest

from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

SECRET = "the secret that was written later"


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_vote_on_a_record_hidden_later_shows_and_undoes_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord, dry_run: bool
) -> None:
    record = await save_record(user_id="li", content="open", scopes=["public"])
    path = f"/api/knowledge/{record['id']}"
    vote = (await api.put(path, json={"user_id": "wang", "add_helpful_case": {}})).json()
    await api.patch(path, json={"user_id": "li", "scopes": ["user:owner"], "content": SECRET})

    undo = f"/api/operations/{vote['operation_id']}/undo"
    answer = await api.post(undo, json={"user_id": "wang", "dry_run": dry_run})

    assert answer.status_code == 404
    assert SECRET not in answer.text
    assert (await api.get(path, params={"user_id": "li"})).json()["eval"]["helpful"] == 2


async def test_a_refused_undo_names_only_visible_referrers(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    old = await save_record(user_id="li", agent_id="bot", content="old", owner="agent:bot", scopes=["public"])
    hidden = await save_record(content="hidden", owner="user:zhao", supersedes=old["id"])

    answer = await api.post(f"/api/operations/{old['operation_id']}/undo", json={"agent_id": "bot"})

    assert hidden["id"] not in answer.text
    assert answer.status_code == 200


async def test_an_undo_that_would_leave_an_empty_record_is_refused(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("", task="said here")
    path = f"/api/knowledge/{record['id']}"
    moved = (await api.patch(path, json={"content": "said there"})).json()
    await api.patch(path, json={"task": ""})

    answer = await api.post(f"/api/operations/{moved['operation_id']}/undo")

    assert answer.status_code == 409
    assert (await api.get(path)).json()["content"] == "said there"


async def test_maintenance_is_refused_to_named_callers_and_stays_in_its_account(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record(content="one")

    named = await api.post("/api/maintenance/reindex", params={"user_id": "wang"})
    elsewhere = await api.post("/api/maintenance/reindex", params={"account": "elsewhere"})
    with_body = await api.post("/api/maintenance/reindex", json={"wait": False})

    assert named.status_code == 403
    assert elsewhere.json() == {"records": 0}
    assert with_body.status_code == 422


async def test_a_caller_with_only_a_project_finds_its_records(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record(project_id="atlas", content="for the project")

    again = await api.post("/api/knowledge", json={"project_id": "atlas", "content": "for the project"})

    assert record["scopes"] == ["project:atlas"]
    assert (await api.get(f"/api/knowledge/{record['id']}", params={"project_id": "atlas"})).status_code == 200
    assert (again.status_code, again.json()["duplicate_of"]) == (200, record["id"])


async def test_an_id_of_200_characters_owns_lists_and_is_imported_again(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    name = "x" * 200
    record = await save_record(user_id=name, content="mine")
    exported = (await api.get("/api/knowledge/export")).content

    listed = await api.get("/api/knowledge", params={"owner": f"user:{name}"})
    imported = await api.post(
        "/api/knowledge/import",
        params={"on_conflict": "replace"},
        content=exported,
        headers={"content-type": "application/x-ndjson"},
    )

    assert listed.json()["results"][0]["id"] == record["id"]
    assert imported.json()["replaced"] == 1


async def test_two_origins_in_one_request_are_foreign(api: httpx.AsyncClient) -> None:
    headers = [("origin", "http://evil.example"), ("origin", "http://127.0.0.1:8000")]

    answer = await api.get("/health", headers=headers)

    assert answer.status_code == 403
