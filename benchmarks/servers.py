"""Server processes to measure, their CPU time as the kernel counts it, and clients that cost them nothing else."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_START_TIMEOUT_S = 60.0
_IDLE_TIMEOUT_S = 300.0
# The processor time, of each second, below which a server has nothing left to do in the background.
_IDLE_CPU_S = 0.05
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Servers search by words only unless they are given these settings.
PACKAGED = {"KNOWHUB_EMBEDDING": "auto"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server process."""

    process: subprocess.Popen[bytes]
    port: int

    def cpu_s(self) -> float:
        """Return its processor time so far, in seconds."""
        # Of the whole process, so that threads which have ended count too; in ticks of ten milliseconds.
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    async def wait_until_idle(self) -> None:
        """Wait until it uses next to no processor time, so that no index is built while others are measured."""
        deadline, before = time.monotonic() + _IDLE_TIMEOUT_S, self.cpu_s()
        while time.monotonic() < deadline:
            await asyncio.sleep(1)
            before, used = self.cpu_s(), self.cpu_s() - before
            if used <= _IDLE_CPU_S:
                return
        raise RuntimeError(f"the server still works in the background after {_IDLE_TIMEOUT_S:.0f} s")


@asynccontextmanager
async def running(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> AsyncIterator[Server]:
    """Run `python -m <arguments> --port <free port>` until the block ends."""
    port = free_port()
    process = subprocess.Popen(  # noqa: ASYNC220 -- a benchmark has nothing else to do meanwhile
        [sys.executable, "-m", *arguments, "--port", str(port)],
        env={"KNOWHUB_EMBEDDING": "off", **os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not await _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{arguments} did not start")
            await asyncio.sleep(0.05)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait(timeout=30)


def bare(body: str = "{}") -> tuple[Sequence[str], Mapping[str, str]]:
    """Return how to run the bare app with the same server and the same options as KnowHub's."""
    options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error"]
    return ["uvicorn", "benchmarks.bare_app:app", *options], {"BENCH_BODY": body}


def knowhub(data_dir: Path) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return how to run KnowHub on a data directory."""
    return ["knowhub", "serve", "--data-dir", str(data_dir)], {}


async def requests(port: int, clients: int, each: int, payload: Callable[[int], bytes]) -> list[float]:
    """Send `clients` × `each` requests over kept connections; return each one's time, in seconds."""
    times: list[float] = []

    async def repeat(client: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(each):
            started = time.perf_counter()
            writer.write(payload(client * each + number))
            await _read_answer(reader)
            times.append(time.perf_counter() - started)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(repeat(client) for client in range(clients)))
    return times


def http(method: str, path: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if status >= 400:
        raise RuntimeError(head.decode("latin-1"))
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    return await reader.readexactly(length)


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
