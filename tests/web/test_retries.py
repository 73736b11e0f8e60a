"""`Idempotency-Key`: a repeated request gets the first answer, from any process and at any time."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.web.conftest import OpenServer, SaveRecord

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "retry-1"}
LINES = {"Content-Type": "application/x-ndjson"}


async def write(api: httpx.AsyncClient, kind: str, record: dict[str, Any]) -> httpx.Response:
    """Send a write of this kind with the idempotency key; every call sends the same bytes."""
    path = f"/api/knowledge/{record['id']}"
    vote = {"knowledge_id": record["id"], "is_helpful": True}
    json: dict[str, tuple[str, str, Any]] = {
        "save": ("POST", "/api/knowledge", {"content": "fresh", "dedup": False}),
        "batch": ("POST", "/api/knowledge/batch", {"items": [{"content": "a"}, {"content": "known"}]}),
        "patch": ("PATCH", path, {"content": "new", "version": 1}),
        "feedback": ("PUT", path, {"add_helpful_case": {}}),
        "batch_update": ("POST", "/api/knowledge/batch_update", {"feedback_list": [vote]}),
        "undo": ("POST", f"/api/operations/{record['operation_id']}/undo", {}),
        "delete": ("DELETE", path, None),
    }
    if kind == "import":
        line = b'{"id":"x","content":"imported"}'
        return await api.post("/api/knowledge/import", content=line, headers=KEY | LINES)
    method, url, body = json[kind]
    return await api.request(method, url, json=body, headers=KEY)


KINDS = ["save", "batch", "patch", "feedback", "batch_update", "undo", "delete", "import"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_retry_gets_the_first_answer_in_any_process(
    api: httpx.AsyncClient, save_record: SaveRecord, open_second_server: OpenServer, kind: str
) -> None:
    record = await save_record("known")
    async with open_second_server() as second:
        first = await write(api, kind, record)
        # What was written since does not change the answer.
        await save_record("later")
        here = await write(api, kind, record)
        second_answer = await write(second, kind, record)
        operations = (await second.get("/api/operations")).json()["count"]
    async with open_second_server() as reopened:
        later = await write(reopened, kind, record)

    assert first.is_success
    for again in (here, second_answer, later):
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["x-operation-id"] == first.headers["x-operation-id"]
    assert operations == 3


async def test_a_hundred_retries_at_once_write_once(api: httpx.AsyncClient) -> None:
    body = {"content": "fresh", "dedup": False}

    answers = await asyncio.gather(*(api.post("/api/knowledge", json=body, headers=KEY) for _ in range(100)))

    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert (await api.get("/api/knowledge")).json()["count"] == 1


async def test_the_same_key_with_another_body_is_refused(api: httpx.AsyncClient) -> None:
    await api.post("/api/knowledge", json={"content": "one"}, headers=KEY)

    refused = await api.post("/api/knowledge", json={"content": "two"}, headers=KEY)

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "Idempotency-Key"
    assert (await api.get("/api/knowledge")).json()["count"] == 1


async def test_a_retry_with_another_query_is_another_request(api: httpx.AsyncClient) -> None:
    line, url = b'{"id":"x","content":"imported"}', "/api/knowledge/import"
    await api.post(url, content=line, headers=KEY | LINES)

    refused = await api.post(url, content=line, headers=KEY | LINES, params={"on_conflict": "replace"})

    assert refused.status_code == 422


async def test_a_retry_key_belongs_to_one_caller_account_and_path(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    body = {"content": "fresh", "dedup": False}
    first = (await save_record(**body, account="default"))["id"]
    bodies = [body, body | {"user_id": "li"}, body | {"account": "other"}]
    ids = [(await api.post("/api/knowledge", json=item, headers=KEY)).json()["id"] for item in bodies]
    patched = await api.patch(f"/api/knowledge/{first}", json={"content": "x"}, headers=KEY)
    other = await api.patch(f"/api/knowledge/{ids[0]}", json={"content": "x"}, headers=KEY)

    assert len({first, *ids}) == 4
    assert (patched.json()["id"], other.json()["id"]) == (first, ids[0])


async def test_ids_that_differ_after_a_question_mark_have_separate_retry_keys(api: httpx.AsyncClient) -> None:
    lines = b'{"id":"a?1","content":"one"}\n{"id":"a?2","content":"two"}'
    await api.post("/api/knowledge/import", content=lines, headers=LINES)

    answers = [await api.put(f"/api/knowledge/a%3F{n}", json={"update_score": 5}, headers=KEY) for n in (1, 2)]

    assert [answer.json()["id"] for answer in answers] == ["a?1", "a?2"]


async def test_a_request_that_wrote_nothing_stores_no_retry_key(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("known")
    duplicate = await api.post("/api/knowledge", json={"content": "known"}, headers=KEY)
    await api.delete(f"/api/knowledge/{record['id']}")

    again = await api.post("/api/knowledge", json={"content": "known"}, headers=KEY)

    assert (duplicate.status_code, again.status_code) == (200, 201)


async def test_a_refused_write_stores_no_retry_key(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    path = f"/api/knowledge/{(await save_record())['id']}"
    refused = await api.patch(path, json={"content": "x", "version": 7}, headers=KEY)

    taken = await api.patch(path, json={"content": "x", "version": 1}, headers=KEY)

    assert (refused.status_code, taken.status_code) == (409, 200)


@pytest.mark.parametrize("key", ["", "x" * 201])
async def test_a_key_of_no_or_too_many_characters_is_refused(api: httpx.AsyncClient, key: str) -> None:
    response = await api.post("/api/knowledge", json={"content": "x"}, headers={"Idempotency-Key": key})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "Idempotency-Key"


async def test_a_retry_of_a_long_import_and_of_its_undo_answers_for_all_their_operations(
    api: httpx.AsyncClient, open_second_server: OpenServer
) -> None:
    lines = b"".join(b'{"id":"k-%d","content":"number %d"}\n' % (n, n) for n in range(2001))
    first = (await api.post("/api/knowledge/import", content=lines, headers=KEY | LINES)).json()
    undo = f"/api/operations/{first['import_id']}/undo"
    undone = (await api.post(undo, headers=KEY)).json()

    async with open_second_server() as reopened:
        again = (await reopened.post("/api/knowledge/import", content=lines, headers=KEY | LINES)).json()
        undone_again = (await reopened.post(undo, headers=KEY)).json()

    assert (len(first["operation_ids"]), again) == (3, first)
    assert (len(undone["operation_ids"]), undone_again) == (3, undone)
    assert (await api.get("/api/knowledge")).json()["count"] == 0
