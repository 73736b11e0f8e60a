"""Snapshots over HTTP: made, listed, restored, undone and deleted, by the local principal alone."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.settings import Settings
from tests.web.conftest import OpenServer, SaveRecord

pytestmark = pytest.mark.anyio

SNAPSHOTS = "/api/maintenance/snapshots"


async def take_snapshot(api: httpx.AsyncClient) -> dict[str, Any]:
    answer = await api.post(SNAPSHOTS)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def list_contents(api: httpx.AsyncClient) -> set[str]:
    return {record["content"] for record in (await api.get("/api/knowledge")).json()["results"]}


async def test_a_snapshot_is_made_restored_and_the_restore_undone(
    api: httpx.AsyncClient, save_record: SaveRecord, open_second_server: OpenServer
) -> None:
    first = await save_record("as it was")
    snapshot = await take_snapshot(api)
    await api.patch(f"/api/knowledge/{first['id']}", json={"content": "changed since"})
    await save_record("written since")

    restored = await api.post(f"{SNAPSHOTS}/{snapshot['ts']}/restore")

    told = restored.json()
    assert (told["restored"], told["removed"], told["erased"]) == (1, 1, [])
    assert restored.headers["x-operation-id"] == told["operation_id"] == told["operation_ids"][-1]
    assert await list_contents(api) == {"as it was"}
    async with open_second_server() as other:
        assert await list_contents(other) == {"as it was"}
    listed = (await api.get("/api/operations", params={"limit": 1})).json()["results"][0]
    assert (listed["op"], listed["undoable"]) == ("restore_snapshot", True)
    undone = await api.post(f"/api/operations/{told['restore_id']}/undo")
    assert undone.json()["undone"] == told["operation_ids"]
    assert await list_contents(api) == {"changed since", "written since"}


async def test_snapshots_are_listed_newest_first_and_deleted_for_good(
    api: httpx.AsyncClient, save_record: SaveRecord, settings: Settings
) -> None:
    await save_record()
    first, second = await take_snapshot(api), await take_snapshot(api)

    listed = (await api.get(SNAPSHOTS)).json()
    deleted = await api.delete(f"{SNAPSHOTS}/{first['ts']}")

    assert listed == {"results": [second, first], "count": 2}
    path = Path(second["path"])
    assert path == settings.data_dir / "snapshots" / f"snapshot_{second['ts']}.tar.gz"
    assert path.stat().st_size == second["bytes"]  # noqa: ASYNC240 -- a test may wait
    assert (second["reason"], second["problem"], second["last_seq"]) == ("demand", None, 1)
    assert deleted.json() == {"ts": first["ts"], "deleted": True}
    assert (await api.get(SNAPSHOTS)).json()["results"] == [second]
    assert (await api.delete(f"{SNAPSHOTS}/{first['ts']}")).status_code == 404


async def test_a_damaged_snapshot_is_422_naming_the_member_and_changes_nothing(
    api: httpx.AsyncClient, save_record: SaveRecord
) -> None:
    await save_record("as it was")
    snapshot = await take_snapshot(api)
    await save_record("written since")
    path = Path(snapshot["path"])
    path.write_bytes(path.read_bytes()[:-30])  # noqa: ASYNC240 -- a test may wait

    refused = await api.post(f"{SNAPSHOTS}/{snapshot['ts']}/restore")

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "change_log/segment-00000001.jsonl"
    assert await list_contents(api) == {"as it was", "written since"}
    assert (await api.get(SNAPSHOTS)).json()["count"] == 1


async def test_a_restore_followed_by_a_write_cannot_be_undone(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("as it was")
    snapshot = await take_snapshot(api)
    await save_record("written since")
    restore_id = (await api.post(f"{SNAPSHOTS}/{snapshot['ts']}/restore")).json()["restore_id"]
    later = await save_record("written after the restore")

    refused = await api.post(f"/api/operations/{restore_id}/undo")

    assert refused.status_code == 409
    assert refused.json()["blocked_by"] == [later["operation_id"]]

    together = await api.post(f"/api/operations/{restore_id}/undo", json={"with_later": True})

    assert together.status_code == 200
    assert await list_contents(api) == {"as it was", "written since"}


async def test_a_long_restore_is_a_job_with_a_result(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("as it was")
    started = await api.post(SNAPSHOTS, params={"wait": "false"})
    snapshot = await wait_for_result(api, started)
    await save_record("written since")

    restoring = await api.post(f"{SNAPSHOTS}/{snapshot['ts']}/restore", params={"wait": "false"})

    assert (started.status_code, restoring.status_code) == (202, 202)
    assert (await wait_for_result(api, restoring))["removed"] == 1
    assert await list_contents(api) == {"as it was"}
    missing = await api.post(f"{SNAPSHOTS}/20200101T000000Z/restore", params={"wait": "false"})
    assert missing.status_code == 404


async def wait_for_result(api: httpx.AsyncClient, started: httpx.Response) -> dict[str, Any]:
    while True:
        job = (await api.get(f"/api/jobs/{started.json()['job_id']}")).json()
        if job["status"] != "running":
            assert job["status"] == "done", job
            result: dict[str, Any] = job["result"]
            return result
        await asyncio.sleep(0.01)


async def test_a_retried_restore_gets_the_first_answer(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("as it was")
    snapshot = await take_snapshot(api)
    await save_record("written since")
    path, key = f"{SNAPSHOTS}/{snapshot['ts']}/restore", {"Idempotency-Key": "once"}

    first = await api.post(path, headers=key)
    again = await api.post(path, headers=key)

    assert first.json() == again.json()
    assert first.json()["removed"] == 1


async def test_a_retry_of_a_running_restore_gets_its_job(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    await save_record("as it was")
    snapshot = await take_snapshot(api)
    await save_record("written since")
    path, key = f"{SNAPSHOTS}/{snapshot['ts']}/restore", {"Idempotency-Key": "once"}

    started, again = await asyncio.gather(
        api.post(path, params={"wait": "false"}, headers=key), api.post(path, headers=key)
    )

    assert (started.status_code, again.status_code) == (202, 200), again.text
    job = (await api.get(f"/api/jobs/{started.json()['job_id']}")).json()
    assert job["result"]["restore_id"] == again.json()["restore_id"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", SNAPSHOTS),
        ("GET", SNAPSHOTS),
        ("DELETE", f"{SNAPSHOTS}/20200101T000000Z"),
        ("POST", f"{SNAPSHOTS}/20200101T000000Z/restore"),
        ("GET", "/api/maintenance/audit"),
    ],
)
async def test_named_callers_may_not_use_snapshots_or_the_audit(api: httpx.AsyncClient, method: str, path: str) -> None:
    assert (await api.request(method, path, params={"user_id": "li"})).status_code == 403
