"""Which server has a data directory open: the file SERVER has its address, and is locked for as long as it answers."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from pathlib import Path
    from socket import socket

    from knowhub.settings import Settings

_NAME = "SERVER"
# By the address that a server listens on.
_REACHED_AT = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "[::1]", "::": "[::1]"}  # noqa: S104 -- no binding
_MAX_BYTES = 4096
_TRIES = 20
_PAUSE_S = 0.01


class Announcement:
    """The address of this process in SERVER of a data directory. Only the first server of a directory is announced."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _NAME
        self._descriptor: int | None = None

    def publish(self, settings: Settings, listening: socket) -> None:
        """Write the address and lock the file, where no key is asked for and this machine can reach the address.

        A directory that cannot be written has no SERVER.
        """
        host, port = listening.getsockname()[:2]
        if settings.auth != "none" or host not in _REACHED_AT:
            return
        server = {"url": f"http://{_REACHED_AT[host]}:{port}", "mcp_tools": settings.mcp_tools}
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if self._try_lock(self._descriptor):
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, orjson.dumps(server))
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


def find_server(data_dir: Path, mcp_tools: str) -> str | None:
    """Return the address of the server that has a directory open, needs no key, and offers these tools over MCP.

    None if there is none.
    """
    try:
        descriptor = os.open(data_dir / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_url(os.read(descriptor, _MAX_BYTES), mcp_tools)
    finally:
        os.close(descriptor)
    return None


def _read_url(text: bytes, mcp_tools: str) -> str | None:
    try:
        server: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        # It is being written.
        return None
    return server["url"] if server["mcp_tools"] == mcp_tools else None
