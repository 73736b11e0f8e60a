"""Saving a record: every field and default, duplicates, batches."""

import re
from typing import Any

import httpx
import pytest

from tests.web.conftest import SaveRecord

pytestmark = pytest.mark.anyio

MOMENT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
WHOLE: dict[str, Any] = {
    "task": "在什么场景下要完成什么目标",
    "content": "核心知识内容",
    "types": ["strategy", "tool"],
    "tags": {"category": "preference", "domain": "coding_style", "langs": ["python", "中文"]},
    "scopes": ["org:cybertogether"],
    "owner": "agent:research_agent",
    "resource_ids": ["code/selenium/login", "credentials/website_a"],
    "source": {
        "name": "资源名称",
        "category": "skill",
        "urls": ["https://example.com"],
        "agent_id": "research_agent",
        "submitted_by": "user@example.com",
        "timestamp": "2026-03-05T12:00:00Z",
        "message_id": "msg-xxx",
        "trace_id": "trace-1",
    },
    "score": 4,
    "valid_from": "2026-01-01T00:00:00Z",
    "valid_to": "2030-01-01T00:00:00Z",
}


async def test_a_record_keeps_every_field_that_was_sent(api: httpx.AsyncClient) -> None:
    response = await api.post("/api/knowledge", json=WHOLE)
    record = response.json()

    assert response.status_code == 201
    assert response.headers["location"] == f"/api/knowledge/{record['id']}"
    assert response.headers["etag"] == '"1"'
    assert response.headers["x-operation-id"] == record.pop("operation_id")
    assert record.pop("missing_resource_ids") == WHOLE["resource_ids"]
    fresh = {"helpful": 1, "harmful": 0, "confidence": 0.5, "helpful_history": [], "harmful_history": []}
    assert record == {
        **{name: value for name, value in WHOLE.items() if name != "score"},
        "id": record["id"],
        "type": "strategy",
        "message_id": "msg-xxx",
        "visibility": "org",
        "supersedes": None,
        "eval": {"score": 4, **fresh},
        "version": 1,
        "created_at": record["created_at"],
        "updated_at": record["created_at"],
    }


async def test_a_record_of_content_alone_has_the_defaults(save_record: SaveRecord) -> None:
    record = await save_record("pnpm, not npm, in this project")
    operation_id, created = record.pop("operation_id"), record["created_at"]

    assert operation_id
    assert MOMENT.match(created)
    assert re.fullmatch(rf"knowledge-{created[:10].replace('-', '')}-[0-9a-f]{{4}}", record.pop("id"))
    assert record == {
        "message_id": None,
        "types": ["strategy"],
        "type": "strategy",
        "task": "",
        "content": "pnpm, not npm, in this project",
        "tags": {},
        "scopes": ["user:owner"],
        "owner": "user:local",
        "visibility": "private",
        "resource_ids": [],
        "source": {
            "name": None,
            "category": "exp",
            "urls": [],
            "agent_id": None,
            "submitted_by": None,
            "timestamp": created,
            "message_id": None,
            "trace_id": None,
        },
        "valid_from": None,
        "valid_to": None,
        "supersedes": None,
        "eval": {
            "score": 3,
            "helpful": 1,
            "harmful": 0,
            "confidence": 0.5,
            "helpful_history": [],
            "harmful_history": [],
        },
        "version": 1,
        "created_at": created,
        "updated_at": created,
    }


@pytest.mark.parametrize("kind", ["user_profile", "strategy", "tool", "usecase", "definition", "plan"])
async def test_type_is_the_first_of_types(save_record: SaveRecord, kind: str) -> None:
    by_type = await save_record("one", type=kind)
    by_types = await save_record("two", types=["plan", kind])

    assert (by_type["types"], by_type["type"]) == ([kind], kind)
    assert by_types["types"] == list(dict.fromkeys(["plan", kind]))
    assert by_types["type"] == "plan"


@pytest.mark.parametrize(
    ("scopes", "visibility"),
    [
        (["user:li"], "private"),
        (["agent:crawler"], "private"),
        (["user:li", "user:chen"], "shared"),
        (["project:atlas"], "shared"),
        (["team:web"], "shared"),
        (["org:acme", "user:li"], "org"),
        (["public"], "public"),
        (["user:li", "public", "org:acme"], "public"),
    ],
)
async def test_visibility_is_derived_from_the_scopes(
    save_record: SaveRecord, scopes: list[str], visibility: str
) -> None:
    assert (await save_record(scopes=scopes))["visibility"] == visibility


async def test_a_visibility_that_is_sent_is_kept(save_record: SaveRecord) -> None:
    assert (await save_record(scopes=["user:li"], visibility="shared"))["visibility"] == "shared"


