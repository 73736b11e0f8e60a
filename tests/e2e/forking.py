"""Commands as forks of a process that has imported the server: a start is mostly imports, and hundreds are tested."""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).resolve().parents[2]
_MODULE = "tests.e2e.forking_parent"


class ForkedProcess:
    """A running command, used as `subprocess.Popen` is; `stdout` is readable if the command writes into a pipe."""

    def __init__(self, pid: int, status: IO[bytes], stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, negative after a signal, or None while it runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises TimeoutExpired after so many seconds."""
        code = self._read_status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode


def fork_command(
    words: Sequence[str],
    variables: Mapping[str, str],
    folder: Path = _ROOT,
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
) -> ForkedProcess:
    """Start `knowhub` with these words. Without `stdout` its output is read from the process that is returned."""
    pipe: IO[bytes] | None = None
    status_end, told_end = os.pipe()
    with ExitStack() as passed:
        passed.callback(os.close, told_end)
        if stdin is None:
            stdin = passed.enter_context(Path(os.devnull).open("rb"))
        if stdout is None:
            read_end, write_end = os.pipe()
            pipe, stdout = os.fdopen(read_end, "rb"), passed.enter_context(os.fdopen(write_end, "wb"))
        request = json.dumps({"words": list(words), "variables": dict(variables), "folder": str(folder)}).encode()
        streams = [stdin.fileno(), stdout.fileno(), 2 if stderr is None else stderr.fileno()]
        socket.send_fds(_forking_parent(), [request], [*streams, told_end])
    status = os.fdopen(status_end, "rb", buffering=0)
    return ForkedProcess(int(status.readline()), status, pipe)


@functools.cache
def _forking_parent() -> socket.socket:
    """Start the process that forks; it ends with this one, whose end of the socket it reads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(_ROOT)}
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=variables, cwd=_ROOT
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
