"""A real server whose embedder is down, that is killed, and whose embedder comes back: every record gets its vector."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.scripted_llm import running_llm
from tests.e2e.server_process import WAIT_S, Server, run_server

pytestmark = pytest.mark.anyio

RECORDS = 300
NOWHERE = "http://127.0.0.1:9/v1"


def client_of(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=WAIT_S, trust_env=False)


def search(http: httpx.Client, text: str) -> Any:  # noqa: ANN401 -- JSON
    answer = http.get("/api/knowledge/search", params={"q": text, "explain": True, "order": "relevance"})
    answer.raise_for_status()
    return answer.json()


async def test_records_saved_without_the_embedder_are_embedded_later(
    tmp_path: Path,
) -> None:
    variables = {"KNOWHUB_EMBEDDING_ATTEMPTS": "1", "KNOWHUB_EMBEDDING_SEARCH_BUDGET_S": "20"}
    items = [{"content": f"widget {number} 部件", "dedup": False} for number in range(RECORDS)]
    with run_server(tmp_path, **variables, KNOWHUB_EMBEDDING_BASE_URL=NOWHERE) as server, client_of(server) as http:
        http.post("/api/knowledge/batch", json={"items": items}).raise_for_status()
        down, lag = search(http, "widget 77"), http.get("/ready").json()["index_lag"]
        server.kill()

    async with running_llm() as embedder:
        back = variables | {"KNOWHUB_EMBEDDING_BASE_URL": embedder.url}
        with run_server(tmp_path, **back) as server, client_of(server) as http:
            deadline = time.monotonic() + 2 * WAIT_S
            while http.get("/ready").json()["index_lag"] and time.monotonic() < deadline:
                time.sleep(0.1)  # noqa: ASYNC251 -- the server is another process
            up, ready = search(http, "widget 77"), http.get("/ready").json()

    assert (down["degraded"], down["results"][0]["content"], lag) == (["embedder"], "widget 77 部件", RECORDS)
    assert (up["degraded"], up["index_lag"], up["results"][0]["content"]) == ([], 0, "widget 77 部件")
    assert [stage["stage"] for stage in up["results"][0]["why"]["stages"]] == ["lexical", "vector"]
    assert "vectors" not in ready["failures"]
