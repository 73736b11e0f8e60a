"""Memories without a vector in all interfaces: everybody sees counts, only their owner sees names."""

from pathlib import Path

import pytest

from knowhub.web.app import create_app
from tests.builders import FakeClock
from tests.memory_index import POISON, PickyEmbedder, make_dead_letter, memory_hub
from tests.web.conftest import client_of

pytestmark = pytest.mark.anyio


async def test_dead_letters_are_counted_reported_and_shown_to_their_owner(tmp_path: Path) -> None:
    clock = FakeClock()
    async with memory_hub(tmp_path, PickyEmbedder(), clock) as hub, client_of(create_app(hub.settings, hub)) as api:
        dead = await make_dead_letter(hub, clock)

        metrics = (await api.get("/metrics")).text
        ready = (await api.get("/ready")).json()
        mine, others = [
            (await api.get("/api/context/outbox", params={"user_id": user})).json() for user in ("li", "wu")
        ]
        retried = await api.post(f"/api/context/outbox/{dead.event_id}/retry", json={"user_id": "li"})

        assert 'knowhub_outbox_events{status="dead"} 1.0' in metrics
        assert 'knowhub_outbox_events{status="failed"} 0.0' in metrics
        assert (ready["index_lag"], "memory_vectors" in ready["degraded"]) == (0, True)
        assert POISON not in str(ready)
        assert [(item["dead"], len(item["dead_letters"])) for item in (mine, others)] == [(1, 1), (0, 0)]
        assert mine["dead_letters"][0]["event_id"] == dead.event_id
        assert (retried.status_code, retried.json()["status"]) == (200, "pending")
