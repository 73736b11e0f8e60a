"""A disk that fails: writes are refused with a reason, reads go on, and a full one recovers by itself."""

import errno
from collections.abc import AsyncIterator

import httpx
import pytest

from knowhub.bootstrap import open_hub
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.web.conftest import client_of
from tests.web.trees import create_info, create_keyword, read_everything

pytestmark = pytest.mark.anyio

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def disk() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
async def api(settings: Settings, disk: FaultyFileSystem) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        open_hub(settings, Overrides(files=disk), maintain=False) as hub,
        client_of(create_app(settings, hub)) as client,
    ):
        yield client


async def send_every_write(api: httpx.AsyncClient, record: dict[str, str]) -> list[httpx.Response]:
    path = f"/api/knowledge/{record['id']}"
    vote = {"knowledge_id": record["id"], "is_helpful": True}
    return [
        await api.post("/api/knowledge", json={"content": "new"}),
        await api.post("/api/knowledge/batch", json={"items": [{"content": "new"}]}),
        await api.patch(path, json={"content": "new"}),
        await api.put(path, json={"add_helpful_case": {}}),
        await api.post("/api/knowledge/batch_update", json={"feedback_list": [vote]}),
        await api.post("/api/knowledge/import", content=b'{"content":"new"}', headers=LINES),
        await api.post(f"/api/operations/{record['operation_id']}/undo", json={}),
        await api.delete(path),
    ]


async def are_reads_answered(api: httpx.AsyncClient, record: dict[str, str]) -> bool:
    answers = [
        await api.get(f"/api/knowledge/{record['id']}"),
        await api.get("/api/knowledge"),
        await api.get("/api/knowledge/search", params={"q": "kept"}),
        await api.get("/api/knowledge/export"),
        await api.get("/api/operations"),
    ]
    return [answer.status_code for answer in answers] == [200] * 5 and all(
        "kept" in answer.text for answer in answers[:4]
    )


async def send_every_tree_write(api: httpx.AsyncClient, keyword_id: str, info_id: str) -> list[httpx.Response]:
    keyword, info = f"/api/keywords/{keyword_id}", f"/api/infos/{info_id}"
    step = {"kind": "describe", "node": {"id": keyword_id, "version": 1}, "description": "new"}
    return [
        await api.post("/api/keywords/reorganize/apply", json={"plan": {"steps": [step]}}),
        await api.post("/api/keywords", json={"name": "new"}),
        await api.post("/api/keywords/batch", json={"items": [{"name": "new"}]}),
        await api.patch(keyword, json={"description": "newer"}),
        await api.post(f"{keyword}/aliases", json={"alias": "newest"}),
        await api.delete(f"{keyword}/aliases/other"),
        await api.post("/api/infos", json={"content": "new"}),
        await api.post("/api/infos/batch", json={"items": [{"content": "new"}]}),
        await api.patch(info, json={"content": "new"}),
        await api.put(f"{info}/keywords/root"),
        await api.delete(f"{info}/keywords/{keyword_id}"),
        await api.delete(info),
        await api.delete(keyword),
    ]


@pytest.mark.parametrize(
    ("plan", "status", "afterwards"),
    [
        (Plan(fail_at=1, error=errno.EIO, kinds=("sync_data",)), 503, {503}),
        (Plan(fail_at=1, error=errno.ENOSPC, lasting=True, kinds=("write_at",)), 507, {200, 201}),
    ],
)
async def test_the_tree_is_read_but_not_written_while_the_disk_fails(
    api: httpx.AsyncClient, disk: FaultyFileSystem, plan: Plan, status: int, afterwards: set[int]
) -> None:
    made = await create_keyword(api, "kept", aliases=["other"])
    on_it = await create_info(api, "kept too", made["id"])
    before = await read_everything(api)
    disk.begin(plan)

    refused = await send_every_tree_write(api, made["id"], on_it["id"])

    assert [answer.status_code for answer in refused] == [status] * 13
    assert await read_everything(api) == before
    disk.begin(Plan())
    assert {item.status_code for item in await send_every_tree_write(api, made["id"], on_it["id"])} == afterwards


async def test_after_a_failed_sync_writes_are_503_and_reads_still_work(
    api: httpx.AsyncClient, disk: FaultyFileSystem
) -> None:
    record = (await api.post("/api/knowledge", json={"content": "kept"})).json()
    disk.begin(Plan(fail_at=1, error=errno.EIO, kinds=("sync_data",)))

    refused = await send_every_write(api, record)
    ready = await api.get("/ready")

    assert [answer.status_code for answer in refused] == [503] * 8
    assert all("Reads go on" in answer.json()["detail"] for answer in refused)
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    assert (ready.status_code, ready.json()["status"], ready.json()["writable"]) == (503, "read_only", False)
    assert ready.json()["reason"]
    assert "knowhub_writable 0.0" in (await api.get("/metrics")).text
    assert (await api.get("/health")).status_code == 200
    assert await are_reads_answered(api, record)


async def test_writes_are_507_while_the_disk_is_full_and_work_afterwards(
    api: httpx.AsyncClient, disk: FaultyFileSystem
) -> None:
    record = (await api.post("/api/knowledge", json={"content": "kept"})).json()
    disk.begin(Plan(fail_at=1, error=errno.ENOSPC, lasting=True, kinds=("write_at",)))

    refused = await send_every_write(api, record)

    assert [answer.status_code for answer in refused] == [507] * 8
    assert await are_reads_answered(api, record)
    disk.begin(Plan())
    answers = await send_every_write(api, record)
    # The undo is blocked by the change before it; every other write succeeds.
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200, 200, 409, 200]
