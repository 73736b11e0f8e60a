"""The agent tools at a server that asks for keys: the key decides whose a record is, and what is found."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agent_tools.knowledge import knowledge_save
from tests.e2e.server_process import run_server
from tests.keys import ROOT_KEY

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("url")]

ROOT = {"X-API-Key": ROOT_KEY}


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("keyed")
    with run_server(folder / "data", KNOWHUB_AUTH="api-key", KNOWHUB_ROOT_KEY=ROOT_KEY) as server:
        yield server.url


async def key_for(url: str, **holder: object) -> str:
    async with httpx.AsyncClient(base_url=url, headers=ROOT) as client:
        made = await client.post("/api/admin/keys", json=holder)
        assert made.status_code == 201
        return str(made.json()["key"])


async def test_with_a_key_a_record_is_the_users_that_the_key_names(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWHUB_API_KEY", await key_for(url, user_id="li", agent_id="crawler", team_ids=["web"]))

    plain = await knowledge_save(task="登录", content="等元素出现", types=["tool"])
    shared = await knowledge_save(task="登录", content="先等再点", types=["tool"], scopes=["team:web"])

    assert (plain.error, shared.error) == (None, None)
    async with httpx.AsyncClient(base_url=url, headers=ROOT) as client:
        records = [(await client.get(f"/api/knowledge/{item.metadata['id']}")).json() for item in (plain, shared)]
    assert [record["owner"] for record in records] == ["user:li"] * 2
    assert [record["scopes"] for record in records] == [["user:owner"], ["team:web"]]
