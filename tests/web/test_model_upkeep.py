"""What /metrics and /ready tell of the language model: what it was asked, what it cost, when it is left alone."""

from collections.abc import Iterator

import httpx
import pytest
import respx

from knowhub.bootstrap import Hub
from knowhub.core.background_writes import MAX_PENDING
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import local
from tests.fakes.model_server import BASE_URL, URL, completion
from tests.fakes.scripted_chat import ScriptedChat
from tests.web.conftest import open_server
from tests.web.trees import create_keyword

pytestmark = pytest.mark.anyio

FAILURES_TO_OPEN = 5


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"llm_base_url": BASE_URL, "llm_attempts": 1})


@pytest.fixture
def model() -> Iterator[respx.Route]:
    with respx.mock() as router:
        yield router.post(URL)


async def search(api: httpx.AsyncClient, q: str) -> str:
    answer = (await api.get("/api/keywords/search", params={"q": q})).json()
    return f"{answer['status']} {answer['reason']}"


async def read_model_metrics(api: httpx.AsyncClient) -> dict[str, float]:
    """Return the values of the model in /metrics by name."""
    lines = [line.rpartition(" ") for line in (await api.get("/metrics")).text.splitlines()]
    ours = ("knowhub_llm_", "knowhub_agent_")
    return {name: float(value) for name, _, value in lines if name.startswith(ours)}


async def test_calls_failures_and_tokens_are_counted(api: httpx.AsyncClient, model: respx.Route) -> None:
    await create_keyword(api, "编程语言")
    found, refused = completion({"action": "match", "node_id": 1}), httpx.Response(500)
    model.mock(side_effect=[found, refused, found])

    answered = [await search(api, q) for q in ("one", "two", "three")]

    assert answered == ["matched match", "not_found agent_failure", "matched match"]
    assert await read_model_metrics(api) == {
        "knowhub_llm_calls_total": 3.0,
        "knowhub_llm_failures_total": 1.0,
        'knowhub_llm_tokens_total{kind="prompt"}': 200.0,
        'knowhub_llm_tokens_total{kind="completion"}': 20.0,
        "knowhub_agent_decisions_dropped_total": 0.0,
    }


async def test_a_paused_model_degrades_the_hub_but_not_writes(api: httpx.AsyncClient, model: respx.Route) -> None:
    await create_keyword(api, "编程语言")
    model.mock(return_value=httpx.Response(500))
    for number in range(FAILURES_TO_OPEN - 1):
        await search(api, f"query {number}")
    before = (await api.get("/ready")).json()

    await search(api, "the last straw")
    ready = await api.get("/ready")

    assert before["degraded"] == []
    assert (ready.status_code, ready.json()["status"], ready.json()["degraded"]) == (200, "ready", ["llm"])
    await search(api, "refused without asking")
    assert model.call_count == FAILURES_TO_OPEN
    assert (await read_model_metrics(api))["knowhub_llm_failures_total"] == FAILURES_TO_OPEN + 1
    assert (await api.post("/api/keywords", json={"name": "Python"})).json()["degraded"] == ["llm"]


async def test_decisions_dropped_by_a_full_queue_are_counted(api: httpx.AsyncClient, hub: Hub) -> None:
    for _ in range(MAX_PENDING + 3):
        hub.decisions.note(local(), [{"function": "pick_branch"}])

    assert (await read_model_metrics(api))["knowhub_agent_decisions_dropped_total"] == 3.0


async def test_a_model_without_counters_has_no_metrics(settings: Settings) -> None:
    async with open_server(settings, Overrides(llm=ScriptedChat())) as api:
        await search(api, "anything")

        assert await read_model_metrics(api) == {"knowhub_agent_decisions_dropped_total": 0.0}
        assert (await api.get("/ready")).json()["degraded"] == []


async def test_without_a_model_there_are_no_model_metrics(settings: Settings) -> None:
    plain = settings.model_copy(update={"llm_base_url": None})
    async with open_server(plain) as api:
        assert await read_model_metrics(api) == {}
