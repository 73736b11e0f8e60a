"""kill -9 of the whole server under 32 writers: every acknowledged write is there once and whole."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import Server, run_server, start_server

pytestmark = pytest.mark.anyio

WRITERS = 32
TOGETHER = 4
LONGEST_RUN_S = 0.4


@dataclass(slots=True)
class Ledger:
    """The rows that the server acknowledged, and the requests that it did not answer."""

    versions: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    unanswered: dict[str, tuple[str, str, dict[str, Any]]] = field(default_factory=dict)
    requests: int = 0

    def note(self, row: dict[str, Any]) -> None:
        self.versions[row["id"]] = max(row["version"], self.versions.get(row["id"], 0))


@dataclass(frozen=True, slots=True)
class KilledWriter:
    """A writer that sends the next write as soon as it has an answer."""

    client: httpx.AsyncClient
    ledger: Ledger
    rng: random.Random

    async def write_for_ever(self) -> None:
        kinds: list[Callable[[], Awaitable[object]]] = [self.save, self.save_together, self.change, self.leave]
        try:
            while True:
                await self.rng.choice(kinds)()
        except httpx.TransportError:
            return

    async def save(self) -> dict[str, Any]:
        body = {"content": self.unique(), "dedup": False}
        answer: dict[str, Any] = await self.ask("POST", "/api/knowledge", body)
        self.ledger.note(answer)
        return answer

    async def save_together(self) -> None:
        name = self.unique()
        items = [{"content": f"{name}-{n}", "tags": {"batch": name}, "dedup": False} for n in range(TOGETHER)]
        answer = await self.ask("POST", "/api/knowledge/batch", {"items": items})
        for row in answer["results"]:
            self.ledger.note(row)

    async def change(self) -> None:
        row = await self.save()
        path = f"/api/knowledge/{row['id']}"
        self.ledger.note(await self.ask("PUT", path, {"add_helpful_case": {"outcome": "成功"}}))
        self.ledger.note(await self.ask("PATCH", path, {"task": "changed"}))

    async def leave(self) -> None:
        knowledge_id = (await self.save())["id"]
        self.ledger.leaving.add(knowledge_id)
        response = await self.client.delete(f"/api/knowledge/{knowledge_id}")
        assert response.status_code == 200, response.text
        self.ledger.deleted.add(knowledge_id)

    async def ask(self, method: str, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 -- any JSON value
        key = self.unique()
        self.ledger.requests += 1
        self.ledger.unanswered[key] = (method, path, body)
        answer = await send(self.client, key, method, path, body)
        del self.ledger.unanswered[key]
        return answer

    def unique(self) -> str:
        return f"{self.rng.getrandbits(64):016x}"


async def send(client: httpx.AsyncClient, key: str, method: str, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 -- any JSON value
    response = await client.request(method, path, json=body, headers={"Idempotency-Key": key})
    assert response.is_success, response.text
    return response.json()


@contextmanager
def run_until_killed(data: Path) -> Iterator[Server]:
    """Run a server that is killed at the end."""
    server = start_server(data)
    try:
        yield server
    finally:
        server.kill()


async def kill_under_writers(server: Server, ledger: Ledger, rng: random.Random) -> None:
    """Run many writers, and kill the server meanwhile."""
    async with client_of(server) as client:
        writers = [KilledWriter(client, ledger, random.Random(rng.random())) for _ in range(WRITERS)]
        tasks = [asyncio.create_task(writer.write_for_ever()) for writer in writers]
        await asyncio.sleep(rng.uniform(0.02, LONGEST_RUN_S))
        server.kill()
        await asyncio.gather(*tasks)


async def check_ledger(server: Server, ledger: Ledger) -> None:
    """Compare the rows of the server with its earlier answers, then retry the requests that it did not answer."""
    async with client_of(server) as client:
        rows = await export(client)
        for knowledge_id, version in ledger.versions.items():
            row = rows.get(knowledge_id)
            if knowledge_id in ledger.deleted:
                assert row is None, f"{knowledge_id} was deleted, and is back"
            elif knowledge_id not in ledger.leaving:
                assert row is not None, f"{knowledge_id} was acknowledged, and is lost"
                assert row["version"] >= version
        together = Counter(row["tags"]["batch"] for row in rows.values() if row["tags"])
        assert set(together.values()) <= {TOGETHER}, "a batch is half there"

        for key, (method, path, body) in ledger.unanswered.items():
            await send(client, key, method, path, body)
        ledger.unanswered.clear()
        contents = Counter(row["content"] for row in (await export(client)).values())
        assert set(contents.values()) <= {1}, "a retry was written twice"
        after = f"after {time.monotonic_ns()}"
        ledger.note(await send(client, after, "POST", "/api/knowledge", {"content": after}))
        ledger.versions |= {row["id"]: row["version"] for row in (await export(client)).values()}


async def export(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    text = (await client.get("/api/knowledge/export")).text
    return {row["id"]: row for row in map(json.loads, text.splitlines())}


def client_of(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=WRITERS, max_keepalive_connections=WRITERS)
    return httpx.AsyncClient(base_url=server.url, limits=limits, timeout=30)


@pytest.mark.parametrize(
    ("points", "seed"),
    [
        (5, 1),
        pytest.param(10, 2, marks=pytest.mark.nightly),
        *(pytest.param(10, seed, marks=pytest.mark.nightly) for seed in range(3, 23)),
    ],
)
async def test_a_killed_server_loses_no_acknowledged_write(tmp_path: Path, points: int, seed: int) -> None:
    rng, ledger = random.Random(seed), Ledger()

    for _ in range(points):
        with run_until_killed(tmp_path / "data") as server:
            await check_ledger(server, ledger)
            await kill_under_writers(server, ledger, rng)

    with run_server(tmp_path / "data") as server:
        await check_ledger(server, ledger)
    assert ledger.requests > points * WRITERS
