"""What the packaged embedder costs others: search latency while texts are embedded, and memory and start time.

    python -m benchmarks.bench_embedding [--records N]

Records are imported in batches; the same searches run while their texts are embedded and again when nothing is left.
The goal is a p99 at most twice the idle one. Needs a quiet machine: it compares wall-clock times.
"""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path
from statistics import quantiles

import httpx

from benchmarks.servers import PACKAGED, Server, knowhub, running

GOAL = 2.0
BATCH = 500
SEARCHES = 300
_PAUSE_S = 0.02
_SUBJECTS = ["proxy", "login", "invoice", "captcha", "deploy", "migration", "backup", "timeout", "search", "index"]
_VERBS = ["fails after", "needs", "is faster with", "breaks without", "was fixed by", "waits for", "depends on"]


async def main() -> None:
    """Print the ratio of the two p99, then memory and start of a server with and without the embedder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command, environment = knowhub(Path(folder))
        async with (
            running(command, {**environment, **PACKAGED}) as server,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client,
        ):
            await _import(client, arguments.records)
            busy = await _search(client, is_busy=True)
            while await _lag(client):  # noqa: ASYNC110 -- the server has no event of ours
                await asyncio.sleep(0.2)
            idle = await _search(client, is_busy=False)
            memory = _memory_mib(server)
    ratio = busy / idle
    print(f"search p99: idle {idle * 1e3:.1f} ms, while embedding {busy * 1e3:.1f} ms: {ratio:.2f}x (goal {GOAL})")
    print(f"memory with the embedder and {arguments.records} vectors: {memory:.0f} MiB")
    for name, settings in (("words only", {"KNOWHUB_EMBEDDING": "off"}), ("packaged", PACKAGED)):
        with tempfile.TemporaryDirectory() as folder:
            command, environment = knowhub(Path(folder))
            async with running(command, {**environment, **settings}) as server:
                print(f"empty server, {name}: {_memory_mib(server):.0f} MiB, {server.cpu_s():.2f} s of CPU to start")


async def _import(client: httpx.AsyncClient, count: int) -> None:
    rng = random.Random(count)
    for start in range(0, count, BATCH):
        items = [
            {
                "task": f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_SUBJECTS)} {number}",
                "content": " ".join(rng.choices(_SUBJECTS + _VERBS, k=40)),
                "dedup": False,
            }
            for number in range(start, min(start + BATCH, count))
        ]
        (await client.post("/api/knowledge/batch", json={"items": items})).raise_for_status()


async def _search(client: httpx.AsyncClient, *, is_busy: bool) -> float:
    """Return the p99 of searches, in seconds. Raises RuntimeError if the texts were embedded before the end."""
    taken = []
    for number in range(SEARCHES):
        query = f"{_SUBJECTS[number % len(_SUBJECTS)]} {_VERBS[number % len(_VERBS)]} number {number}"
        began = time.perf_counter()
        (await client.get("/api/knowledge/search", params={"q": query})).raise_for_status()
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(_PAUSE_S)
    if is_busy and not await _lag(client):
        raise RuntimeError("everything was embedded before the searches ended: take more records")
    return quantiles(taken, n=100)[98]


async def _lag(client: httpx.AsyncClient) -> int:
    lag: int = (await client.get("/ready")).json()["index_lag"]
    return lag


def _memory_mib(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    asyncio.run(main())
