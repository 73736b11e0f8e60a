"""Changing a record: PATCH, DELETE, feedback one by one and in batches, versions."""

from typing import Any

import httpx
import pytest

from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio


async def test_a_patch_changes_only_the_fields_it_names(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("old", task="kept", tags={"a": "1"}, resource_ids=["code/a"])
    assert record.pop("missing_resource_ids") == ["code/a"]
    patch = {
        "content": "new",
        "types": ["plan", "tool", "plan"],
        "tags": {"b": "2"},
        "scopes": ["project:atlas", "project:atlas"],
        "resource_ids": [],
        "valid_from": "2026-01-01",
    }

    response = await api.patch(f"/api/knowledge/{record['id']}", json=patch)
    changed = response.json()

    assert (response.status_code, response.headers["etag"]) == (200, '"2"')
    assert changed == record | {
        "content": "new",
        "types": ["plan", "tool"],
        "type": "plan",
        "tags": {"b": "2"},
        "scopes": ["project:atlas"],
        "visibility": "shared",
        "resource_ids": [],
        "valid_from": "2026-01-01T00:00:00Z",
        "version": 2,
        "operation_id": changed["operation_id"],
        "updated_at": changed["updated_at"],
    }
    assert changed["operation_id"] not in {None, record["operation_id"]}
    assert changed["updated_at"] >= record["updated_at"]


async def test_null_clears_a_time_and_omitting_it_keeps_it(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record(valid_from="2026-01-01", valid_to="2030-01-01")

    changed = (await api.patch(f"/api/knowledge/{record['id']}", json={"valid_from": None})).json()

    assert (changed["valid_from"], changed["valid_to"]) == (None, "2030-01-01T00:00:00Z")


async def test_a_source_is_patched_by_field_and_null_restores_the_default(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    source = {"name": "docs", "category": "paper", "urls": ["https://a"], "timestamp": "2026-01-01", "message_id": "m"}
    record = await save_record(source=source)
    path = f"/api/knowledge/{record['id']}"

    kept = (await api.patch(path, json={"source": {"message_id": "n"}})).json()
    cleared = await api.patch(path, json={"source": dict.fromkeys(source)})

    assert (kept["message_id"], kept["source"]) == ("n", record["source"] | {"message_id": "n"})
    assert cleared.json()["message_id"] is None
    assert cleared.json()["source"] == record["source"] | {
        "name": None,
        "category": "exp",
        "urls": [],
        "timestamp": record["created_at"],
        "message_id": None,
    }


@pytest.mark.parametrize("patch", [{}, {"content": "same"}, {"tags": {}}, {"scopes": ["user:owner"]}, {"type": "tool"}])
async def test_a_patch_that_changes_nothing_writes_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord, patch: dict[str, Any]
) -> None:
    record = await save_record("same", types=["tool"])

    response = await api.patch(f"/api/knowledge/{record['id']}", json=patch)

    assert response.json() == record | {"operation_id": None}
    assert "x-operation-id" not in response.headers


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"content": " "}, "content"),
        ({"valid_to": "2020-01-01"}, "valid_to"),
        ({"scopes": []}, "scopes"),
        ({"types": []}, "types"),
        ({"type": "plan", "types": ["tool"]}, "body"),
        ({"owner": "user:chen"}, "owner"),
        ({"eval": {"helpful": 99}}, "eval"),
        ({"score": 5}, "score"),
        ({"id": "x"}, "id"),
        ({"created_at": "2020-01-01"}, "created_at"),
        ({"visibility": "public"}, "visibility"),
        ({"resource_ids": ["../keys"]}, "resource_ids.0"),
        *(({name: None}, name) for name in ("task", "content", "types", "tags", "scopes", "resource_ids", "source")),
    ],
)
async def test_an_invalid_patch_is_refused_by_field(
    api: httpx.AsyncClient, save_record: SaveRecord, patch: dict[str, Any], field: str
) -> None:
    record = await save_record(valid_from="2026-01-01")

    response = await api.patch(f"/api/knowledge/{record['id']}", json=patch)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert (await api.get(f"/api/knowledge/{record['id']}")).json()["version"] == 1


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
async def test_a_change_of_an_outdated_version_is_409_with_the_current_version(
    api: httpx.AsyncClient, save_record: SaveRecord, method: str
) -> None:
    record = await save_record()
    path = f"/api/knowledge/{record['id']}"
    await api.patch(path, json={"content": "newer"})
    body = {"PATCH": {"content": "lost"}, "PUT": {"update_score": 5}, "DELETE": None}[method]

    refused = await api.request(method, path, json=body, headers={"If-Match": '"1"'})
    taken = await api.request(method, path, json=body, headers={"If-Match": 'W/"2"'})

    assert (refused.status_code, refused.json()["current_version"]) == (409, 2)
    assert taken.status_code == 200


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"content": "new"}), ("PUT", {"update_score": 5})])
async def test_the_expected_version_may_be_in_the_body(
    api: httpx.AsyncClient, save_record: SaveRecord, method: str, body: dict[str, Any]
) -> None:
    path = f"/api/knowledge/{(await save_record())['id']}"

    wrong = await api.request(method, path, json=body | {"version": 2})
    both = await api.request(method, path, json=body | {"version": 1}, headers={"If-Match": '"2"'})
    right = await api.request(method, path, json=body | {"version": 1}, headers={"If-Match": "*"})

    assert (wrong.status_code, both.status_code, right.status_code) == (409, 422, 200)