@pytest.mark.parametrize("sent", [{"message_id": "msg-1"}, {"source": {"message_id": "msg-1"}}])
async def test_a_message_id_is_answered_on_top_and_in_the_source(save_record: SaveRecord, sent: dict[str, Any]) -> None:
    record = await save_record(**sent)

    assert (record["message_id"], record["source"]["message_id"]) == ("msg-1", "msg-1")


async def test_single_resource_ids_are_folded_into_the_list(save_record: SaveRecord) -> None:
    record = await save_record(resource_ids=["code/a"], resource_id="code/b", secure_resource_id="credentials/c")

    assert record["resource_ids"] == ["code/a", "code/b", "credentials/c"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("li@example.com", "user:li@example.com"), ("agent:研究员", "agent:研究员"), ("user:王 小明", "user:王 小明")],
)
async def test_an_owner_is_a_principal_of_any_script(save_record: SaveRecord, sent: str, kept: str) -> None:
    assert (await save_record(owner=sent))["owner"] == kept


async def test_who_submitted_a_record_is_not_its_owner(save_record: SaveRecord) -> None:
    record = await save_record(source={"submitted_by": "chen@example.com", "agent_id": "crawler"})

    assert record["owner"] == "user:local"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-03-03", "2026-03-03T00:00:00Z"),
        ("2026-03-03T08:00:00+08:00", "2026-03-03T00:00:00Z"),
        ("2026-03-03T01:02:03.456Z", "2026-03-03T01:02:03.456Z"),
    ],
)
async def test_times_are_kept_in_utc(save_record: SaveRecord, sent: str, kept: str) -> None:
    record = await save_record(source={"timestamp": sent}, valid_from=sent)

    assert (record["source"]["timestamp"], record["valid_from"]) == (kept, kept)


async def test_saving_an_equal_record_answers_the_existing_one(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    first = await save_record("等待元素出现", task="Selenium 登录", types=["tool", "plan"], scopes=["user:a", "user:b"])

    again = {"content": " 等待元素出现\n", "task": "ＳＥＬＥＮＩＵＭ  登录"}
    response = await api.post(
        "/api/knowledge", json=again | {"types": ["plan", "tool"], "scopes": ["user:b", "user:a"]}
    )

    assert response.status_code == 200
    assert response.json() == {**first, "duplicate_of": first["id"], "operation_id": None}
    assert "x-operation-id" not in response.headers
    assert (await api.get("/api/knowledge")).json()["count"] == 1


@pytest.mark.parametrize(
    "other", [{"owner": "agent:x"}, {"scopes": ["public"]}, {"types": ["plan"]}, {"task": "another"}, {"dedup": False}]
)
async def test_another_owner_scope_type_or_text_makes_no_duplicate(
    save_record: SaveRecord, other: dict[str, Any]
) -> None:
    first = await save_record()

    second = await save_record(**other)

    assert second["id"] != first["id"]


async def test_deleted_records_and_other_accounts_are_no_duplicates(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first = await save_record()
    elsewhere = await save_record(account="other")
    await api.delete(f"/api/knowledge/{first['id']}")

    again = await save_record()

    assert len({first["id"], elsewhere["id"], again["id"]}) == 3


async def test_a_hidden_duplicate_is_not_revealed(save_record: SaveRecord) -> None:
    hidden = await save_record(owner="agent:crawler", scopes=["user:chen"], agent_id="crawler")

    first = await save_record(owner="user:chen", scopes=["user:li"], user_id="chen")

    assert first["id"] != hidden["id"]


async def test_a_batch_is_one_operation_with_its_duplicates_in_place(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    known = await save_record("known")
    items = [{"content": "new"}, {"content": "known"}, {"content": "NEW"}, {"content": "new", "dedup": False}]

    response = await api.post("/api/knowledge/batch", json={"items": items})
    answer = response.json()
    first, second, third, fourth = answer["results"]

    assert (response.status_code, answer["count"]) == (201, 4)
    assert answer["operation_id"] == response.headers["x-operation-id"] == first["operation_id"]
    assert (first["duplicate_of"], second["duplicate_of"], third["duplicate_of"]) == (None, known["id"], first["id"])
    assert (second["operation_id"], third["operation_id"]) == (None, None)
    assert fourth["id"] not in {first["id"], known["id"]}
    listed = (await api.get("/api/operations", params={"op": "save_knowledge_batch"})).json()
    assert listed["results"][0]["subjects"] == [first["id"], fourth["id"]]


async def test_a_batch_of_duplicates_alone_writes_nothing(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    known = await save_record("known")

    response = await api.post("/api/knowledge/batch", json={"items": [{"content": "known"}]})

    assert (response.status_code, response.json()["operation_id"]) == (200, None)
    assert response.json()["results"][0]["duplicate_of"] == known["id"]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"content": " ", "task": "\n"}, "items.1.content"),
        ({"content": "x", "score": 6}, "items.1.score"),
        ({"content": "x", "types": ["recipe"]}, "items.1.types.0"),
        ({"content": "x", "supersedes": "knowledge-1"}, "items.1.supersedes"),
        ({"content": "x", "valid_from": "2027-01-01", "valid_to": "2026-01-01"}, "items.1.valid_to"),
    ],
)
async def test_a_batch_with_one_bad_item_names_it_and_saves_none(
    api: httpx.AsyncClient, bad: dict[str, Any], field: str
) -> None:
    response = await api.post("/api/knowledge/batch", json={"items": [{"content": "good"}, bad]})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert (await api.get("/api/knowledge")).json()["count"] == 0


