"""A model that answers after the deadline: nothing waits for it, and the session is read when it answers in time."""

import asyncio
from pathlib import Path

import httpx
import pytest

from knowhub.settings import Settings
from tests.fakes.queued_chat import NEVER, Answer, QueuedChat

pytestmark = pytest.mark.anyio

LI = {"user_id": "li"}
WAIT_S = 20.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", owner="user:local", llm_write_budget_s=0.2, extraction_budget_s=0.2)


async def test_a_model_that_answers_too_late_blocks_nothing_and_is_asked_again(
    api: httpx.AsyncClient, script: list[Answer], model: QueuedChat
) -> None:
    boat = {"action": "add", "category": "entities", "statement": "Has a boat called Ondine.", "evidence": ["m1"]}
    script += [NEVER, {"changes": [{**boat, "memory": None, "date": None}]}]
    messages = [{"role": "user", "content": "My boat is called Ondine.", "message_id": "m1"}]

    answer = await api.post(
        "/api/context/sessions/commit", json={"session_id": "s1", "messages": messages, "wait": True, **LI}
    )
    waiting = (await api.get("/api/context/sessions/s1", params=LI)).json()["waiting"]
    async with asyncio.timeout(WAIT_S):
        while (await api.get("/api/context/sessions/s1", params=LI)).json()["waiting"]:  # noqa: ASYNC110 -- over HTTP
            await asyncio.sleep(0.05)
    found = (await api.get("/api/context/grep", params={"q": "Has a boat", **LI})).json()["results"]

    assert (answer.json()["degraded"], waiting) == (["llm"], 1)
    assert len(found) == 1
    assert len(model.questions) == 2
