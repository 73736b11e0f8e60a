"""SIGTERM ends a server in time, whatever it is doing; a real process is stuck in each way."""

import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.server_process import WAIT_S, Server, start_server

TIMEOUT_S = 4


@contextmanager
def start_stuck_server(data: Path, *words: str) -> Iterator[Server]:
    command = (sys.executable, "-m", "tests.e2e.stuck_server", *words)
    server = start_server(data, command, KNOWHUB_PORT="0", KNOWHUB_SHUTDOWN_TIMEOUT_S=str(TIMEOUT_S))
    try:
        yield server
    finally:
        server.kill()


def is_answering(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/health", timeout=0.5, trust_env=False).is_success
    except httpx.TimeoutException:
        return False


@pytest.mark.parametrize("words", [("loop",), ("thread",), ("loop", "thread")], ids=" and ".join)
def test_a_stuck_server_ends_within_its_time_and_says_where_it_is_stuck(
    tmp_path: Path, words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with start_stuck_server(tmp_path / "data", *words) as server:
        assert is_answering(server)
        if "loop" in words:
            server.process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
            assert not is_answering(server)

        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        if "loop" in words:
            # Another one puts nothing off.
            time.sleep(1)
            server.process.send_signal(signal.SIGTERM)
        status = server.wait()

    assert status == -signal.SIGKILL
    assert TIMEOUT_S - 0.5 <= time.monotonic() - began < TIMEOUT_S + 2
    report = capfd.readouterr().err.partition("the server has not ended yet")[2]
    assert ("in stay_busy" if "loop" in words else "threading.py") in report


def test_a_server_blocked_in_c_code_is_killed_in_time(tmp_path: Path) -> None:
    with start_stuck_server(tmp_path / "data", "interpreter") as server:
        assert is_answering(server)
        server.process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        assert not is_answering(server)

        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        status = server.wait()

    assert status == -signal.SIGKILL
    assert time.monotonic() - began < TIMEOUT_S + 3


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT], ids=lambda sign: sign.name)
def test_a_server_ends_well_at_the_first_signal_and_lets_a_request_finish(tmp_path: Path, sign: signal.Signals) -> None:
    server = start_server(tmp_path / "data", KNOWHUB_SHUTDOWN_TIMEOUT_S="20")
    place = urlsplit(server.url)
    body = b'{"content":"sent while the server ends"}'
    head = b"POST /api/knowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

    with socket.create_connection((place.hostname, place.port), timeout=WAIT_S) as wire:
        wire.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:9])
        time.sleep(0.3)
        server.process.send_signal(sign)
        time.sleep(1)
        wire.sendall(body[9:])
        answer = wire.recv(65536)
        status = server.wait()

    assert answer.startswith(b"HTTP/1.1 201 ")
    assert status == 0


def test_a_second_interrupt_waits_for_no_request(tmp_path: Path) -> None:
    server = start_server(tmp_path / "data")
    place = urlsplit(server.url)

    with socket.create_connection((place.hostname, place.port), timeout=WAIT_S) as wire:
        wire.sendall(b"POST /api/knowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
        time.sleep(0.3)
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        server.process.send_signal(signal.SIGINT)
        server.wait()

    assert time.monotonic() - began < 10


def test_a_long_capture_ends_after_its_commit_and_the_rest_is_stored_the_next_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    transcript = tmp_path / "transcripts" / "s.jsonl"
    transcript.parent.mkdir()
    lines = (
        {"type": "user", "uuid": f"m{i}", "message": {"role": "user", "content": f"Step {i}"}} for i in range(11_000)
    )
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    commits = 6

    def start() -> Server:
        return start_server(tmp_path / "data", KNOWHUB_HOOK_TRANSCRIPTS=str(transcript.parent))

    def send(server: Server) -> None:
        payload = {"session_id": "s", "transcript_path": str(transcript)}
        httpx.post(f"{server.url}/api/hooks/claude/Stop", json=payload, timeout=WAIT_S, trust_env=False)

    def count_operations(server: Server, at_least: int = 0) -> int:
        deadline = time.monotonic() + 120
        while True:
            answer = httpx.get(f"{server.url}/api/operations", timeout=WAIT_S, trust_env=False).json()
            count = len(answer["results"])
            if count >= at_least or time.monotonic() > deadline:
                return count
            time.sleep(0.02)

    first = start()
    send(first)
    assert count_operations(first, 1) < commits
    assert first.stop() == 0
    assert "capture_stopped" in capfd.readouterr().err

    second = start()
    assert 1 <= count_operations(second) < commits
    send(second)
    assert count_operations(second, commits) == commits
    # It is complete: once more changes nothing.
    send(second)
    assert second.stop() == 0
    third = start()
    assert count_operations(third) == commits
    assert third.stop() == 0
