"""The `knowhub` command on one data directory, as a process."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.e2e import server_process
from tests.e2e.forking import fork_command
from tests.e2e.server_process import WAIT_S

COMMAND = (sys.executable, "-m", "knowhub")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 -- any JSON value
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Cli:
    """The command on one data directory. Each call may take `wait_s` seconds."""

    data: Path
    wait_s: float = WAIT_S

    def __call__(self, *words: str, stdin: bytes = b"", **variables: str) -> CommandResult:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            process = fork_command(
                words, environment(self.data, **variables), self.data.parent, stdin=given, stdout=out, stderr=err
            )
            try:
                code = process.wait(self.wait_s)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            ended = CommandResult(code, out.read().decode(), err.read().decode())
        assert "Traceback" not in ended.err
        return ended

    def json(self, *words: str, stdin: bytes = b"") -> Any:  # noqa: ANN401 -- any JSON value
        ended = self(*words, "--json", stdin=stdin)
        assert (ended.code, ended.err) == (0, "")
        return ended.json


def environment(data: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a command: that of a server, with owner li and lines of 120 characters."""
    return server_process.environment(data, **{"KNOWHUB_OWNER": "user:li", "COLUMNS": "120"} | variables)


@contextmanager
def run_server_command(data: Path, *words: str) -> Iterator[str]:
    """Run a server with the command (`serve` unless `words` name another), and yield its URL."""
    process = fork_command([*(words or ("serve",)), "--port", "0", "--json"], environment(data))
    assert process.stdout is not None
    with process.stdout as output:
        try:
            lines = [json.loads(output.readline())]
            if words:
                lines.append(json.loads(output.readline()))
            yield lines[-1]["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0
