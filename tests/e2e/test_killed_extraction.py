"""kill -9 at every step of reading a session by a model: nothing is lost, nothing doubled, the order is kept."""

import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from knowhub.context.commit.policies import KNOWN
from tests.e2e.held_model import WAIT_S, HeldModel, running_held_model
from tests.e2e.server_process import Server, run_server, start_server

LI = {"user_id": "li", "agent_id": "helper"}
FACTS, LATER = 20, 4
# About two messages of the first session make a segment.
PADDING = " The tide was high and the harbour quiet that day." * 120
NAMES = ("Ondine", "Petrel", "Skua", "Heron")
# How long a server lives once the answer is on its way to it: through checks, decision, log and directories.
LIVES_S = (0.0, 0.005, 0.015, 0.05)


def fact(number: int) -> str:
    return f"Boat {number} is called {NAMES[number % len(NAMES)]}."


def message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Fact {number}: {fact(number)}{PADDING}", "message_id": f"m{number}"}


def commit(client: httpx.Client, session: str, numbers: range) -> None:
    body = {"session_id": session, "messages": [message(number) for number in numbers], **LI}
    response = client.post("/api/context/sessions/commit", json=body)
    assert response.status_code == 201, response.text


def client_of(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, timeout=30)


def kill_while_asked(data: Path, model: HeldModel, variables: dict[str, str]) -> None:
    """Kill a server whose question the model has, and does not answer."""
    model.hold()
    server = start_server(data, **variables)
    try:
        assert model.asked.wait(WAIT_S), "the server that was started again asks nothing"
    finally:
        server.kill()


def kill_behind_an_answer(data: Path, model: HeldModel, variables: dict[str, str], life_s: float) -> None:
    """Kill a server that was answered once, so many seconds ago."""
    model.hold()
    server = start_server(data, **variables)
    try:
        model.permits.release()
        assert model.answered.wait(WAIT_S)
        time.sleep(life_s)
    finally:
        server.kill()


def wait_until_read(client: httpx.Client) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        sessions: list[dict[str, Any]] = client.get("/api/context/sessions", params=LI).json()["results"]
        if not any(item["waiting"] for item in sessions):
            return sessions
        time.sleep(0.05)
    raise AssertionError("sessions wait for a model that answers")


def test_a_server_that_is_killed_while_a_model_reads_loses_and_doubles_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ExitStack() as stack:
        model = stack.enter_context(running_held_model())
        variables = {"KNOWHUB_LLM_BASE_URL": model.url, "KNOWHUB_LLM_BREAKER_FAILURES": "0"}
        first = start_server(data, **variables)
        try:
            with client_of(first) as client:
                commit(client, "first", range(FACTS))
                commit(client, "second", range(FACTS, FACTS + LATER))
        finally:
            first.kill()
        kill_while_asked(data, model, variables)
        for life_s in LIVES_S:
            kill_behind_an_answer(data, model, variables, life_s)
        kill_while_asked(data, model, variables)
        deaths = len(model.prompts)

        model.hold()
        for _ in range(FACTS):
            model.permits.release()
        server = stack.enter_context(run_server(data, **variables))
        client = stack.enter_context(client_of(server))
        sessions = wait_until_read(client)
        listed = client.get("/api/context/children", params={"recursive": True, **LI}).json()["results"]
        uris = [item["uri"] for item in listed if item["category"] == "entities"]
        nodes = [client.get("/api/context/nodes", params={"uri": uri, **LI}).json() for uri in uris]
        messages = Counter(item["uri"].rpartition("/")[2] for item in listed if "/sessions/" in item["uri"])

    assert Counter(node["content"] for node in nodes) == {fact(number): 1 for number in range(FACTS + LATER)}
    assert all(len(node["metadata"]["statements"]) == 1 for node in nodes)
    for node in nodes:
        assert f"m{node['content'].split()[1]}" in node["metadata"]["message_ids"]
    assert {item["session_id"]: item["by_model"] for item in sessions} == {"first": FACTS, "second": LATER}
    # The overlap of two segments is read twice, and what it says is known by then.
    assert {lost["why"] for item in sessions for lost in item["dropped"]} <= {KNOWN}
    assert all(messages[f"m{number}"] == 1 for number in range(FACTS + LATER))
    assert deaths >= len(LIVES_S)
    # A question may be asked again, and none goes back behind an earlier one.
    assert all(before[-1] <= after[-1] for before, after in pairwise(model.prompts))
    assert all(after[0] <= before[-1] + 1 for before, after in pairwise(model.prompts))
