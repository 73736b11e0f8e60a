"""What vectors of many records cost: the time of a search, memory, and the start of a server.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.bench_embedding_scale [--records N]

Two servers have the same records, one with an embedder and one without. The vectors come from this benchmark, made of
a text's hash, so that the model's own time is left out. Searches of both and numpy's scan of the same number of vectors
take turns; a repeated query is not embedded again. A search with vectors may take as long as one by words and 1.5
scans, beside the embedding of its query. Numpy scans with one thread, as the server does.
"""

import argparse
import asyncio
import json
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Self

import httpx
import numpy as np

from benchmarks.servers import Server, knowhub, running

DIMENSIONS = 384
BATCH, ROUNDS, EACH, TOP_K = 1_000, 5, 40, 10
SCANS_GOAL, START_GOAL, MEMORY_GOAL = 1.5, 1.3, 1.2
_SUBJECTS = ["proxy", "login", "invoice", "captcha", "deploy", "migration", "backup", "timeout", "search", "index"]
_VERBS = ["fails after", "needs", "is faster with", "breaks without", "was fixed by", "waits for", "depends on"]


async def main() -> None:
    """Import, search, restart; print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    count = parser.parse_args().records
    with _HashEmbedder() as embedder, tempfile.TemporaryDirectory() as folder:
        settings = {
            "words": {"KNOWHUB_EMBEDDING": "off"},
            "vectors": {
                "KNOWHUB_EMBEDDING": "server",
                "KNOWHUB_EMBEDDING_BASE_URL": embedder.url,
                # Hashes have no meaning, so the server would leave all scripts to words.
                "KNOWHUB_EMBEDDING_SCRIPTS": "latin",
            },
        }
        async with AsyncExitStack() as stack:
            servers = {name: await _open(stack, Path(folder) / name, given) for name, given in settings.items()}
            for name, (_, client) in servers.items():
                print(f"{name}: imported {count:,} records in {await _import(client, count):.0f} s", flush=True)
            await _compare_searches(servers, count)
        cpu, memory = {}, {}
        for name, given in settings.items():
            async with AsyncExitStack() as stack:
                server, client = await _open(stack, Path(folder) / name, given)
                await client.get("/api/knowledge/search", params={"q": "anything"})
                cpu[name], memory[name] = server.cpu_s(), _memory_mib(server)
    ratio = cpu["vectors"] / cpu["words"]
    print(
        f"start: {cpu['words']:.2f} s of CPU by words, {cpu['vectors']:.2f} s with vectors: {ratio:.2f}x "
        f"(goal {START_GOAL})"
    )
    size = count * DIMENSIONS * 4 / 2**20
    more = memory["vectors"] - memory["words"]
    print(
        f"memory: {memory['words']:.0f} MiB by words, {more:.0f} MiB more with {size:.0f} MiB of vectors: "
        f"{more / size:.2f}x (goal {MEMORY_GOAL})"
    )


async def _open(stack: AsyncExitStack, folder: Path, settings: Mapping[str, str]) -> tuple[Server, httpx.AsyncClient]:
    command, environment = knowhub(folder)
    server = await stack.enter_async_context(running(command, {**environment, **settings}))
    client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=120)
    return server, await stack.enter_async_context(client)


async def _import(client: httpx.AsyncClient, count: int) -> float:
    started = time.perf_counter()
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
    while (await client.get("/ready")).json()["index_lag"]:  # noqa: ASYNC110 -- the server has no event of ours
        await asyncio.sleep(0.5)
    return time.perf_counter() - started


async def _compare_searches(servers: Mapping[str, tuple[Server, httpx.AsyncClient]], count: int) -> None:
    matrix = np.random.default_rng(1).standard_normal((count, DIMENSIONS), dtype=np.float32)
    # Seconds of wall clock and of processor time for each search.
    wall: defaultdict[str, list[float]] = defaultdict(list)
    cpu: defaultdict[str, float] = defaultdict(float)
    for round_number in range(ROUNDS):
        queries = [
            f"{_SUBJECTS[number % len(_SUBJECTS)]} {_VERBS[number % len(_VERBS)]} number {round_number * EACH + number}"
            for number in range(EACH)
        ]
        for name in ("words", "vectors", "repeated"):
            server, client = servers["words" if name == "words" else "vectors"]
            before = server.cpu_s()
            for query in queries:
                started = time.perf_counter()
                (await client.get("/api/knowledge/search", params={"q": query, "top_k": TOP_K})).raise_for_status()
                wall[name].append(time.perf_counter() - started)
            cpu[name] += (server.cpu_s() - before) / (ROUNDS * EACH)
        before = time.process_time()
        for number in range(EACH):
            started = time.perf_counter()
            np.argpartition(-(matrix @ matrix[number]), TOP_K)
            wall["scan"].append(time.perf_counter() - started)
        cpu["scan"] += (time.process_time() - before) / (ROUNDS * EACH)
    print(f"a search of {count:,} records, p50 and processor time:")
    for name, times in wall.items():
        print(f"  {name}: {median(times) * 1e3:.1f} ms, {cpu[name] * 1e3:.1f} ms of CPU")
    by_clock = (median(wall["repeated"]) - median(wall["words"])) / median(wall["scan"])
    by_cpu = (cpu["repeated"] - cpu["words"]) / cpu["scan"]
    print(
        f"  beside the embedding: words + {by_clock:.2f} of numpy's scans, in CPU {by_cpu:.2f} (goal {SCANS_GOAL})",
        flush=True,
    )


def _memory_mib(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class _HashEmbedder:
    """Serves vectors by the protocol of OpenAI. Vectors of different texts have nothing in common."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [{"index": at, "embedding": _make_vector(text)} for at, text in enumerate(texts)]
        body = json.dumps({"model": "hash", "data": data, "usage": {"prompt_tokens": 0, "total_tokens": 0}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


def _make_vector(text: str) -> list[float]:
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    return [round(value, 4) for value in np.random.default_rng(seed).standard_normal(DIMENSIONS).tolist()]


if __name__ == "__main__":
    asyncio.run(main())