async def test_a_batch_has_at_most_a_thousand_items(api: httpx.AsyncClient) -> None:
    items = [{"content": f"number {number}"} for number in range(1001)]

    refused = await api.post("/api/knowledge/batch", json={"items": items})
    taken = await api.post("/api/knowledge/batch", json={"items": items[:1000]})
    empty = await api.post("/api/knowledge/batch", json={"items": []})

    assert (refused.status_code, taken.status_code, empty.status_code) == (422, 201, 422)
    assert refused.json()["errors"][0]["field"] == empty.json()["errors"][0]["field"] == "items"
    assert len({record["id"] for record in taken.json()["results"]}) == 1000


async def test_saving_an_equal_record_revives_one_that_was_voted_down(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("wait for the element")
    for number in range(4):
        goal = {"session_id": f"s{number}", "goal_id": "g", "outcome": "failure", "wrong": [record["id"]]}
        await api.post("/api/knowledge/outcome", json=goal)
    found = {"q": "wait for the element"}
    before = (await api.get("/api/knowledge/search", params=found)).json()["results"]

    again = await api.post("/api/knowledge", json={"content": "wait for the element"})
    once_more = await api.post("/api/knowledge", json={"content": "wait for the element"})
    after = (await api.get("/api/knowledge/search", params=found)).json()["results"]
    undone = await api.post(f"/api/operations/{again.json()['operation_id']}/undo")

    assert [item.get("warning") is not None for item in (*before, *after)] == [True, False]
    assert (again.status_code, again.json()["duplicate_of"], again.json()["restored"]) == (200, record["id"], True)
    assert (once_more.json()["operation_id"], "restored" in once_more.json()) == (None, False)
    assert after[0]["eval"]["effective"] == {"helpful": 0.0, "harmful": 0.0}
    assert after[0]["eval"]["harmful"] == 4
    assert undone.status_code == 200
    assert "warning" in (await api.get("/api/knowledge/search", params=found)).json()["results"][0]


@pytest.mark.parametrize("path", ["/api/knowledge", "/api/knowledge/batch"])
async def test_an_equal_save_by_its_owner_leaves_what_others_voted(
    api: httpx.AsyncClient, save_record: SaveRecord, path: str
) -> None:
    fields = {"content": "wait for the element", "scopes": ["public"], "user_id": "li"}
    record = await save_record(**fields)
    for number in range(10):
        goal = {"session_id": "s", "goal_id": "g", "outcome": "failure", "wrong": [record["id"]]}
        await api.post("/api/knowledge/outcome", json={**goal, "user_id": f"voter-{number}"})
    found = {"q": "wait for the element"}
    before = (await api.get("/api/knowledge/search", params=found)).json()["results"]

    item = {"content": fields["content"], "scopes": fields["scopes"]}
    answer = (await api.post(path, json={"user_id": "li"} | ({"items": [item]} if "batch" in path else item))).json()
    again = answer["results"][0] if "results" in answer else answer
    copy = await save_record(**fields, dedup=False)
    after = (await api.get("/api/knowledge/search", params=found)).json()["results"]

    assert (again["duplicate_of"], again["operation_id"], "restored" in again) == (record["id"], None, False)
    assert "check it" in again["warning"]
    assert {item["id"] for item in after} == {record["id"], copy["id"]}
    # A copy begins with the votes on the first.
    assert [item["eval"]["effective"] for item in after] == [before[0]["eval"]["effective"]] * 2
    assert all("warning" in item for item in after)


async def test_a_batch_revives_an_equal_record(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record("wait for the element")
    for number in range(4):
        goal = {"session_id": f"s{number}", "goal_id": "g", "outcome": "failure", "wrong": [record["id"]]}
        await api.post("/api/knowledge/outcome", json=goal)

    items = [{"content": "wait for the element"}, {"content": "new"}, {"content": "wait for the element"}]
    answer = (await api.post("/api/knowledge/batch", json={"items": items})).json()

    assert [item.get("restored", False) for item in answer["results"]] == [True, False, True]
    assert [item["duplicate_of"] for item in answer["results"]] == [record["id"], None, record["id"]]
