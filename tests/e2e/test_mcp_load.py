"""MCP under load, at a real server: what a call costs, what it leaves in memory, and many clients at once."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
from mcp.client.client import Client

from tests.e2e.server_process import ROOT, Server, Stopwatch, environment, run_server
from tests.e2e.test_mcp import http_session

pytestmark = pytest.mark.anyio

HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
QUERIES = ["push to github behind a proxy", "log in with Selenium", "如何登录网站", "list all issues of a repository"]
CALLS_A_ROUND = 20
# Other programs on the machine disturb a short measurement.
ROUNDS = [
    pytest.param(4, 2.6, id="short"),
    pytest.param(15, 2.0, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
]
PAGE_BYTES = 4096

Ask = Callable[[str], Awaitable[Any]]


@asynccontextmanager
async def fill(folder: Path) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """Run a server with the records of the example, when its indexes have them."""
    with run_server(folder) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            lines = (ROOT / "examples/knowledge.jsonl").read_bytes()
            headers = {"content-type": "application/x-ndjson"}
            (await http.post("/api/knowledge/import", content=lines, headers=headers)).raise_for_status()
            for _ in range(300):
                if not (await http.get("/api/recall", params={"q": QUERIES[0]})).json()["index_lag"]:
                    break
                await asyncio.sleep(0.1)
            yield server, http


def cpu_seconds(server: Server) -> float:
    # The clock of another process, as Linux names it.
    return time.clock_gettime((~server.process.pid << 3) | 2)


async def measure(server: Server, asks: dict[str, Ask], rounds: int) -> dict[str, float]:
    """Return the processor time of a call of each kind, in microseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in asks}
    for number in range(rounds + 1):
        for name, ask in asks.items():
            began = cpu_seconds(server)
            for query in itertools.islice(itertools.cycle(QUERIES), CALLS_A_ROUND):
                await ask(query)
            # The first round warms up.
            if number:
                times[name].append((cpu_seconds(server) - began) / CALLS_A_ROUND * 1e6)
    return {name: median(measured) for name, measured in times.items()}


@pytest.mark.parametrize(("rounds", "most"), ROUNDS)
async def test_a_recall_over_mcp_costs_at_most_twice_the_route(tmp_path: Path, rounds: int, most: float) -> None:
    async with (
        fill(tmp_path) as (server, http),
        http_session(f"{server.url}/mcp") as old,
        Client(f"{server.url}/mcp") as new,
    ):

        async def route(query: str) -> Any:  # noqa: ANN401 -- JSON
            found = await http.get("/api/recall", params={"q": query, "top_k": 8})
            return found.raise_for_status().json()

        async def session(query: str) -> Any:  # noqa: ANN401 -- JSON
            return (await old.call_tool("recall", {"query": query})).structured_content

        async def stateless(query: str) -> Any:  # noqa: ANN401 -- JSON
            return (await new.call_tool("recall", {"query": query})).structured_content

        for query in QUERIES:
            ids = [[row["id"] for row in (await ask(query))["results"]] for ask in (route, session, stateless)]
            assert ids[0] == ids[1] == ids[2] != []
        cost = await measure(server, {"route": route, "2025-11-25": session, "2026-07-28": stateless}, rounds)

    assert cost["2025-11-25"] <= most * cost["route"], cost
    assert cost["2026-07-28"] <= most * cost["route"], cost


@pytest.mark.parametrize("calls", [500, pytest.param(5_000, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])])
async def test_many_calls_leave_memory_flat(tmp_path: Path, calls: int) -> None:
    bodies = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        for params in (
            *({"name": "recall", "arguments": {"query": query}} for query in QUERIES),
            {"name": "read", "arguments": {"id": "knowledge-20260101-abcd"}},
            {"name": "no_such_tool"},
        )
    ]
    async with fill(tmp_path) as (server, http):

        async def call(times: int) -> None:
            for body in itertools.islice(itertools.cycle(bodies), times):
                (await http.post("/mcp", json=body, headers=HEADERS)).raise_for_status()

        def resident() -> int:
            return int(Path(f"/proc/{server.process.pid}/statm").read_text("ascii").split()[1]) * PAGE_BYTES

        # Caches fill with the first calls.
        await call(500)
        before = resident()
        await call(calls)
        grown = resident() - before

    assert grown < 8 * 2**20


def test_the_first_answer_over_stdio_takes_little_processor_time(tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}) + "\n"
    took = []
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-m", "knowhub", "mcp", "--data-dir", str(tmp_path / "data")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(tmp_path / "data"),
        )  # fmt: skip
        stopwatch = Stopwatch(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        took.append(stopwatch.read())
        assert answer["result"]["serverInfo"]["name"] == "knowhub"
        process.communicate(timeout=60)

    # The first start may compile the modules.
    assert min(took[1:]) <= 0.6, took
