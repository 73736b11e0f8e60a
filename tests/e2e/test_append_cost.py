"""What a turn costs that is appended to a long session, beside the first turn of a session."""

import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import ROOT, Server, run_server

LONG, ROUNDS, TURNS_A_ROUND = 1_000, 5, 12
"""Together 120 messages: the long session is summarised again once, as it has grown by a tenth."""
MAX_LOGGED = 10 * 1024
MAX_CPU = 2.0
WAIT_S = 30.0


def iterate_sentences(language: str) -> Iterator[str]:
    lines = (ROOT / "tests/data/dialogues.jsonl").read_text(encoding="utf-8").splitlines()
    return itertools.cycle(
        [row["text"] for row in map(json.loads, lines) if "text" in row and row["language"] == language]
    )


class Talker:
    """Commits turns of a user and an assistant, each with a call of a tool, and measures what they cost."""

    def __init__(self, server: Server, data: Path, language: str) -> None:
        self._client = httpx.Client(base_url=server.url, trust_env=False, timeout=60)
        self._clock = (~server.process.pid << 3) | 2
        self._log = data / "change_log"
        self._texts = iterate_sentences(language)
        self._numbers = itertools.count()

    def commit(self, session: str, count: int) -> int:
        """Commit so many messages; return the bytes of their texts."""
        messages = [self._message(("user", "assistant")[place % 2]) for place in range(count)]
        tools = [{"name": "Bash", "call_id": f"toolu_{next(self._numbers):020d}", "ok": True}]
        body = {"session_id": session, "messages": messages, "used_tools": tools, "user_id": "li"}
        response = self._client.post("/api/context/sessions/commit", json=body)
        assert response.status_code == 201, response.text
        return sum(len(message["content"].encode()) for message in messages)

    def log_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._log.iterdir())

    def cpu_s(self) -> float:
        """Return the server's processor time so far, after all that its requests leave to do."""
        deadline = time.monotonic() + WAIT_S
        while self._client.get("/ready").json()["index_lag"] and time.monotonic() < deadline:
            time.sleep(0.05)
        return time.clock_gettime(self._clock)

    def close(self) -> None:
        self._client.close()

    def _message(self, role: str) -> dict[str, Any]:
        number = next(self._numbers)
        # A figure before each sentence: statements would be found again and again, which no talk does.
        return {"role": role, "content": f"{number} {next(self._texts)}", "message_id": f"msg-{number:08d}"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_turn_on_a_thousand_messages_costs_about_what_a_first_turn_does(tmp_path: Path, language: str) -> None:
    # Beside another process a measurement only gets larger, so a large one is made once more.
    for attempt in range(2):
        logged, ratio = measure(tmp_path / f"data-{attempt}", language)
        if ratio <= MAX_CPU:
            break

    assert logged <= MAX_LOGGED
    assert ratio <= MAX_CPU
    sys.stdout.write(f"{language}: {logged} bytes beyond, {ratio:.2f} x the processor time\n")


def measure(data: Path, language: str) -> tuple[int, float]:
    """Return the most bytes that a turn logs beyond its text, and its processor time as a share of a first turn."""
    with run_server(data) as server:
        talker = Talker(server, data, language)
        for _ in range(LONG // 50):
            talker.commit("long", 50)
        first_s = long_s = 0.0
        beyond = []
        for number in range(ROUNDS):
            began = talker.cpu_s()
            for turn in range(TURNS_A_ROUND):
                talker.commit(f"new-{number}-{turn}", 2)
            between = talker.cpu_s()
            for _ in range(TURNS_A_ROUND):
                before = talker.log_bytes()
                text = talker.commit("long", 2)
                beyond.append(talker.log_bytes() - before - text)
            first_s, long_s = first_s + between - began, long_s + talker.cpu_s() - between
        talker.close()
    return max(beyond), long_s / first_s
