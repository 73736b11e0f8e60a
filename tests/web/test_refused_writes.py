"""A disk that fails: writes are refused with a reason, reads go on, and a full one recovers by itself."""

import errno
from collections.abc import AsyncIterator

import httpx
import pytest

from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.fakes.faulty_files import FaultyFileSystem, Plan
from tests.web.conftest import open_server

pytestmark = pytest.mark.anyio

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def disk() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
async def api(settings: Settings, disk: FaultyFileSystem) -> AsyncIterator[httpx.AsyncClient]:
    async with open_server(settings, Overrides(files=disk), maintain=False) as client:
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
