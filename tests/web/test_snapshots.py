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
