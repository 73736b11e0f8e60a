"""What /metrics and /ready tell of an embedder and a reranker: what they were asked, and when they are left alone."""

import httpx
import pytest

from knowhub.bootstrap import open_hub
from knowhub.core.language_models import RerankFailed
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.wiring.adapters import Overrides
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.fakes.scripted_reranker import ScriptedReranker
from tests.web.conftest import client_of, open_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def reranker() -> ScriptedReranker:
    return ScriptedReranker([ConnectionError("down")])


@pytest.fixture
def overrides(embedder: HashingEmbedder, reranker: ScriptedReranker) -> Overrides:
    return Overrides(embedder=embedder, reranker=reranker)


async def read_vector_metrics(api: httpx.AsyncClient) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in (await api.get("/metrics")).text.splitlines()]
    return {name: float(value) for name, _, value in lines if name.startswith(("knowhub_embedder", "knowhub_reranker"))}


async def test_calls_and_failures_are_counted(
    settings: Settings, overrides: Overrides, embedder: HashingEmbedder, reranker: ScriptedReranker
) -> None:
    async with open_server(settings, overrides, maintain=False) as api:
        await embedder.embed(["索引"], 10)
        with pytest.raises(RerankFailed):
            await reranker.rerank("query", ["text"], 10)
        counts = await read_vector_metrics(api)

    assert counts == {
        "knowhub_embedder_calls_total": 1.0,
        "knowhub_embedder_failures_total": 0.0,
        "knowhub_embedder_tokens_total": 2.0,
        "knowhub_reranker_calls_total": 1.0,
        "knowhub_reranker_failures_total": 1.0,
    }


async def test_a_paused_embedder_is_reported_and_writes_still_work(
    api: httpx.AsyncClient, embedder: HashingEmbedder, reranker: ScriptedReranker
) -> None:
    before = (await api.get("/ready")).json()["degraded"]

    embedder.is_open = reranker.is_open = True
    ready = await api.get("/ready")

    assert before == []
    assert (ready.status_code, ready.json()["degraded"]) == (200, ["embedder", "reranker"])


async def test_without_embedder_and_reranker_there_are_no_metrics(settings: Settings) -> None:
    async with open_hub(settings) as hub, client_of(create_app(settings, hub)) as api:
        assert (hub.embedder, hub.reranker) == (None, None)
        assert await read_vector_metrics(api) == {}
