"""KnowHub's server with a heartbeat in its event loop: `GET /_heartbeat` says how long the longest stall was."""

import asyncio
import faulthandler
import gc
import json
import os
import socket
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.settings import Settings
from knowhub.web.app import create_app

BEAT_S = 0.002
_WATCHED_AFTER_S = 0.04


@dataclass(frozen=True, slots=True)
class Stall:
    """How long nothing else was answered, and how much of that the event loop's own thread worked, in milliseconds.

    `stack` is where all threads were after the first 40 ms of it.
    """

    stall_ms: float = 0.0
    loop_ms: float = 0.0
    stack: str = ""


class Heartbeat:
    """An ASGI app around KnowHub's: a beat every two milliseconds, and the longest pause between two of them.

    While the machine is busy with other programs, nothing stalls. So the time in which the loop's thread waits for a
    processor does not count, and the processor time of the process bounds a stall.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._longest = Stall()
        # Linux names here how long the main thread has waited for a processor, in nanoseconds, as the second figure.
        self._schedule = os.open("/proc/self/schedstat", os.O_RDONLY)
        self._dump = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- open as long as the server runs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/_heartbeat":
            body = json.dumps(asdict(self._longest)).encode()
            self._longest = Stall()
            headers = [(b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        if scope["type"] == "lifespan":
            beating = asyncio.create_task(self._beat())
            try:
                await self._app(scope, receive, send)
            finally:
                beating.cancel()
            return
        await self._app(scope, receive, send)

    async def _beat(self) -> None:
        while True:
            # Its thread needs no interpreter: it sees too where a call of another thread keeps the loop from running.
            # To start and end it takes time, which is no stall.
            faulthandler.dump_traceback_later(_WATCHED_AFTER_S, file=self._dump)
            last, spent, spent_here = self._now(), time.process_time(), time.thread_time()
            await asyncio.sleep(BEAT_S)
            stall = min(self._now() - last - BEAT_S, time.process_time() - spent)
            loop = time.thread_time() - spent_here
            faulthandler.cancel_dump_traceback_later()
            self._dump.seek(0)
            stack = self._dump.read()
            if stack:
                self._dump.seek(0)
                self._dump.truncate()
            if stall * 1e3 > self._longest.stall_ms:
                self._longest = Stall(stall * 1e3, loop * 1e3, stack)

    def _now(self) -> float:
        """Return seconds that do not pass while the main thread waits for a processor."""
        return time.perf_counter() - int(os.pread(self._schedule, 100, 0).split()[1]) * 1e-9


def main() -> None:
    """Serve what the environment names on a free port, and print where."""
    # Both as `knowhub serve` has them.
    gc.set_threshold(50_000, 20, 100)
    sys.setswitchinterval(0.001)
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}) + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        Heartbeat(create_app(Settings())),
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        log_level="error",
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
