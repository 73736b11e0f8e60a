"""History and undo over HTTP: filters, details, dry runs, conflicts by name, undo of undo, after a restart."""

from typing import Any

import httpx
import pytest

from tests.web.conftest import OpenServer, SaveRecord, read_pages
from tests.web.trees import undo

pytestmark = pytest.mark.anyio


async def test_an_operation_has_its_rows_when_read_but_not_when_listed(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("登录")

    (listed,) = (await api.get("/api/operations")).json()["results"]
    detail = (await api.get(f"/api/operations/{record['operation_id']}")).json()

    assert listed == {
        "operation_id": record["operation_id"],
        "seq": 1,
        "op": "save_knowledge",
        "actor": "user:local",
        "timestamp": listed["timestamp"],
        "subjects": [record["id"]],
        "undo_of": None,
        "undone_by": None,
        "undoable": True,
    }
    del record["operation_id"]
    change = {"collection": "knowledge", "id": record["id"], "before": None, "after": record}
    assert detail == listed | {"account": "default", "group_id": None, "changes": [change], "agent_io": None}


async def test_operations_are_filtered_by_kind_actor_row_and_time(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    first = await save_record("one", user_id="li")
    second = await save_record("two")
    await api.put(f"/api/knowledge/{second['id']}", json={"update_score": 5})
    (_, middle, _) = (await api.get("/api/operations")).json()["results"]

    async def seqs(**params: str) -> list[int]:
        return [result["seq"] for result in (await api.get("/api/operations", params=params)).json()["results"]]

    assert await seqs() == [3, 2, 1]
    assert await seqs(op="save_knowledge") == [2, 1]
    assert await seqs(actor="user:li") == [1]
    assert await seqs(subject=second["id"]) == [3, 2]
    assert await seqs(subject=first["id"], op="update_knowledge") == []
    assert await seqs(since="2") == [3]
    assert await seqs(since="2000-01-01") == [3, 2, 1]
    assert await seqs(since="2999-01-01T00:00:00Z") == []
    assert all(seq >= middle["seq"] for seq in await seqs(since=middle["timestamp"]))
    assert await seqs(account="other") == []


async def test_a_list_of_operations_is_paged_to_its_end(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    for number in range(5):
        await save_record(f"number {number}")

    pages = await read_pages(api, "/api/operations", limit=2)

    assert [[result["seq"] for result in page] for page in pages] == [[5, 4], [3, 2], [1]]


@pytest.mark.parametrize("unknown", ["x", "00000000-0009-8abc-a123-0123456789ab", "import-0", "%00", "a%2Fb"])
async def test_an_unknown_operation_is_404(api: httpx.AsyncClient, unknown: str) -> None:
    assert (await api.get(f"/api/operations/{unknown}")).status_code == 404
    assert (await undo(api, unknown)).status_code == 404


async def change_in_every_way(api: httpx.AsyncClient, record: dict[str, Any]) -> list[httpx.Response]:
    path = f"/api/knowledge/{record['id']}"
    vote = {"knowledge_id": record["id"], "is_helpful": False, "case": {"reason": "stale"}}
    line = f'{{"id":"{record["id"]}","content":"imported","eval":{{"helpful":9}}}}'
    return [
        await api.patch(path, json={"content": "new", "tags": {"a": "b"}, "source": {"name": "x"}}),
        await api.put(path, json={"add_helpful_case": {"outcome": "成功"}, "update_score": 5}),
        await api.post("/api/knowledge/batch_update", json={"feedback_list": [vote]}),
        await api.post(
            "/api/knowledge/import",
            content=line,
            headers={"Content-Type": "application/x-ndjson"},
            params={"on_conflict": "replace"},
        ),
        await api.delete(path),
    ]


async def test_every_change_of_a_record_is_undone_one_by_one_after_a_restart(
    api: httpx.AsyncClient, save_record: SaveRecord, open_second_server: OpenServer
) -> None:
    record = await save_record("old", types=["tool"])
    operation_ids = [item.json()["operation_id"] for item in await change_in_every_way(api, record)]

    async with open_second_server() as later:
        for operation_id in reversed(operation_ids):
            assert (await undo(later, operation_id)).status_code == 200
        restored = (await later.get(f"/api/knowledge/{record['id']}")).json()

    apart: dict[str, object] = {"version": None, "updated_at": None, "operation_id": None, "similar": []}
    assert restored | apart == record | apart
    assert restored["version"] == 11
    found = (await api.get("/api/knowledge/search", params={"q": "old"})).json()
    assert [result["id"] for result in found["results"]] == [record["id"]]


async def test_a_dry_run_of_an_undo_shows_its_changes_and_writes_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("old")
    path = f"/api/knowledge/{record['id']}"
    changed = (await api.patch(path, json={"content": "new"})).json()

    answer = (await undo(api, changed["operation_id"], dry_run=True)).json()

    (change,) = answer["changes"]
    assert (answer["dry_run"], answer["operation_id"], answer["operation_ids"]) == (True, None, [])
    assert answer["undone"] == [changed["operation_id"]]
    assert (change["before"]["content"], change["after"]["content"]) == ("new", "old")
    assert (await api.get(path)).json()["content"] == "new"
    assert (await api.get(f"/api/operations/{changed['operation_id']}")).json()["undone_by"] is None


async def test_a_later_edit_blocks_an_undo_by_name_but_a_vote_does_not(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record("old")
    path = f"/api/knowledge/{record['id']}"
    older = (await api.patch(path, json={"content": "new", "tags": {"a": "1"}})).json()
    newer = (await api.patch(path, json={"content": "newest"})).json()
    await api.put(path, json={"add_helpful_case": {"outcome": "good"}})

    for dry_run in (True, False):
        refused = await undo(api, older["operation_id"], dry_run=dry_run)
        assert refused.status_code == 409
        assert refused.json()["blocked_by"] == [newer["operation_id"]]

    await undo(api, newer["operation_id"])
    undone = (await undo(api, older["operation_id"])).json()
    assert undone["changes"][0]["after"]["content"] == "old"
    assert undone["changes"][0]["after"]["eval"]["helpful"] == 2


async def test_the_save_of_a_superseded_record_cannot_be_undone(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    old = await save_record("old")
    new = await save_record("new", supersedes=old["id"])

    refused = await undo(api, old["operation_id"])

    assert refused.status_code == 409
    assert refused.json()["blocked_by"] == [new["operation_id"]]


async def test_an_undo_can_be_undone_and_an_operation_only_once(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    record = await save_record()
    path = f"/api/knowledge/{record['id']}"

    first = (await undo(api, record["operation_id"])).json()
    again = await undo(api, record["operation_id"])
    gone = await api.get(path)
    redone = await undo(api, first["operation_id"])

    assert (again.status_code, again.json()["undone_by"]) == (409, first["operation_id"])
    assert gone.status_code == 404
    assert redone.status_code == 200
    assert (await api.get(path)).json()["version"] == 3
    answer = (await api.get("/api/operations", params={"subject": record["id"]})).json()["results"]
    assert [(item["op"], item["undo_of"]) for item in answer] == [
        ("undo_operation", first["operation_id"]),
        ("undo_operation", record["operation_id"]),
        ("save_knowledge", None),
    ]
    # After undo and redo neither the operation nor its undo counts as undone.
    assert [(item["undone_by"], item["undoable"]) for item in answer] == [
        (None, True),
        (redone.json()["operation_id"], False),
        (None, True),
    ]


async def test_undo_needs_the_rights_of_the_original(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    hidden = await save_record("hers", user_id="li")
    public = await save_record("for all", user_id="li", scopes=["public"])
    vote = (await api.put(f"/api/knowledge/{public['id']}", json={"add_helpful_case": {}, "user_id": "chen"})).json()

    assert (await undo(api, hidden["operation_id"], user_id="chen")).status_code == 404
    assert (await undo(api, public["operation_id"], user_id="chen")).status_code == 403
    assert (await undo(api, public["operation_id"], project_id="atlas")).status_code == 403
    assert (await undo(api, vote["operation_id"], user_id="chen")).status_code == 200
    assert (await undo(api, public["operation_id"], agent_id="bot", user_id="li")).status_code == 200