@pytest.mark.parametrize("tag", ["1", '"one"', '"-1"', '"1", "2"', "", '"1234567890123456"'])
async def test_an_invalid_if_match_is_refused(api: httpx.AsyncClient, save_record: SaveRecord, tag: str) -> None:
    path = f"/api/knowledge/{(await save_record())['id']}"

    response = await api.patch(path, json={"content": "new"}, headers={"If-Match": tag})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "If-Match"


async def test_a_deleted_record_is_gone_for_every_reader_and_writer(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait for the table")
    path = f"/api/knowledge/{record['id']}"

    deleted = await api.delete(path)

    assert deleted.json() == {"operation_id": deleted.headers["x-operation-id"]}
    assert (await api.get(path)).status_code == 404
    assert (await api.patch(path, json={"content": "x"})).status_code == 404
    assert (await api.put(path, json={"update_score": 1})).status_code == 404
    assert (await api.delete(path)).status_code == 404
    assert (await api.get("/api/knowledge")).json()["count"] == 0
    assert (await api.get("/api/knowledge/search", params={"q": "table"})).json()["count"] == 0
    assert (await api.get(f"{path}/history")).json()["count"] == 2


async def test_feedback_parts_combine(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record()
    cases = {
        "add_helpful_case": {"task": "登录", "outcome": "成功", "timestamp": "2026-03-05T12:00:00Z"},
        "add_harmful_case": {"task": "登录", "outcome": "封禁", "reason": "太频繁", "query": "q", "trace_id": "t"},
    }

    response = await api.put(f"/api/knowledge/{record['id']}", json=cases | {"update_score": 5})
    evaluation = response.json()["eval"]

    assert (response.status_code, response.headers["etag"], response.json()["version"]) == (200, '"2"', 2)
    assert (evaluation["score"], evaluation["helpful"], evaluation["harmful"]) == (5, 2, 1)
    # The helpful case came first, so it weighs less.
    assert 0.4 < evaluation["confidence"] < 0.5
    assert evaluation["helpful_history"] == [cases["add_helpful_case"]]
    (harmful,) = evaluation["harmful_history"]
    assert harmful.pop("timestamp") == response.json()["updated_at"]
    assert harmful == cases["add_harmful_case"]


async def test_confidence_rises_and_falls_with_the_evidence(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    path = f"/api/knowledge/{(await save_record())['id']}"

    better = [(await api.put(path, json={"add_helpful_case": {}})).json()["eval"]["confidence"] for _ in range(3)]
    worse = [(await api.put(path, json={"add_harmful_case": {}})).json()["eval"]["confidence"] for _ in range(3)]

    assert [0.5, *better] == sorted([0.5, *better])
    assert worse == sorted(worse, reverse=True)
    assert all(0 < confidence < 1 for confidence in better + worse)


async def test_a_history_of_cases_shows_the_last_fifty(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record()
    votes = [
        {"knowledge_id": record["id"], "is_helpful": True, "case": {"outcome": str(number)}} for number in range(60)
    ]

    await api.post("/api/knowledge/batch_update", json={"feedback_list": votes})

    evaluation = (await api.get(f"/api/knowledge/{record['id']}")).json()["eval"]
    assert evaluation["helpful"] == 61
    assert [case["outcome"] for case in evaluation["helpful_history"]] == [str(number) for number in range(10, 60)]


@pytest.mark.parametrize("body", [{}, {"update_score": 3}, {"add_helpful_case": None}])
async def test_empty_feedback_writes_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord, body: dict[str, Any]
) -> None:
    record = await save_record()

    response = await api.put(f"/api/knowledge/{record['id']}", json=body)

    assert response.json() == record | {"operation_id": None}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"update_score": 0}, "update_score"),
        ({"update_score": 6}, "update_score"),
        ({"update_score": 3.5}, "update_score"),
        ({"update_score": "4"}, "update_score"),
        ({"update_score": True}, "update_score"),
        ({"add_helpful_case": "good"}, "add_helpful_case"),
        ({"add_helpful_case": {"mood": "x"}}, "add_helpful_case.mood"),
        ({"add_harmful_case": {"timestamp": "soon"}}, "add_harmful_case.timestamp"),
        ({"evolve_feedback": " "}, "evolve_feedback"),
        ({"helpful": 5}, "helpful"),
    ],
)
async def test_wrong_feedback_is_refused_by_field(
    api: httpx.AsyncClient, save_record: SaveRecord, body: dict[str, Any], field: str
) -> None:
    record = await save_record()

    response = await api.put(f"/api/knowledge/{record['id']}", json=body)

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field


