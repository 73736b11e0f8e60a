"""Sessions to which a model gives unusable answers make nobody wait but their owners."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.held_model import HOSTILE, WAIT_S, running_held_model
from tests.e2e.server_process import run_server

HOSTILE_USERS = [f"mallory{number}" for number in range(8)]
AGENT = {"agent_id": "helper"}


def commit(client: httpx.Client, user: str, text: str, *, wait: bool) -> dict[str, Any]:
    messages = [{"role": "user", "content": text, "message_id": "m0"}]
    body = {"session_id": "s1", "messages": messages, "wait": wait, "user_id": user, **AGENT}
    response = client.post("/api/context/sessions/commit", json=body)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


def get_session(client: httpx.Client, user: str) -> dict[str, Any]:
    response = client.get("/api/context/sessions/s1", params={"user_id": user, **AGENT})
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_unusable_answers_about_eight_users_do_not_keep_a_ninth_waiting(tmp_path: Path) -> None:
    with ExitStack() as stack:
        model = stack.enter_context(running_held_model())
        for _ in range(1000):
            model.permits.release()
        server = stack.enter_context(run_server(tmp_path / "data", KNOWHUB_LLM_BASE_URL=model.url))
        client = stack.enter_context(httpx.Client(base_url=server.url, trust_env=False, timeout=WAIT_S))

        for user in HOSTILE_USERS[1:]:
            commit(client, user, HOSTILE, wait=False)
        refused = commit(client, HOSTILE_USERS[0], HOSTILE, wait=True)
        wait_until(lambda: "the model's answers are unusable" in str(client.get("/ready").json()["failures"]))
        good = commit(client, "li", "Fact 1: Boat 1 is called Ondine.", wait=True)
        waiting = [user for user in HOSTILE_USERS if get_session(client, user)["waiting"]]

        wait_until(lambda: not any(get_session(client, user)["waiting"] for user in HOSTILE_USERS))
        dropped = [get_session(client, user)["dropped"] for user in HOSTILE_USERS]
        wait_until(lambda: not client.get("/ready").json()["degraded"])

    assert refused["degraded"] == ["llm"]
    assert good["degraded"] == []
    # The good one was read while the others waited.
    assert waiting
    assert [[(item["why"], item["count"]) for item in items] for items in dropped] == [[("unusable_answer", 1)]] * 8
