"""The outbox over HTTP: what waits, what failed for good, as far as the caller sees it; and trying it again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.bootstrap import Hub
from knowhub.web.app import create_app
from tests.builders import FakeClock
from tests.hubs import open_search_hub
from tests.memory_index import POISON, PickyEmbedder, drain_outbox, vectors_of
from tests.web.conftest import client_of
from tests.web.sessions import commit_session, search_memories

pytestmark = pytest.mark.anyio

OUTBOX = "/api/context/outbox"
LI: dict[str, Any] = {"user_id": "li"}
ZHOU: dict[str, Any] = {"user_id": "zhou"}


@dataclass
class Scene:
    """A hub with an embedder that refuses a text, and its routes."""

    hub: Hub
    api: httpx.AsyncClient
    clock: FakeClock
    embedder: PickyEmbedder

    async def outbox(self, **ids: str) -> dict[str, Any]:
        response = await self.api.get(OUTBOX, params=ids)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def work_off(self) -> None:
        await drain_outbox(self.hub, self.clock)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock, embedder = FakeClock(), PickyEmbedder()
    async with open_search_hub(tmp_path, embedder, clock) as hub, client_of(create_app(hub.settings, hub)) as api:
        yield Scene(hub, api, clock, embedder)


async def test_without_an_embedder_nothing_is_pending(api: httpx.AsyncClient) -> None:
    await commit_session(api, "s-1", "the zebra is striped")

    answer = (await api.get(OUTBOX)).json()

    assert answer == {"pending": 0, "claimed": 0, "failed": 0, "dead": 0, "lag_s": 0.0, "dead_letters": []}


async def test_a_commit_is_pending_with_its_age_until_it_is_embedded(scene: Scene) -> None:
    answer = await commit_session(scene.api, "s-1", "the zebra is striped", options={"extract": False}, **LI)
    scene.clock.advance(5)

    before = await scene.outbox(**LI)
    hidden = await scene.outbox(**ZHOU)
    await vectors_of(scene.hub).embed_pending()
    after = await scene.outbox(**LI)

    assert {event["event_type"] for event in answer["outbox_events"]} == {"UPSERT_CONTEXT"}
    assert (before["pending"], before["lag_s"]) == (len(answer["outbox_events"]), 5.0)
    assert (hidden["pending"], hidden["lag_s"]) == (0, 0.0)
    assert (after["pending"], after["lag_s"]) == (0, 0.0)


async def test_a_dead_letter_names_its_failure_and_its_owner_retries_it(scene: Scene) -> None:
    await commit_session(scene.api, "s-1", "the zebra is striped", POISON, options={"extract": False}, **LI)
    await scene.work_off()
    (letter, *_) = (answer := await scene.outbox(**LI))["dead_letters"]
    retry = f"{OUTBOX}/{letter['event_id']}/retry"

    metrics, ready = (await scene.api.get("/metrics")).text, (await scene.api.get("/ready")).json()
    hidden = await scene.outbox(**ZHOU)
    refused = await scene.api.post(retry, json=ZHOU)
    unknown = await scene.api.post(f"{OUTBOX}/unknown/retry", json=ZHOU)
    scene.embedder.is_mended = True
    retried = await scene.api.post(retry, json=LI)
    await scene.work_off()

    assert f'knowhub_outbox_events{{status="dead"}} {answer["dead"]}.0' in metrics
    assert 'knowhub_outbox_events{status="failed"} 0.0' in metrics
    assert (ready["index_lag"], "memory_vectors" in ready["degraded"], POISON in str(ready)) == (0, True, False)
    assert (letter["status"], letter["error"] != "") == ("dead", True)
    assert letter["uri"].startswith("ctx://default/users/li/sessions/s-1")
    assert (hidden["dead"], hidden["dead_letters"]) == (0, [])
    assert (refused.status_code, unknown.status_code) == (404, 404)
    assert refused.text.replace(letter["event_id"], "unknown") == unknown.text
    assert (retried.status_code, retried.json()["status"], retried.json()["operation_id"]) == (200, "pending", None)
    again = await scene.outbox(**LI)
    assert again["dead"] == answer["dead"] - 1
    assert letter["event_id"] not in [item["event_id"] for item in again["dead_letters"]]


async def test_a_memory_without_a_vector_is_found_by_words(scene: Scene) -> None:
    await commit_session(scene.api, "s-1", POISON, **LI)
    await scene.work_off()

    blocks = await search_memories(scene.api, "poisoned", categories="sessions", **LI)

    assert blocks[0]["message_ids"] == ["m-1"]


async def test_only_a_dead_letter_can_be_retried(api: httpx.AsyncClient) -> None:
    answer = await commit_session(api, "s-1", "hello")

    response = await api.post(f"{OUTBOX}/{answer['outbox_events'][0]['event_id']}/retry")

    assert response.status_code == 404
