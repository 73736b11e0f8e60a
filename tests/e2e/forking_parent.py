"""The process whose forks are the commands of tests (`forking.py`). It imports the server once, and has one thread."""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import Any

from knowhub.cli.main import COMMANDS

MODULES = (
    "knowhub.bootstrap",
    "knowhub.web.app",
    "knowhub.web.server",
    *(f"knowhub.cli.{entry.module}" for entry in COMMANDS.values()),
)
MOST_BYTES = 1 << 20


def serve_requests(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request until the tests end. Returns in the child only: the request, its streams in place."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready = set(select.select([requests.fileno(), *running], [], [])[0])
        for watch in ready & set(running):
            pid, told = running.pop(watch)
            _, status = os.waitpid(pid, 0)
            os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(told)
            os.close(watch)
        if requests.fileno() not in ready:
            continue
        message, passed, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not message:
            os._exit(0)
        *streams, told = passed
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            open_streams()
            for descriptor in (*streams, told, requests.detach(), *running, *(end for _, end in running.values())):
                os.close(descriptor)
            request: dict[str, Any] = json.loads(message)
            return request
        os.write(told, b"%d\n" % pid)
        for stream in streams:
            os.close(stream)
        running[os.pidfd_open(pid)] = (pid, told)


def open_streams() -> None:
    """Open the standard streams as a new interpreter does: they lead to other kinds of files than in the parent."""
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0, "rb", closefd=False)), sys.stdin.encoding)
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "wb", closefd=False)), sys.stdout.encoding)
    sys.stderr = TextIOWrapper(
        BufferedWriter(FileIO(2, "wb", closefd=False)), sys.stderr.encoding, "backslashreplace", line_buffering=True
    )


def main() -> None:
    for name in MODULES:
        import_module(name)
    gc.freeze()
    # Control-C is for the tests. A command handles it, also where a shell started the tests in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = serve_requests(socket.socket(fileno=int(sys.argv[1])))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["folder"])
    sys.argv = ["knowhub", *request["words"]]
    runpy.run_module("knowhub", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