async def test_batch_feedback_names_unknown_ids_and_applies_the_rest(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    good, bad = await save_record("good"), await save_record("bad")
    deleted = await save_record("deleted")
    await api.delete(f"/api/knowledge/{deleted['id']}")
    votes = [
        {"knowledge_id": good["id"], "is_helpful": True, "case": {"outcome": "成功"}},
        {"knowledge_id": "knowledge-20260101-0000", "is_helpful": True},
        {"knowledge_id": bad["id"], "is_helpful": False},
        {"knowledge_id": deleted["id"], "is_helpful": False},
        {"knowledge_id": good["id"], "is_helpful": True, "case": {}},
    ]

    response = await api.post("/api/knowledge/batch_update", json={"feedback_list": votes})
    answer = response.json()

    assert [result["status"] for result in answer["results"]] == ["applied", "unknown", "applied", "unknown", "applied"]
    assert [result["knowledge_id"] for result in answer["results"]] == [vote["knowledge_id"] for vote in votes]
    assert (answer["count"], answer["operation_id"]) == (5, response.headers["x-operation-id"])
    first = (await api.get(f"/api/knowledge/{good['id']}")).json()
    second = (await api.get(f"/api/knowledge/{bad['id']}")).json()
    assert (first["eval"]["helpful"], first["version"]) == (3, 2)
    assert (second["eval"]["harmful"], len(second["eval"]["harmful_history"])) == (1, 1)


async def test_batch_feedback_on_unknown_ids_alone_writes_nothing(api: httpx.AsyncClient) -> None:
    votes = [{"knowledge_id": "knowledge-1", "is_helpful": True}]

    answer = (await api.post("/api/knowledge/batch_update", json={"feedback_list": votes})).json()

    expected = [{"knowledge_id": "knowledge-1", "status": "unknown"}]
    assert answer == {"results": expected, "count": 1, "operation_id": None}
