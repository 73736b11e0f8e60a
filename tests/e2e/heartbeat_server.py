"""KnowHub's server with a heartbeat in its event loop: `GET /_heartbeat` says how long the longest stall was."""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.web.server import tune_interpreter

BEAT_S = 0.002
_WATCHED_AFTER_S = 0.04


@dataclass(frozen=True, slots=True)
class MeasuredStall:
    """How long nothing else was answered, and how much of that the event loop's own thread worked, in milliseconds.

    `stack` is where all threads were after the first 40 ms of it.
    """

    stall_ms: float = 0.0
    loop_ms: float = 0.0
    stack: str = ""


def _list_stacks(without: int) -> list[list[str]]:
    """Return where all threads are, outermost first.

    It reads no source: who holds the frame of a call that ends meanwhile frees all that the call held.
    """
    found = []
    for thread, top in sys._current_frames().items():  # noqa: SLF001 -- documented, for debuggers
        frame: FrameType | None = top if thread != without else None
        calls: list[str] = []
        while frame is not None:
            calls.insert(0, f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
            frame = frame.f_back
        found.append(calls)
    return found


class StackWatcher:
    """A thread that notes the stacks of all others when no beat has come for 40 ms.

    faulthandler's own watcher needs no interpreter, but reads frames while they change: on a busy server it crashes.
    """

    def __init__(self) -> None:
        self.noted = ""
        self._beat = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def beat(self) -> None:
        """Forget what was noted before."""
        self.noted, self._beat = "", time.monotonic()

    def _watch(self) -> None:
        while True:
            time.sleep(_WATCHED_AFTER_S / 4)
            if not self.noted and time.monotonic() > self._beat + _WATCHED_AFTER_S:
                self.noted = "\n\n".join(map("\n".join, _list_stacks(threading.get_ident())))


class Heartbeat:
    """An ASGI app around KnowHub's: a beat every two milliseconds, and the longest pause between two of them.

    While the machine is busy with other programs, nothing stalls. So the longest time that a thread which can hold the
    interpreter waits for a processor does not count, and the processor time of the process bounds a stall.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._longest = MeasuredStall()
        self._waits: dict[int, int] = {}
        self._beating: asyncio.Task[None] | None = None
        self._stacks = StackWatcher()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/_heartbeat":
            if self._beating is None or self._beating.done():
                raise AssertionError(f"the heartbeat has ended: {self._beating}")
            body = json.dumps(asdict(self._longest)).encode()
            self._longest = MeasuredStall()
            headers = [(b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        if scope["type"] == "lifespan":
            self._beating = asyncio.create_task(self._beat())
            try:
                await self._app(scope, receive, send)
            finally:
                self._beating.cancel()
            return
        await self._app(scope, receive, send)

    async def _beat(self) -> None:
        while True:
            self._stacks.beat()
            waited = self._read_waits()
            last, spent, spent_here = time.perf_counter(), time.process_time(), time.thread_time()
            await asyncio.sleep(BEAT_S)
            passed, worked = time.perf_counter() - last - BEAT_S, time.process_time() - spent
            loop = time.thread_time() - spent_here
            now_waited = self._read_waits()
            waiting = max(now_waited[thread] - waited.get(thread, 0.0) for thread in now_waited)
            stall = min(passed - waiting, worked)
            if stall * 1e3 > self._longest.stall_ms:
                self._longest = MeasuredStall(stall * 1e3, loop * 1e3, self._stacks.noted)

    def _read_waits(self) -> dict[int, float]:
        """Return how many seconds each thread of Python has waited for a processor."""
        threads = {thread.native_id for thread in threading.enumerate() if thread.native_id is not None}
        for ended in self._waits.keys() - threads:
            os.close(self._waits.pop(ended))
        waits: dict[int, float] = {}
        for thread in threads:
            # A thread may end between its listing and its reading. It holds no interpreter any more.
            with suppress(FileNotFoundError, ProcessLookupError):
                if thread not in self._waits:
                    self._waits[thread] = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
                # Linux names it as the second figure, in nanoseconds.
                waits[thread] = int(os.pread(self._waits[thread], 100, 0).split()[1]) * 1e-9
        return waits


def main() -> None:
    """Serve what the environment names on a free port, and print where."""
    tune_interpreter()
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
