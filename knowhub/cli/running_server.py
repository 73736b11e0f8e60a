"""Which server has a data directory open: the file SERVER has its address, and is locked for as long as it answers.

The lock is seen across network namespaces, as containers have them, and there the address may be another server's. So
SERVER has a token too, and a server proves with `/health` that it knows the token.
"""

from __future__ import annotations

import fcntl
import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import orjson

from knowhub.core.errors import Unavailable
from knowhub.core.ids import random_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from socket import socket

    from knowhub.settings import Settings

_NAME = "SERVER"
# By the address that a server listens on.
_REACHED_AT = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "[::1]", "::": "[::1]"}  # noqa: S104 -- no binding
_MAX_BYTES = 4096
_TRIES = 20
_PAUSE_S = 0.01
_PROOF_S = 5.0
_TOKEN_BYTES = 16
_CHALLENGE = "X-KnowHub-Challenge"
_PROOF = "X-KnowHub-Proof"


class _Server(NamedTuple):
    """What SERVER says. `owner` owns what is saved by nobody who is named."""

    url: str
    token: str
    mcp_tools: str
    owner: str


class Announcement:
    """The address of this process in SERVER of a data directory. Only the first server of a directory is announced."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _NAME
        self._descriptor: int | None = None
        self._token = random_bytes(_TOKEN_BYTES).hex()

    def answer_challenge(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that answer the challenge in those of a request, where there is one."""
        challenge = headers.get(_CHALLENGE)
        return {} if challenge is None else {_PROOF: _make_proof(self._token, challenge)}

    def publish(self, settings: Settings, listening: socket, owner: str) -> None:
        """Write the address and lock the file, where no key is asked for and this machine can reach the address.

        A directory that cannot be written has no SERVER.
        """
        host, port = listening.getsockname()[:2]
        if settings.auth != "none" or host not in _REACHED_AT:
            return
        server = _Server(f"http://{_REACHED_AT[host]}:{port}", self._token, settings.mcp_tools, owner)
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if self._try_lock(self._descriptor):
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, orjson.dumps(server._asdict()))
        except OSError:
            self.withdraw()

    def withdraw(self) -> None:
        """Unlock SERVER: from now on another process may have the address."""
        if self._descriptor is not None:
            # Closing alone would not do: a forked process has the same open file.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None

    def _try_lock(self, descriptor: int) -> bool:
        for _ in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Whoever looks whether it is locked holds it for a moment.
                time.sleep(_PAUSE_S)
            else:
                return True
        return False


def find_server(data_dir: Path, mcp_tools: str, owner: str | None) -> str | None:
    """Return the address of the server that has a directory open, needs no key, and offers these tools over MCP.

    None if there is none, if what answers there is another server, or if nothing does within _PROOF_S. `owner` is who
    must own there what nobody is named for; None is anybody.
    """
    try:
        descriptor = os.open(data_dir / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        server = _parse(os.read(descriptor, _MAX_BYTES))
    else:
        return None
    finally:
        os.close(descriptor)
    if server is None or server.mcp_tools != mcp_tools or owner not in (None, server.owner):
        return None
    try:
        _check(server)
    except Unavailable:
        return None
    return server.url


def _parse(text: bytes) -> _Server | None:
    try:
        server = _Server(**orjson.loads(text))
    except (orjson.JSONDecodeError, TypeError):
        # It is being written, or is of another version.
        return None
    return server if all(isinstance(value, str) for value in server) else None


@lru_cache(maxsize=1)
def _check(server: _Server) -> None:
    """Raise Unavailable unless the server at the address knows the token.

    Asked once: a server keeps its address for as long as it keeps the lock.
    """
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit

    challenge = random_bytes(_TOKEN_BYTES).hex()
    try:
        address = urlsplit(server.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=_PROOF_S)
        try:
            connection.request("GET", "/health", headers={_CHALLENGE: challenge})
            proof = connection.getresponse().getheader(_PROOF)
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        raise Unavailable(f"nothing answers at {server.url}") from error
    if proof != _make_proof(server.token, challenge):
        raise Unavailable(f"another server answers at {server.url}")


def _make_proof(token: str, challenge: str) -> str:
    import hmac

    return hmac.digest(token.encode(), challenge.encode(), "sha256").hex()
