"""CPU a request, beside a bare FastAPI app: reading a record, and saving one durably from 64 clients."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import httpx

from benchmarks.servers import Server, bare, http, knowhub, requests, running

ROUNDS = 5
GET_CLIENTS, GETS = 8, 400
POST_CLIENTS, POSTS = 64, 40
GET_LIMIT, POST_LIMIT = 1.8, 2.0


async def main() -> None:
    """Print both ratios; each is the median of five interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        arguments, environment = knowhub(Path(folder))
        async with running(arguments, environment) as hub:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}") as client:
                saved = (await client.post("/api/knowledge", json=_record(0))).json()
                body = (await client.get(f"/api/knowledge/{saved['id']}")).text
            arguments, environment = bare(body)
            async with running(arguments, environment) as limit:
                path = f"/api/knowledge/{saved['id']}"
                await _compare("GET /api/knowledge/{id}", hub, limit, GET_CLIENTS, GETS, lambda _: http("GET", path))
                await _compare("durable POST, 64 clients", hub, limit, POST_CLIENTS, POSTS, _posts())


async def _compare(
    name: str, hub: Server, limit: Server, clients: int, each: int, payload: Callable[[int], bytes]
) -> None:
    for server in (hub, limit):
        await requests(server.port, clients, max(1, each // 4), payload)
    ratios, ours, theirs = [], [], []
    for _ in range(ROUNDS):
        ours.append(await _cpu_us(hub, clients, each, payload))
        theirs.append(await _cpu_us(limit, clients, each, payload))
        ratios.append(ours[-1] / theirs[-1])
    target = GET_LIMIT if name.startswith("GET") else POST_LIMIT
    print(
        f"{name}: {median(ratios):.2f} x the bare route's CPU ({median(ours):.0f} us against {median(theirs):.0f} us; "
        f"rounds {' '.join(f'{ratio:.2f}' for ratio in ratios)}; goal <= {target})"
    )


async def _cpu_us(server: Server, clients: int, each: int, payload: Callable[[int], bytes]) -> float:
    before = server.cpu_s()
    await requests(server.port, clients, each, payload)
    # What a save leaves to be done behind it, its index entry and record line, belongs to its cost.
    await asyncio.sleep(1.5)
    return (server.cpu_s() - before) / (clients * each) * 1e6


def _posts() -> Callable[[int], bytes]:
    count = 0

    def payload(_: int) -> bytes:
        nonlocal count
        count += 1
        return http("POST", "/api/knowledge", json.dumps(_record(count)).encode())

    return payload


def _record(number: int) -> dict[str, object]:
    return {
        "task": f"Export orders of shop {number} page by page",
        "content": (
            f"The export answers 429 after {number % 60} pages a minute. Wait for Retry-After, go on from the last "
            "cursor, and write each page before asking for the next; a restart then loses nothing."
        ),
        "types": ["tool", "strategy"],
        "tags": {"domain": "shop", "category": "rate_limit"},
        "scopes": ["project:shop"],
        "owner": "agent:crawler_ops",
        "source": {"name": "shop API", "category": "exp", "agent_id": "crawler_ops"},
        "score": 4,
    }


if __name__ == "__main__":
    asyncio.run(main())
