"""One connection to a real server, on which bytes are written as they are."""

import json
import socket
from typing import Any, Self
from urllib.parse import urlsplit

from tests.e2e.server_process import Server


class Wire:
    """One connection, on which requests are written as they are."""

    def __init__(self, server: Server) -> None:
        address = urlsplit(server.url)
        self._socket = socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=30)
        # What is written in two pieces also arrives so.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def write(self, text: str | bytes) -> None:
        self._socket.sendall(text.encode() if isinstance(text, str) else text)

    def line(self) -> bytes:
        return self._stream.readline()

    def answer(self) -> tuple[int, str, Any]:
        status = int(self._stream.readline().split()[1])
        headers = {}
        while (line := self._stream.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self._stream.read(int(headers["content-length"]))
        return status, headers["content-type"], json.loads(body)

    def ask(self, text: str | bytes) -> tuple[int, str, Any]:
        self.write(text)
        return self.answer()
