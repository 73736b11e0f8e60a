"""Attacks on a real server, each in a process of its own: `python -m tests.e2e.attacks NAME URL KEY PID`.

PID is the server's. It prints a line of JSON for each connection: the status of the answer, and how long it took.
"""

import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from tests.e2e.server_process import Stopwatch

MIB = 1024 * 1024
# What the attacker has to itself is no part of the attack: on two cores it would take the server's.
NICENESS = 19
# A server that holds everything would else end the machine that the test runs on.
MAX_SENT_BYTES = 640 * MIB
# How long a body stays half-sent before the attacker leaves.
HELD_S = 1.0
GIVES_UP_S = 30.0
# Marks the place where a request stops being sent.
END = b""


@dataclass(slots=True)
class Connection:
    """A request that is sent as fast as the server reads it, and its answer.

    `watch` runs from the last byte that was sent, or from the first where the answer came before.
    """

    socket: socket.socket
    parts: Sequence[bytes]
    server_id: int
    watch: Stopwatch
    part: int = 0
    offset: int = 0
    sent: int = 0
    is_sent: bool = False
    status: int | None = None
    answered_s: float | None = None
    is_over: bool = False

    def send(self) -> None:
        """Send what goes; an answer, or an end, is noted by `receive`."""
        part = self.parts[self.part]
        count = self.socket.send(memoryview(part)[self.offset : self.offset + MIB])
        self.sent += count
        self.offset += count
        if self.offset == len(part):
            self.part, self.offset = self.part + 1, 0
        if self.part == len(self.parts):
            self.is_sent, self.watch = True, Stopwatch(self.server_id)

    def receive(self) -> None:
        """Note the answer, or that the connection is at its end."""
        answer = self.socket.recv(65536)
        if self.status is None and answer.startswith(b"HTTP/1.1 "):
            self.status = int(answer[9:12])
            self.answered_s = self.watch.read()
        self.is_over = not answer


def request(path: str, key: str, *lines: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"X-API-Key: {key}", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, "", ""]).encode()


def send_body(body: bytes, key: str) -> list[list[bytes]]:
    """Ten times the mebibyte of the report, in a body that is allowed to have it."""
    return [[request("/api/knowledge/batch", key, f"Content-Length: {len(body)}"), body]]


def send_endless_headers(_key: str) -> list[list[bytes]]:
    """Ten times the 32 MiB of the report, without a key."""
    block = b"A: b\r\n" * (MIB // 6)
    return [[b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n", *[block] * 320, b"\r\n"]]


def send_half_bodies(key: str) -> list[list[bytes]]:
    """Ten times the sixteen connections of the report; the last byte of each body is never sent."""
    size = 16 * MIB
    block = b" " * MIB
    head = request("/api/knowledge/batch", key, f"Content-Length: {size}")
    return [[head, *[block] * 15, block[:-1], END] for _ in range(160)]


ATTACKS: Mapping[str, Callable[[str], list[list[bytes]]]] = {
    "escaped quotes behind deep brackets": partial(send_body, b"[" * 65 + b'\\"' * (5 * MIB)),
    "escaped quotes behind brackets": partial(send_body, b"[" * 64 + b"][" + b'\\"' * (5 * MIB)),
    "escaped quotes in a string": partial(send_body, b"[" * 64 + b'"[' + b'\\"' * (5 * MIB)),
    "endless headers": send_endless_headers,
    "half-sent bodies": send_half_bodies,
}


def attack(place: tuple[str, int], requests: Sequence[Sequence[bytes]], server_id: int) -> list[Connection]:
    """Send all requests side by side, until each is answered, and no connection takes any more."""
    selector = selectors.DefaultSelector()
    connections = []
    for parts in requests:
        connection = Connection(socket.create_connection(place), parts, server_id, Stopwatch(server_id))
        connection.socket.setblocking(False)
        selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        connections.append(connection)
    began = quiet_since = time.monotonic()
    while selector.get_map() and time.monotonic() < began + GIVES_UP_S:
        moved = _go_on(selector, room=MAX_SENT_BYTES - sum(connection.sent for connection in connections))
        quiet_since = time.monotonic() if moved else quiet_since
        if time.monotonic() > quiet_since + HELD_S and not any(_is_waiting(item) for item in connections):
            break
    return connections


def _is_waiting(connection: Connection) -> bool:
    """Return whether a request was sent whole and is not answered."""
    return connection.status is None and connection.is_sent


def _go_on(selector: selectors.BaseSelector, room: int) -> bool:
    moved = False
    for selected, events in selector.select(0.05):
        connection: Connection = selected.data
        try:
            if events & selectors.EVENT_READ:
                connection.receive()
                moved = True
            is_sending = not connection.is_sent and room > 0 and connection.parts[connection.part] != END
            if events & selectors.EVENT_WRITE and is_sending and not connection.is_over:
                connection.send()
                moved = True
        except OSError:
            connection.is_over = True
        if connection.is_over:
            selector.unregister(connection.socket)
        elif not is_sending:
            selector.modify(connection.socket, selectors.EVENT_READ, connection)
    return moved


def main() -> None:
    name, url, key, server_id = sys.argv[1:]
    os.nice(NICENESS)
    place = urlsplit(url)
    for connection in attack((str(place.hostname), int(place.port or 0)), ATTACKS[name](key), int(server_id)):
        row = {"status": connection.status, "answered_s": connection.answered_s}
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
