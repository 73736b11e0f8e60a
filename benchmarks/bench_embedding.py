"""What the packaged embedder costs others: search latency during an import, and memory and start time.

    python -m benchmarks.bench_embedding [--rounds N] [--searches N]

In each round the same searches run twice: while records are imported and embedded, and when nothing is left of both.
Only times of one round compare, because other work on the machine changes: the median of the ratios is printed. The
goal is a p99 at most twice the idle one.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from benchmarks.servers import PACKAGED, Server, knowhub, running

GOAL = 2.0
BATCH = 250
_FIRST_RECORDS = 500
_PAUSE_S = 0.005
_QUIET_S = 10.0
_SUBJECTS = ["proxy", "login", "invoice", "captcha", "deploy", "migration", "backup", "timeout", "search", "index"]
_VERBS = ["fails after", "needs", "is faster with", "breaks without", "was fixed by", "waits for", "depends on"]


async def main() -> None:
    """Print the ratios of latency, then memory and start of a server with and without the embedder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--searches", type=int, default=500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command, environment = knowhub(Path(folder))
        async with (
            running(command, {**environment, **PACKAGED}) as server,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client,
        ):
            batches = _make_batches()
            for _ in range(_FIRST_RECORDS // BATCH):
                await _post(client, next(batches))
            await _search(client, arguments.searches, 0)
            ratios = []
            for number in range(1, arguments.rounds + 1):
                importing = asyncio.create_task(_import(client, batches))
                busy = await _search(client, arguments.searches, 2 * number)
                importing.cancel()
                with suppress(asyncio.CancelledError):
                    await importing
                await _wait_until_embedded(client)
                idle = await _search(client, arguments.searches, 2 * number + 1)
                ratios.append([during / alone for during, alone in zip(busy, idle, strict=True)])
                print(f"round {number}: {_format(idle)} idle, {_format(busy)} during the import", flush=True)
            p50, p99 = (median(values) for values in zip(*ratios, strict=True))
            print(f"search during an import, in units of the idle one: p50 {p50:.2f}, p99 {p99:.2f} (goal {GOAL})")
            print(f"memory {_memory_mib(server):.0f} MiB, {_QUIET_S:g} s later ", end="")
            await asyncio.sleep(_QUIET_S)
            print(f"{_memory_mib(server):.0f} MiB")
    for name, settings in (("words only", {"KNOWHUB_EMBEDDING": "off"}), ("packaged", PACKAGED)):
        with tempfile.TemporaryDirectory() as folder:
            command, environment = knowhub(Path(folder))
            async with running(command, {**environment, **settings}) as server:
                started_s = server.cpu_s()
                await asyncio.sleep(_QUIET_S)
                print(f"empty server, {name}: {_memory_mib(server):.0f} MiB, {started_s:.2f} s of CPU to start")


def _make_batches() -> "Iterator[list[dict[str, Any]]]":
    rng, number = random.Random(1), 0
    while True:
        batch = []
        for _ in range(BATCH):
            number += 1
            task = f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_SUBJECTS)} {number}"
            batch.append({"task": task, "content": " ".join(rng.choices(_SUBJECTS + _VERBS, k=40)), "dedup": False})
        yield batch


async def _post(client: httpx.AsyncClient, items: "list[dict[str, Any]]") -> None:
    (await client.post("/api/knowledge/batch", json={"items": items})).raise_for_status()


async def _import(client: httpx.AsyncClient, batches: "Iterator[list[dict[str, Any]]]") -> None:
    """Import as fast as the texts are embedded, so that something always waits."""
    while True:
        if await _lag(client) < BATCH:
            await _post(client, next(batches))
        await asyncio.sleep(0.1)


async def _search(client: httpx.AsyncClient, count: int, turn: int) -> tuple[float, float]:
    """Return the p50 and the p99 of searches, in seconds. Each turn has queries of its own: their vectors are kept."""
    taken = []
    for number in range(count):
        subject, verb = _SUBJECTS[number % len(_SUBJECTS)], _VERBS[number % len(_VERBS)]
        began = time.perf_counter()
        asked = {"q": f"{subject} {verb} number {number} of {turn}"}
        (await client.get("/api/knowledge/search", params=asked)).raise_for_status()
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(_PAUSE_S)
    return median(taken), quantiles(taken, n=100)[98]


async def _wait_until_embedded(client: httpx.AsyncClient) -> None:
    while await _lag(client):  # noqa: ASYNC110 -- the server has no event of ours
        await asyncio.sleep(0.2)


async def _lag(client: httpx.AsyncClient) -> int:
    lag: int = (await client.get("/ready")).json()["index_lag"]
    return lag


def _format(latency: tuple[float, float]) -> str:
    return f"p50 {latency[0] * 1e3:.1f} ms, p99 {latency[1] * 1e3:.1f} ms"


def _memory_mib(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    asyncio.run(main())
