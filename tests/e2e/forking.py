"""Commands as forks of a process that has imported the server: a start is mostly imports, and hundreds are tested."""

import atexit
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tests.e2e.forked_knowhub import SOCKET, request_fork

_ROOT = Path(__file__).resolve().parents[2]


class ForkedProcess:
    """A running command, used as `subprocess.Popen` is; `stdout` is readable if the command writes into a pipe."""

    def __init__(self, pid: int, status: socket.socket, stdout: IO[bytes] | None) -> None:
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
            self.returncode = int(self._status.recv(16))
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
    with ExitStack() as passed:
        if stdin is None:
            stdin = passed.enter_context(Path(os.devnull).open("rb"))
        if stdout is None:
            read_end, write_end = os.pipe()
            pipe, stdout = os.fdopen(read_end, "rb"), passed.enter_context(os.fdopen(write_end, "wb"))
        streams = [stdin.fileno(), stdout.fileno(), 2 if stderr is None else stderr.fileno()]
        pid, status = request_fork(_address(), words, variables, folder, streams)
    return ForkedProcess(pid, status, pipe)


def variables_for_scripts(folder: Path) -> dict[str, str]:
    """Return variables with which a script's `knowhub` is a fork too; `folder` gets a program of this name."""
    program = folder / "knowhub"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{_ROOT}/tests/e2e/forked_knowhub.py" "$@"\n')
    program.chmod(0o755)
    return {SOCKET: _address(), "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


@functools.cache
def _address() -> str:
    """Start the process that forks, and return the address of its socket. It ends with this process."""
    folder = tempfile.mkdtemp(prefix="knowhub-forking-")
    address = f"{folder}/socket"
    command = [sys.executable, "-m", "tests.e2e.forking_parent", address]
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(_ROOT)}
    process = subprocess.Popen(command, env=variables, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"listening\n"

    def end() -> None:
        process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        process.wait()
        Path(address).unlink()
        Path(folder).rmdir()

    atexit.register(end)
    return address
