"""`knowhub` as a fork (`forking.py`), for scripts: it imports little, and starts in a hundredth of the time."""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

SOCKET = "FORKING_SOCKET"


def request_fork(
    address: str, words: Sequence[str], variables: Mapping[str, str], folder: Path, streams: Sequence[int]
) -> tuple[int, socket.socket]:
    """Start a command on three streams. Returns its process id, and where its exit code can be read once."""
    status = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    status.connect(address)
    request = {"words": list(words), "variables": dict(variables), "folder": str(folder)}
    socket.send_fds(status, [json.dumps(request).encode()], list(streams))
    return int(status.recv(16)), status


def main() -> None:
    pid, status = request_fork(os.environ[SOCKET], sys.argv[1:], os.environ, Path.cwd(), [0, 1, 2])

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(pid, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    code = int(status.recv(16))
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
