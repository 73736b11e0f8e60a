"""What /ready reports about the directory: lag, failing upkeep, damage and quarantine."""

from pathlib import Path

import httpx
import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.request_context import Role
from knowhub.settings import Settings
from knowhub.web.app import create_app
from tests.keys import ROOT_KEY, issue_key_text, make_keyed_settings
from tests.web.conftest import SaveRecord, client_of, open_server

pytestmark = pytest.mark.anyio


async def test_it_reports_the_lag_of_the_indexes(settings: Settings) -> None:
    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        for content in ("one", "two"):
            await api.post("/api/knowledge", json={"content": content})

        behind = (await api.get("/ready")).json()
        await hub.maintenance.tick()
        await api.post("/api/maintenance/reindex")
        after = (await api.get("/ready")).json()

    assert [behind[name] for name in ("index_lag", "records_lag", "maps_lag")] == [2, 2, 2]
    assert [after[name] for name in ("index_lag", "records_lag", "maps_lag")] == [0, 0, 0]


async def test_it_reports_the_lag_of_the_memory_directories(settings: Settings) -> None:
    session = {"session_id": "s-1", "user_id": "li", "messages": [{"role": "user", "content": "I like green tea."}]}
    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        unused = (await api.get("/ready")).json()
        await api.post("/api/context/sessions/commit", json=session)
        await api.post("/api/knowledge", json={"content": "an operation that they have yet to look at"})
        behind = (await api.get("/ready")).json()
        await hub.maintenance.tick()
        after = (await api.get("/ready")).json()

    assert [ready["directories_lag"] for ready in (unused, behind, after)] == [0, 1, 0]


async def test_it_names_failing_upkeep_with_the_reason(settings: Settings, hub: Hub, api: httpx.AsyncClient) -> None:
    before = (await api.get("/ready")).json()
    # A folder in the place of a file: no record can be appended.
    (settings.data_dir / "records" / "knowledge.jsonl").mkdir(parents=True)
    await api.post("/api/knowledge", json={"content": "one"})
    await hub.maintenance.tick()

    ready = await api.get("/ready")

    assert (before["degraded"], before["failures"]) == ([], {})
    assert ready.status_code == 200
    assert ready.json()["degraded"] == ["records"]
    assert "Is a directory" in ready.json()["failures"]["records"]


async def test_it_names_damage_and_is_503(settings: Settings, save_record: SaveRecord) -> None:
    await save_record("kept")
    await save_record("struck")
    path = settings.data_dir / "change_log" / "segment-00000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"struck", b"spoilt"))

    async with open_server(settings, maintain=False) as api:
        ready = await api.get("/ready")

    assert ready.status_code == 503
    assert [str(path) in damage for damage in ready.json()["damage"]] == [True]
    assert "knowhub doctor" in ready.json()["reason"]


async def test_it_names_quarantined_files_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, owner="user:local")
    async with open_server(settings, maintain=False) as api:
        await api.post("/api/knowledge", json={"content": "one"})
    with (tmp_path / "change_log/segment-00000001.jsonl").open("ab") as file:
        file.write(b"torn")

    answer = []
    for _ in range(2):
        async with open_server(settings, maintain=False) as api:
            answer.append((await api.get("/ready")).json()["quarantined"])

    (kept,) = (tmp_path / "quarantine").iterdir()
    assert answer == [[str(kept)]] * 2


FIGURES = {"index_lag", "records_lag", "maps_lag", "directories_lag", "last_seq", "damage", "quarantined"}


async def test_with_keys_only_root_sees_the_figures(tmp_path: Path) -> None:
    settings = make_keyed_settings(tmp_path / "data")
    root = {"X-API-Key": ROOT_KEY}
    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        others = [{}, {"X-API-Key": "forged"}, root | {"Authorization": "Bearer other"}]
        others += [{"X-API-Key": await issue_key_text(hub, role, role)} for role in (Role.WRITER, Role.ADMIN)]

        before = [(await api.get("/ready", headers=headers)).json() for headers in others]
        for content in ("one", "two", "three"):
            await api.post("/api/knowledge", json={"content": content}, headers=root)
        after = [(await api.get("/ready", headers=headers)).json() for headers in others]
        answer = (await api.get("/ready", headers=root)).json()

    assert {name for name, value in answer.items() if value is not None} >= FIGURES
    assert (answer["last_seq"], answer["index_lag"]) == (5, 3)
    assert before == after
    assert all(item | dict.fromkeys(FIGURES) == item for item in after)
    assert [(item["status"], item["degraded"]) for item in after] == [("ready", [])] * 5


async def test_with_keys_anonymous_callers_see_no_path(tmp_path: Path) -> None:
    settings = make_keyed_settings(tmp_path / "data")
    root = {"X-API-Key": ROOT_KEY}
    async with open_server(settings, maintain=False) as api:
        for content in ("kept", "struck"):
            await api.post("/api/knowledge", json={"content": content}, headers=root)
    path = settings.data_dir / "change_log" / "segment-00000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"struck", b"spoilt"))
    records = settings.data_dir / "records" / "knowledge.jsonl"
    records.unlink()
    records.mkdir()

    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        await hub.maintenance.tick()
        stranger, known = await api.get("/ready"), await api.get("/ready", headers=root)

    assert [stranger.status_code, known.status_code] == [503, 503]
    assert str(tmp_path) not in stranger.text
    assert (str(path) in str(known.json()["damage"]), "knowhub doctor" in known.json()["reason"]) == (True, True)
    assert stranger.json()["degraded"] == known.json()["degraded"] == ["records"]
    assert set(stranger.json()["failures"].values()) | {stranger.json()["reason"]} == {"the root key is told more"}


async def test_it_names_the_embedder_and_shows_it_to_the_root_key_only(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, embedding="auto", auth="api-key", root_key=ROOT_KEY, secret_key="s" * 32)
    async with open_hub(settings, maintain=False) as hub, client_of(create_app(settings, hub)) as api:
        await hub.indexes.embedding.measure()
        shown = (await api.get("/ready", headers={"authorization": f"Bearer {ROOT_KEY}"})).json()
        hidden = (await api.get("/ready")).json()

    assert (shown["embedder"]["source"], shown["embedder"]["reads"]) == ("packaged", ["latin"])
    assert hidden["embedder"] is None
    assert shown["degraded"] == hidden["degraded"] == []
