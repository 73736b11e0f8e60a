"""Sixty-four clients change one record of a real server at once: no update is lost, and no vote."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import Server, run_server

pytestmark = pytest.mark.anyio

NUMBERS = [
    (16, 15),
    pytest.param(64, 1000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
]


def client_of(server: Server) -> httpx.AsyncClient:
    """Return a client of one connection: a pool of 64 looks through all of them for each request."""
    return httpx.AsyncClient(base_url=server.url, timeout=60, verify=False)  # noqa: S501 -- it is plain HTTP


async def save(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.post("/api/knowledge", json=body)).raise_for_status().json()
    return answer


async def count_up(server: Server, record: dict[str, Any], times: int) -> int:
    """Read the number in the record, and write the next one on that version, `times` times; return how often it won."""
    path, won = f"/api/knowledge/{record['id']}", 0
    async with client_of(server) as client:
        for _ in range(times):
            known = (await client.get(path)).raise_for_status().json()
            following = {"tags": {"count": str(int(known["tags"]["count"]) + 1)}}
            answer = await client.patch(path, json=following, headers={"If-Match": f'"{known["version"]}"'})
            if answer.status_code == 200:
                assert answer.json()["version"] == known["version"] + 1
                won += 1
            else:
                assert answer.status_code == 409, answer.text
                assert answer.json()["current_version"] > known["version"]
    return won


@pytest.mark.parametrize(("count", "times"), NUMBERS)
async def test_no_conditional_change_of_one_record_is_lost(tmp_path: Path, count: int, times: int) -> None:
    with run_server(tmp_path / "data") as server:
        async with client_of(server) as client:
            record = await save(client, {"content": "counted", "tags": {"count": "0"}})

            won = await asyncio.gather(*(count_up(server, record, times) for _ in range(count)))

            after = (await client.get(f"/api/knowledge/{record['id']}")).json()

    # Each round has a winner, and many have losers.
    assert times <= sum(won) < count * times
    assert (after["tags"]["count"], after["version"]) == (str(sum(won)), 1 + sum(won))
    shutil.rmtree(tmp_path)


async def vote(server: Server, path: str, times: int) -> None:
    """Vote for the record twice and against it once, in turns; none is ever refused."""
    async with client_of(server) as client:
        for number in range(times):
            case = "add_harmful_case" if number % 3 == 2 else "add_helpful_case"
            (await client.put(path, json={case: {}})).raise_for_status()


@pytest.mark.parametrize(("count", "times"), NUMBERS)
async def test_no_concurrent_vote_is_lost_or_refused(tmp_path: Path, count: int, times: int) -> None:
    with run_server(tmp_path / "data") as server:
        async with client_of(server) as client:
            path = f"/api/knowledge/{(await save(client, {'content': 'voted on'}))['id']}"

            await asyncio.gather(*(vote(server, path, times) for _ in range(count)))

            after = (await client.get(path)).json()

    harmful = count * (times // 3)
    assert after["version"] == 1 + count * times
    assert (after["eval"]["helpful"], after["eval"]["harmful"]) == (1 + count * times - harmful, harmful)
    shutil.rmtree(tmp_path)
