"""Real servers and their embedder: no save waits for it or is lost, and each text is embedded once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from knowhub.search.vector_files import VectorFiles
from tests.e2e.scripted_llm import ScriptedLLM
from tests.e2e.server_process import WAIT_S, Server, run_server
from tests.fakes.hashing_embedder import hash_vector

pytestmark = pytest.mark.anyio

WRITERS = 16
SLOWER = 8
PROCESSES = 3
HANGS = {"late": 600, "stays": True}
FAILS = {"status": 503, "stays": True}
MANY = [100, pytest.param(1_000, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])]


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=WAIT_S, trust_env=False) as http:
        yield http


def make_embedder_settings(llm: ScriptedLLM) -> dict[str, str]:
    return {
        "KNOWHUB_EMBEDDING_BASE_URL": llm.url,
        "KNOWHUB_EMBEDDING_ATTEMPTS": "1",
        "KNOWHUB_EMBEDDING_TIMEOUT_S": "1",
        "KNOWHUB_EMBEDDING_SEARCH_BUDGET_S": "0.5",
    }


def texts(count: int) -> list[str]:
    return [f"widget-{number} 部件 {number * 7919}" for number in range(count)]


async def save_each(http: httpx.AsyncClient, contents: Sequence[str]) -> float:
    """Save each by a request of its own, many at a time; return how many seconds it took, all acknowledged."""
    waiting = iter(contents)

    async def write() -> None:
        for content in waiting:
            answer = await http.post("/api/knowledge", json={"content": content, "dedup": False})
            assert answer.status_code == 201, answer.text

    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(write())
    return time.monotonic() - started


async def search(http: httpx.AsyncClient, text: str) -> dict[str, Any]:
    asked = {"q": text, "explain": "true", "order": "relevance"}
    answer: dict[str, Any] = (await http.get("/api/knowledge/search", params=asked)).raise_for_status().json()
    return answer


async def read_lag(http: httpx.AsyncClient) -> int:
    return int((await http.get("/ready")).json()["index_lag"])


async def seconds_without_an_embedder(folder: Path, contents: Sequence[str]) -> float:
    with run_server(folder) as server:
        async with client_of(server) as http:
            return await save_each(http, contents)


async def wait_until_indexed(http: httpx.AsyncClient) -> None:
    # Behind failures it is asked again after up to 30 seconds, which nothing else shortens.
    async with asyncio.timeout(5 * WAIT_S):
        while await read_lag(http):  # noqa: ASYNC110 -- another process's state
            await asyncio.sleep(0.1)


def vectors_on_disk(folder: Path) -> Counter[bytes]:
    (account,) = (folder / "indexes" / "vectors").glob("*")
    files = VectorFiles(account)
    note = files.read_metadata()
    assert note is not None
    return Counter(row.tobytes() for row in files.read(note)["vector"])


def vectors_of(contents: Sequence[str]) -> Counter[bytes]:
    return Counter(np.array(hash_vector(content), np.float16).tobytes() for content in contents)


def list_stages(found: dict[str, Any]) -> list[str]:
    return [stage["stage"] for stage in found["results"][0]["why"]["stages"]]


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
async def test_records_saved_in_an_embedder_outage_are_found_and_embedded_later(
    tmp_path: Path, llm: ScriptedLLM, count: int, *, is_killed: bool
) -> None:
    folder, contents = tmp_path / "data", texts(count)
    wanted = contents[count // 2]
    plain_s = await seconds_without_an_embedder(tmp_path / "plain", contents)
    await llm.script_for("embeddings", HANGS)
    with run_server(folder, **make_embedder_settings(llm)) as server:
        async with client_of(server) as http:
            took_s = await save_each(http, contents)
            down, lag_down = await search(http, wanted), await read_lag(http)
            if is_killed:
                server.kill()
            else:
                await llm.script_for("embeddings")
                await wait_until_indexed(http)
                up = await search(http, wanted)
    if is_killed:
        await llm.script_for("embeddings", FAILS)
        with run_server(folder, **make_embedder_settings(llm)) as server:
            async with client_of(server) as http:
                still_down, lag_still_down = await search(http, wanted), await read_lag(http)
                await llm.script_for("embeddings")
                await wait_until_indexed(http)
                up = await search(http, wanted)
        assert (still_down["degraded"], lag_still_down) == (["embedder"], count)
        assert (still_down["results"][0]["content"], list_stages(still_down)) == (wanted, ["lexical"])

    # Saves that waited for the embedder, a second each, would take many times as long.
    assert took_s < SLOWER * plain_s
    assert (down["degraded"], lag_down) == (["embedder"], count)
    assert (down["results"][0]["content"], list_stages(down)) == (wanted, ["lexical"])
    assert (up["degraded"], up["index_lag"], up["results"][0]["content"]) == ([], 0, wanted)
    assert list_stages(up) == ["lexical", "vector"]
    assert vectors_on_disk(folder) == vectors_of(contents)


@pytest.mark.parametrize("count", [150, pytest.param(1_500, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])])
async def test_several_processes_embed_each_text_once(tmp_path: Path, llm: ScriptedLLM, count: int) -> None:
    contents = texts(count) + texts(count)[-PROCESSES:]
    # The tests before have had the same texts embedded.
    before = len(await llm.requests("embeddings"))
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(PROCESSES):
            server = stack.enter_context(run_server(tmp_path, **make_embedder_settings(llm)))
            clients.append(await stack.enter_async_context(client_of(server)))
        await asyncio.gather(*(save_each(http, contents[at::PROCESSES]) for at, http in enumerate(clients)))
        for http in clients:
            await wait_until_indexed(http)
        # Before the searches, whose queries are embedded too.
        embedded = Counter(
            text for asked in (await llm.requests("embeddings"))[before:] for text in asked["body"]["input"]
        )
        found = [await search(http, contents[at]) for at, http in enumerate(clients)]

    assert {text: embedded[text] for text in contents} == dict.fromkeys(contents, 1)
    assert [item["results"][0]["content"] for item in found] == contents[:PROCESSES]
    assert [list_stages(item) for item in found] == [["lexical", "vector"]] * PROCESSES
