"""Attacks on a real server at ten times the size at which they once stopped it: nobody else notices them.

The attacker and the second caller are processes of their own. What they are held against is measured beside: how long
a search takes before, and how much memory the server has. Other programs on the machine only slow things down: times
are bounded by the processor time of the server (`Stopwatch`), and of several tries the best counts. A server that
stalls does so each time.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.e2e.server_process import COMMAND, ROOT, Server, environment, run_server

ROOT_KEY = "root-key-of-a-test-which-is-long-enough"
QUIET_S = 2.0
TRIES = 3
ANSWER_S = 0.5
GROWTH = 1.3
# A search takes 2 ms: on a busy machine three times that is less than what other programs add.
SLOWDOWN, FLOOR_S = 3, 0.02


@dataclass(frozen=True, slots=True)
class AttackedServer:
    """A server with records in it, and the keys of two callers who may read them."""

    server: Server
    attacker: str
    second: str

    @property
    def rss(self) -> int:
        """Bytes of memory that the server has."""
        status = Path(f"/proc/{self.server.process.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The result of an attack: seconds of searches before and during it, bytes of memory, and its answers."""

    before_s: float
    meanwhile_s: float
    rss_before: int
    rss_most: int
    statuses: Sequence[int | None]
    slowest_answer_s: float

    @property
    def is_unnoticed(self) -> bool:
        """Return whether answers came in time, to the attacker too."""
        return self.meanwhile_s <= max(SLOWDOWN * self.before_s, FLOOR_S) and self.slowest_answer_s < ANSWER_S


@pytest.fixture
def target(tmp_path: Path) -> Iterator[AttackedServer]:
    variables = {"KNOWHUB_AUTH": "api-key", "KNOWHUB_ROOT_KEY": ROOT_KEY, "KNOWHUB_SHUTDOWN_TIMEOUT_S": "5"}
    with (
        run_server(tmp_path / "data", COMMAND, **variables) as server,
        httpx.Client(base_url=server.url, headers={"X-API-Key": ROOT_KEY}, trust_env=False, timeout=60) as root,
    ):
        keys = []
        for user_id in ("mallory", "li"):
            body = {"user_id": user_id, "role": "reader"}
            keys.append(root.post("/api/admin/keys", json=body).raise_for_status().json()["key"])
        items = [{"task": f"Export the orders of shop {number}", "scopes": ["public"]} for number in range(200)]
        root.post("/api/knowledge/batch", json={"items": items}).raise_for_status()
        yield AttackedServer(server, *keys)


def start(module: str, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", f"tests.e2e.{module}", *words]
    variables = environment(Path("unused"))
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT)


def p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


@contextmanager
def watch_memory(target: AttackedServer) -> Iterator[list[int]]:
    """Record the peak memory of the server meanwhile."""
    most, is_over = [target.rss], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            most[0] = max(most[0], target.rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        is_over.set()
        watcher.join()


def attack(target: AttackedServer, name: str) -> AttackResult:
    url, server_id = target.server.url, str(target.server.process.pid)
    with start("second_caller", url, target.second, server_id) as second:
        assert second.stdin is not None
        assert second.stdout is not None
        to_second, from_second = second.stdin, second.stdout

        def measure_search() -> list[float]:
            to_second.write("\n")
            to_second.flush()
            seconds: list[float] = json.loads(from_second.readline())
            return seconds

        time.sleep(0.5)
        measure_search()
        time.sleep(QUIET_S)
        before, rss_before = measure_search(), target.rss
        with watch_memory(target) as most, start("attacks", name, url, target.attacker, server_id) as attacker:
            printed, _ = attacker.communicate()
            meanwhile = measure_search()
        second.stdin.close()
    answers = [json.loads(line) for line in printed.splitlines()]
    return AttackResult(
        p99(before),
        p99(meanwhile),
        rss_before,
        most[0],
        [answer["status"] for answer in answers],
        max(answer["answered_s"] or 0.0 for answer in answers),
    )


@pytest.mark.parametrize(
    ("name", "refusals"),
    [
        ("escaped quotes behind deep brackets", {422: 1}),
        ("escaped quotes behind brackets", {400: 1}),
        ("escaped quotes in a string", {400: 1}),
        ("endless headers", {431: 1}),
        # Two bodies of 16 MiB have room.
        ("half-sent bodies", {503: 158, None: 2}),
    ],
)
def test_an_attack_is_refused_at_once_without_slowing_other_callers(
    target: AttackedServer, name: str, refusals: dict[int | None, int]
) -> None:
    tries: list[AttackResult] = []
    while len(tries) < TRIES and not any(item.is_unnoticed for item in tries):
        tries.append(attack(target, name))

    for item in tries:
        assert {status: item.statuses.count(status) for status in item.statuses} == refusals
        assert item.rss_most <= GROWTH * item.rss_before
    assert any(item.is_unnoticed for item in tries), tries
