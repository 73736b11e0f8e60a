"""A real server process: started on a free port, spoken to over a socket, ended gently or not at all gently."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

from tests.e2e.forking import ForkedProcess, fork_command

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "knowhub", "serve", "--port", "0", "--json")
WAIT_S = 30


@dataclass(frozen=True, slots=True)
class Server:
    """A running server with a known URL."""

    url: str
    process: "subprocess.Popen[bytes] | ForkedProcess"

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.wait()

    def stop(self) -> int:
        """Ask it to end, and return how it did."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until it has ended, and return how it did."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.wait(WAIT_S)


class Stopwatch:
    """Measures how long a server takes for something: seconds that pass, or less where the machine was busy elsewhere.

    Other programs make a server wait, and not compute: the processor time that it took bounds what is its own doing.
    """

    def __init__(self, process_id: int) -> None:
        # The clock of another process, as Linux names it.
        self._clock = (~process_id << 3) | 2
        self._began = self._now()

    def read(self) -> float:
        """Return the seconds since the start."""
        return min(now - began for now, began in zip(self._now(), self._began, strict=True))

    def _now(self) -> tuple[float, float]:
        return time.monotonic(), time.clock_gettime(self._clock)


def environment(data: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a server on `data`: nothing of KnowHub's is taken from the one of the tests.

    It searches by words only, unless `variables` name an embedder.
    """
    dropped = ("KNOWHUB_", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    # Servers of one run share their compiled modules, outside the tree: most of a start would go into those.
    compiled = {"PYTHONPYCACHEPREFIX": str(Path(gettempdir()) / "knowhub-compiled")}
    ours = {"KNOWHUB_DATA_DIR": str(data), "KNOWHUB_OWNER": "user:local", "PYTHONPATH": str(ROOT)}
    if not any(name.startswith("KNOWHUB_EMBEDDING") for name in variables):
        ours["KNOWHUB_EMBEDDING"] = "off"
    return inherited | compiled | ours | variables


def start_server(data: Path, command: Sequence[str] | None = None, **variables: str) -> Server:
    """Start a server and wait until it takes requests; whoever calls ends it.

    Name `COMMAND` where memory is measured: that of a fork grows by what it shares with its parent.
    """
    process: subprocess.Popen[bytes] | ForkedProcess
    if command is None:
        process = fork_command(COMMAND[3:], environment(data, **variables))
    else:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(data, **variables))
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(f"the server ended with {process.wait(WAIT_S)}")
    return Server(json.loads(line)["url"], process)


def read_start_messages(data: Path, **variables: str) -> str:
    """Start a server, stop it, and return its stderr."""
    with TemporaryFile() as err:
        process = fork_command(COMMAND[3:], environment(data, **variables), stderr=err)
        assert process.stdout is not None
        with process.stdout as output:
            assert output.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
        err.seek(0)
        return err.read().decode()


@contextmanager
def run_server(data: Path, command: Sequence[str] | None = None, **variables: str) -> Iterator[Server]:
    """Run a server; it has to end well, unless it was killed meanwhile."""
    server = start_server(data, command, **variables)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            assert server.stop() == 0
