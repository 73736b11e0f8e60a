"""The process whose forks are the commands of tests (`forking.py`). It imports the server once, and has one thread."""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
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
MAX_BYTES = 1 << 20


def serve_requests(listener: socket.socket) -> dict[str, Any]:
    """Fork for each request until stdin ends. Returns in the child only: the request, its streams in place."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready = set(select.select([0, listener.fileno(), *running], [], [])[0])
        for watch in ready & set(running):
            pid, status = running.pop(watch)
            # Who asked may have ended.
            with suppress(BrokenPipeError), status:
                status.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os.close(watch)
        if 0 in ready:
            os._exit(0)
        if listener.fileno() not in ready:
            continue
        status, _ = listener.accept()
        message, streams, _, _ = socket.recv_fds(status, MAX_BYTES, 3)
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            open_streams()
            for opened in (listener, status, *(other for _, other in running.values())):
                opened.close()
            for descriptor in (*streams, *running):
                os.close(descriptor)
            request: dict[str, Any] = json.loads(message)
            return request
        status.send(b"%d" % pid)
        for stream in streams:
            os.close(stream)
        running[os.pidfd_open(pid)] = (pid, status)


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
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(sys.argv[1])
    listener.listen()
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    request = serve_requests(listener)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["folder"])
    sys.argv = ["knowhub", *request["words"]]
    runpy.run_module("knowhub", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
