"""Two real servers on one data directory, both under load: each answers what the other has acknowledged."""

import asyncio
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import Server, run_server

pytestmark = pytest.mark.anyio

WRITERS = 8
WORDS = ("登录", "selenium", "验证码", "timeout", "反爬", "asyncio")
SMALL_SEGMENTS = "200000"


def client_of(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, timeout=60)


@dataclass(frozen=True, slots=True)
class CrossReadingWriter:
    """Writes to one server, and reads each write at the other, at once."""

    here: httpx.AsyncClient
    there: httpx.AsyncClient
    rng: random.Random

    async def write(self, times: int) -> None:
        for _ in range(times):
            words = " ".join(self.rng.choices(WORDS, k=3))
            unique = "".join(self.rng.choices("bcdfghjk", k=16))
            record = await self.ask("POST", "/api/knowledge", {"content": f"{words} {unique}"})
            found = await self.there.get("/api/knowledge/search", params={"q": unique, "top_k": 1})
            assert [result["id"] for result in found.json()["results"]] == [record["id"]]
            path = f"/api/knowledge/{record['id']}"
            changed = await self.ask("PATCH", path, {"task": words, "version": 1})
            voted = (await self.there.put(path, json={"add_helpful_case": {}})).raise_for_status().json()
            assert (changed["version"], voted["version"]) == (2, 3)
            # What the other server answered is read here.
            assert (await self.here.get(path)).json()["eval"]["helpful"] == 2
            if self.rng.random() < 0.2:
                await self.ask("DELETE", path, None)
                assert (await self.there.get(path)).status_code == 404

    async def ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Change something here, and fail where the other server does not know of it by its next read."""
        answer: dict[str, Any] = (await self.here.request(method, path, json=body)).raise_for_status().json()
        if "version" in answer:
            read = (await self.there.get(f"/api/knowledge/{answer['id']}")).raise_for_status().json()
            assert read["version"] == answer["version"]
            assert read["content"] == answer["content"]
        return answer


async def wait_until_indexed(client: httpx.AsyncClient) -> None:
    """Wait until the index of a server is complete: before, its word weights differ from the other server's."""
    while (await client.get("/ready")).json()["index_lag"]:  # noqa: ASYNC110 -- another process cannot set an event
        await asyncio.sleep(0.05)


async def read_everything(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return everything a server answers about its records: export, lists, searches, operations."""
    rows = [json.loads(line) for line in (await client.get("/api/knowledge/export")).text.splitlines()]
    listed = (await client.get("/api/knowledge", params={"limit": 100})).raise_for_status().json()
    found = {}
    for word in WORDS:
        asked = await client.get("/api/knowledge/search", params={"q": word, "top_k": 20})
        found[word] = asked.raise_for_status().json()["results"]
    operations = (await client.get("/api/operations", params={"limit": 100})).raise_for_status().json()
    return {"rows": rows, "listed": listed, "found": found, "operations": operations}


@pytest.mark.parametrize(
    "times", [12, pytest.param(600, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])], ids=["some", "many"]
)
async def test_two_servers_under_load_answer_the_same(tmp_path: Path, times: int) -> None:
    data, options = tmp_path / "data", {"KNOWHUB_SEGMENT_BYTES": SMALL_SEGMENTS}
    with run_server(data, **options) as left, run_server(data, **options) as other:
        async with client_of(left) as first, client_of(other) as second:
            pairs = [(first, second), (second, first)] * (WRITERS // 2)

            await asyncio.gather(
                *(
                    CrossReadingWriter(here, there, random.Random(seed)).write(times)
                    for seed, (here, there) in enumerate(pairs)
                )
            )
            await asyncio.wait_for(asyncio.gather(wait_until_indexed(first), wait_until_indexed(second)), 60)

            result = await read_everything(first), await read_everything(second)

    assert result[0] == result[1]
    assert len(result[0]["rows"]) > WRITERS * times // 2
    assert all(result[0]["found"].values())
    assert len(list((data / "change_log").iterdir())) > 1
