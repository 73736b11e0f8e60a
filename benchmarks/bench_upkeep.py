"""Compaction and snapshot beside a copy with fsync of the same bytes, and what requests wait for meanwhile.

KNOWHUB_BENCH_SCALE (default 0.3) is that of bench_cold_start: 1 is 100k keywords, 1M infos and 1M links.
"""

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

os.environ.setdefault("KNOWHUB_BENCH_SCALE", "0.3")

from benchmarks.bench_cold_start import write_hub
from benchmarks.servers import http, knowhub, requests, running

ROUNDS = 3
CLIENTS = 4
IDLE_S = 10.0
PAUSE_S = 0.004
REST_S = 15.0
BEHIND_S = 5.0
SPEED_GOAL, WAIT_GOAL_MS, IDLE_TIMES = 0.3, 50.0, 3.0


@dataclass(frozen=True, slots=True)
class Waited:
    """What requests waited for, in milliseconds."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, times: list[float]) -> "Waited":
        """Return the figures of some times in seconds."""
        ordered = sorted(times)
        return cls(median(ordered) * 1e3, ordered[int(len(ordered) * 0.99)] * 1e3, ordered[-1] * 1e3)


async def main() -> None:
    """Write a hub, serve it, and let clients read and write while it is kept up."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        await write_hub(data, Path(folder) / "rows.jsonl")
        arguments, environment = knowhub(data)
        upkeep = {"KNOWHUB_UNDO_RETENTION_DAYS": "0", "KNOWHUB_SNAPSHOT_INTERVAL_HOURS": "0"}
        async with running(arguments, {**environment, **upkeep}) as hub:
            url = f"http://127.0.0.1:{hub.port}"
            async with httpx.AsyncClient(base_url=url, timeout=None) as client:  # noqa: S113 -- as long as it takes
                await _settled(client)
                async with _clients(hub.port) as idle:
                    await asyncio.sleep(IDLE_S)
                _print_waits("with no upkeep", idle, None)
                log = data / "change_log"
                for name, path in (("snapshot", "snapshots"), ("compaction", "compact")):
                    speeds, times = [], []
                    for number in range(ROUNDS):
                        size = sum(file.stat().st_size for file in log.iterdir())
                        copied_s = _copied(log, Path(folder) / "copy")
                        await _rested(client, number)
                        took_s = await _timed(client, path)
                        speeds.append(copied_s / took_s)
                        print(f"{name}: {size / 1e6:.0f} MB in {took_s:.1f} s, a copy with fsync in {copied_s:.1f} s")
                        # Once more under load, which has a core for itself: nobody is to wait.
                        await _rested(client, number)
                        async with _clients(hub.port) as waited:
                            await _timed(client, path)
                            # Rows are looked up in a new base behind the answer: that is part of what may be felt.
                            await asyncio.sleep(BEHIND_S)
                        times += waited
                    rounds = " ".join(f"{speed:.2f}" for speed in speeds)
                    print(f"{name}: {median(speeds):.2f} of a copy with fsync (rounds {rounds}; goal >= {SPEED_GOAL})")
                    _print_waits(f"during {name}", times, Waited.of(idle))


async def _rested(client: httpx.AsyncClient, number: int) -> None:
    # What the one before has set going is not part of the next; and something has to be old: one more segment.
    await asyncio.sleep(REST_S)
    await client.post("/api/knowledge", json={"content": f"round {number} {time.time_ns()}"})


async def _timed(client: httpx.AsyncClient, path: str) -> float:
    started = time.perf_counter()
    (await client.post(f"/api/maintenance/{path}")).raise_for_status()
    return time.perf_counter() - started


def _print_waits(name: str, times: list[float], idle: Waited | None) -> None:
    waited = Waited.of(times)
    goal = ""
    if idle is not None:
        goal = (
            f"; goal: p99 <= {max(WAIT_GOAL_MS, IDLE_TIMES * idle.p99):.0f} ms, none waits over {WAIT_GOAL_MS:.0f} ms"
        )
    figures = f"p50 {waited.p50:.1f} ms, p99 {waited.p99:.1f} ms, longest {waited.longest:.0f} ms"
    print(f"{len(times):,} requests of {CLIENTS} clients {name}: {figures}{goal}")


def _copied(source: Path, target: Path) -> float:
    """Copy the log's files, each synced; return how long that took, in seconds."""
    target.mkdir()
    started = time.perf_counter()
    for path in source.iterdir():
        with path.open("rb") as read, (target / path.name).open("wb") as write:
            shutil.copyfileobj(read, write, 1024 * 1024)
            write.flush()
            os.fsync(write.fileno())
    took = time.perf_counter() - started
    shutil.rmtree(target)
    return took


@asynccontextmanager
async def _clients(port: int) -> AsyncIterator[list[float]]:
    """Let clients search and save, with a pause between, until the block ends; gives the times of all requests."""
    times: list[float] = []

    async def first(client: int) -> None:
        number = 0
        while True:
            number += 1
            body = json.dumps({"content": f"note {client} {number} {time.time_ns()}"}).encode()
            save = http("POST", "/api/knowledge", body)
            search = http("GET", f"/api/keywords/search?q=login%20{number}&llm_expand_query=false")
            for payload in (save, search):
                times.extend(await requests(port, 1, 1, _always(payload)))
                await asyncio.sleep(PAUSE_S)

    tasks = [asyncio.create_task(first(client)) for client in range(CLIENTS)]
    try:
        yield times
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def _always(payload: bytes) -> Callable[[int], bytes]:
    return lambda _number: payload


async def _settled(client: httpx.AsyncClient) -> None:
    """Wait until record files and maps are written: they are not what is measured."""
    quiet: Any = None
    while True:
        now = (await client.get("/ready")).json()
        files = sorted(str(path) for path in now["degraded"])
        if quiet == (now["index_lag"], files):
            return
        quiet = (now["index_lag"], files)
        await asyncio.sleep(20)


if __name__ == "__main__":
    asyncio.run(main())
