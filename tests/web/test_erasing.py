"""Erasing over HTTP: which rows and texts are gone, what answers report, and what is refused afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.erasing import find_files_with
from tests.fakes.queued_chat import Answer, QueuedChat
from tests.web.conftest import OpenServer, SaveRecord, open_server
from tests.web.trees import create_info, create_keyword

pytestmark = pytest.mark.anyio

SECRET = "quaggaplatformnine sings the midnightsong of veldtgrass"
ERASE = {"erase": "true"}


@pytest.fixture
def folder(settings: Settings) -> Path:
    return settings.data_dir


async def erase(api: httpx.AsyncClient, path: str, **params: str) -> dict[str, Any]:
    response = await api.delete(path, params=ERASE | params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert response.headers["x-operation-id"] == answer["operation_id"]
    return answer


async def test_an_erased_record_is_gone_and_its_erasure_is_listed(
    api: httpx.AsyncClient, save_record: SaveRecord, folder: Path
) -> None:
    record, same = await save_record(SECRET), await save_record(f"{SECRET}, they say")

    answer = await erase(api, f"/api/knowledge/{record['id']}")

    assert answer == {
        "erased": True,
        "other_rows": [same["id"]],
        "snapshots": [],
        "pending": [],
        "operation_id": answer["operation_id"],
    }
    assert (await api.delete(f"/api/knowledge/{same['id']}", params=ERASE)).json()["other_rows"] == []
    assert find_files_with(folder, SECRET) == []
    history = (await api.get(f"/api/knowledge/{record['id']}/history")).json()
    assert [(entry["op"], entry["version"]) for entry in history["results"]] == [
        ("erase_knowledge", 2),
        ("save_knowledge", 1),
    ]
    operation = (await api.get(f"/api/operations/{answer['operation_id']}")).json()
    assert (operation["op"], operation["actor"], operation["undoable"]) == ("erase_knowledge", "user:local", False)


async def test_a_deleted_record_can_be_erased_and_not_restored(
    api: httpx.AsyncClient, save_record: SaveRecord, folder: Path
) -> None:
    record = await save_record(SECRET)
    deletion = (await api.delete(f"/api/knowledge/{record['id']}")).json()

    answer = await erase(api, f"/api/knowledge/{record['id']}")

    undo = await api.post(f"/api/operations/{deletion['operation_id']}/undo")
    named = {"collection": "knowledge", "id": record["id"], "operation_id": answer["operation_id"]}
    assert (undo.status_code, undo.json()["erased"]) == (409, [named])
    assert record["id"] in undo.json()["detail"]
    again = await api.delete(f"/api/knowledge/{record['id']}", params=ERASE)
    assert (again.status_code, again.json()["erased"]) == (409, True)
    assert find_files_with(folder, SECRET) == []


async def test_an_info_is_erased_with_its_links(api: httpx.AsyncClient, folder: Path) -> None:
    parent = await create_keyword(api, "zoology")
    secret, kept = await create_info(api, SECRET, parent["id"]), await create_info(api, "kept", parent["id"])

    answer = await erase(api, f"/api/infos/{secret['id']}")

    assert answer["erased"] is True
    assert find_files_with(folder, SECRET) == []
    listed = (await api.get("/api/infos", params={"keyword_id": parent["id"]})).json()["results"]
    assert [item["id"] for item in listed] == [kept["id"]]
    assert (await api.get(f"/api/infos/{secret['id']}")).status_code == 404


async def test_a_keyword_is_erased_once_it_is_deleted(api: httpx.AsyncClient, folder: Path) -> None:
    secret = await create_keyword(api, "quaggaplatformnine")
    path = f"/api/keywords/{secret['id']}"
    early = await api.delete(path, params=ERASE)
    assert (early.status_code, (await api.get(path)).status_code) == (409, 200)
    deletion = (await api.delete(path)).json()

    answer = await erase(api, path)

    assert answer["pending"] == []
    assert find_files_with(folder, "quaggaplatformnine") == []
    assert (await api.post(f"/api/operations/{deletion['operation_id']}/undo")).status_code == 409
    assert (await api.delete("/api/keywords/root", params=ERASE)).status_code in (404, 409)


async def test_erase_may_be_in_the_body_with_caller_and_version(api: httpx.AsyncClient, folder: Path) -> None:
    sent = {"content": SECRET, "user_id": "li", "scopes": ["public"]}
    row_id = (await api.post("/api/knowledge", json=sent)).json()["id"]

    async def delete(**fields: object) -> httpx.Response:
        return await api.request("DELETE", f"/api/knowledge/{row_id}", json={"erase": True, **fields})

    assert (await delete(user_id="wu")).status_code == 403
    assert (await delete(user_id="li", version=7)).json()["current_version"] == 1
    assert (await delete(user_id="li", version=1)).json()["erased"] is True
    assert find_files_with(folder, SECRET) == []


@pytest.mark.parametrize("path", ["/api/knowledge/none", "/api/infos/none"])
async def test_a_missing_record_cannot_be_erased(api: httpx.AsyncClient, path: str) -> None:
    assert (await api.delete(path, params=ERASE)).status_code == 404


@pytest.mark.parametrize("value", ["perhaps", "", "2"])
async def test_an_ambiguous_erase_parameter_is_refused(
    api: httpx.AsyncClient, save_record: SaveRecord, value: str
) -> None:
    record = await save_record(SECRET)

    response = await api.delete(f"/api/knowledge/{record['id']}", params={"erase": value})

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "erase")
    assert (await api.get(f"/api/knowledge/{record['id']}")).status_code == 200


async def test_an_erase_that_nobody_waits_for_is_a_job(
    api: httpx.AsyncClient, save_record: SaveRecord, folder: Path
) -> None:
    record = await save_record(SECRET)

    started = await api.delete(f"/api/knowledge/{record['id']}", params=ERASE | {"wait": "false"})

    assert started.status_code == 202
    job = await wait_for_job(api, started.json()["job_id"])
    assert (job["kind"], job["status"]) == ("erase", "done")
    assert (job["result"]["erased"], job["result"]["pending"]) == (True, [])
    assert find_files_with(folder, SECRET) == []
    again = await api.request("DELETE", f"/api/knowledge/{record['id']}", json={"erase": True, "wait": False})
    failed = await wait_for_job(api, again.json()["job_id"])
    assert (failed["status"], "erased already" in failed["error"]) == ("failed", True)


async def wait_for_job(api: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    for _ in range(1000):
        job: dict[str, Any] = (await api.get(f"/api/jobs/{job_id}")).json()
        if job["status"] != "running":
            return job
        await asyncio.sleep(0.01)
    raise AssertionError(job)


async def test_without_erase_a_deletion_can_be_undone(api: httpx.AsyncClient, save_record: SaveRecord) -> None:
    record = await save_record(SECRET)

    answer = (await api.delete(f"/api/knowledge/{record['id']}", params={"erase": "false"})).json()

    assert list(answer) == ["operation_id"]
    assert (await api.post(f"/api/operations/{answer['operation_id']}/undo")).status_code == 200
    assert (await api.get(f"/api/knowledge/{record['id']}")).json()["content"] == SECRET


@asynccontextmanager
async def open_server_with_model(settings: Settings, *answers: Answer) -> AsyncIterator[httpx.AsyncClient]:
    """Open a server whose model gives these answers."""
    model = QueuedChat(iter(answers))
    async with open_server(settings, Overrides(llm=model)) as client:
        yield client


@pytest.mark.parametrize(
    ("before", "after", "summary"),
    [
        ("door 4711QX", "door 4711QY", "new code"),
        ("door 4711QX", "door 4711QY", "the code 4711QX of the north door became 4711QY, as the feedback said"),
        (
            "The guard of the north door changes at nine.\ncode 4711QX\nCall him before.",
            "The guard of the north door changes at nine.\ncode 4711QY\nCall him before.",
            "4711QX is 4711QY",
        ),
    ],
    ids=["short", "a summary of a short one", "a line of a long one"],
)
async def test_text_that_a_model_derived_from_a_record_is_erased_with_it(
    settings: Settings, folder: Path, before: str, after: str, summary: str
) -> None:
    async with open_server_with_model(settings, {"content": after, "summary_of_change": summary}) as api:
        row_id = (await api.post("/api/knowledge", json={"task": "vault", "content": before})).json()["id"]
        key = {"Idempotency-Key": "k-1"}
        evolve = {"evolve_feedback": "it changed"}
        evolved = (await api.put(f"/api/knowledge/{row_id}", json=evolve, headers=key)).json()
        assert "4711QX" in evolved["diff"]
        assert find_files_with(folder, "4711QY") != []

        await erase(api, f"/api/knowledge/{row_id}")

        again = await api.put(f"/api/knowledge/{row_id}", json=evolve, headers=key)
        assert (find_files_with(folder, "4711QX"), find_files_with(folder, "4711QY")) == ([], [])
        assert (again.status_code, again.json()["erased"]) == (409, [row_id])
        operation = (await api.get(f"/api/operations/{evolved['operation_id']}")).json()
        assert (operation["op"], "4711" in str(operation)) == ("evolve_knowledge", False)
        assert (await api.get("/ready")).json()["damage"] == []


async def merge_records(api: httpx.AsyncClient, *contents: str) -> list[str]:
    """Save records, merge them into the first, and return their ids."""
    bodies = ({"content": content, "task": "vault", "dedup": False} for content in contents)
    ids = [(await api.post("/api/knowledge", json=body)).json()["id"] for body in bodies]
    report = (await api.post("/api/knowledge/slim", json={})).json()
    assert [(item["into"], item["sources"]) for item in report["merged"]] == [(ids[0], ids[1:])]
    return ids


async def test_erasing_a_merged_record_names_its_sources(settings: Settings, folder: Path) -> None:
    answer = {"same": [1, 2], "task": "vault", "content": "KODE1 or KODE2 or KODE3"}
    async with open_server_with_model(settings, answer) as api:
        kept, source = await merge_records(api, "first KODE1 at the vault door", "the vault door has KODE2")

        first = await erase(api, f"/api/knowledge/{kept}")

        assert first["other_rows"] == [source]
        assert find_files_with(folder, "KODE3") == []
        assert (await api.get(f"/api/knowledge/{source}")).json()["content"] == "the vault door has KODE2"
        assert (await erase(api, f"/api/knowledge/{source}"))["other_rows"] == []
        assert [find_files_with(folder, code) for code in ("KODE1", "KODE2")] == [[], []]


async def test_a_retried_erasure_is_answered_and_a_retried_save_is_refused(api: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k-1"}
    record = (await api.post("/api/knowledge", json={"content": SECRET}, headers=key)).json()
    path = f"/api/knowledge/{record['id']}"
    first = (await api.delete(path, params=ERASE, headers=key)).json()

    again = await api.delete(path, params=ERASE, headers=key)
    save = await api.post("/api/knowledge", json={"content": SECRET}, headers=key)

    assert (again.status_code, again.json()) == (200, first)
    assert (save.status_code, save.json()["erased"]) == (409, [record["id"]])


async def test_an_import_of_an_erased_id_is_refused_by_name(
    api: httpx.AsyncClient, save_record: SaveRecord, folder: Path
) -> None:
    record = await save_record(SECRET)
    exported = (await api.get("/api/knowledge/export")).content
    await erase(api, f"/api/knowledge/{record['id']}")

    lines = {"content-type": "application/x-ndjson"}
    response = await api.post("/api/knowledge/import?on_conflict=replace", content=exported, headers=lines)

    assert (response.status_code, response.json()["erased"]) == (409, [record["id"]])
    assert find_files_with(folder, SECRET) == []


async def test_a_second_server_no_longer_shows_an_erased_record(
    api: httpx.AsyncClient, save_record: SaveRecord, folder: Path, open_second_server: OpenServer
) -> None:
    record, other = await save_record(SECRET), await save_record("other")
    async with open_second_server() as second:
        assert (await second.get(f"/api/knowledge/{record['id']}")).json()["content"] == SECRET

        answer = await erase(second, f"/api/knowledge/{record['id']}")

        assert answer["pending"] == []
        assert find_files_with(folder, SECRET) == []
        for server in (api, second):
            assert (await server.get(f"/api/knowledge/{record['id']}")).status_code == 404
            assert (await server.get(f"/api/knowledge/{other['id']}")).status_code == 200
            assert (await server.get("/api/knowledge/search", params={"q": SECRET})).json()["results"] == []
            assert (await server.get("/ready")).json()["damage"] == []
