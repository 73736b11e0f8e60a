"""The server process: uvicorn's, which ends in time once a signal told it to, whatever it is doing."""

import contextlib
import faulthandler
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType
from typing import Final

import uvicorn

# After this share of the time for the shutdown, the stacks of all threads are printed. Open requests have less.
_REPORT_SHARE: Final = 0.85
_MAX_DESCRIPTORS: Final = 65_536
_STDERR: Final = 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# Of the garbage collector's three generations. A collection visits up to 20,000 new objects, which takes 20 ms where
# memory is slow; one of 40,000 took 43 ms. The first is above what 64 requests hold at once: below it each burst of
# requests starts a collection. All objects are visited rarely, because rows have no reference cycles.
_GC_THRESHOLDS: Final = (10_000, 0, 5_000)
# How long a thread that reads a long text keeps the interpreter when the event loop asks for it. An answer needs the
# interpreter several times, and with Python's own 5 ms it would take 30 ms beside one such thread.
_THREAD_TURN_S: Final = 0.001


def tune_interpreter() -> None:
    """Set how long the garbage collector and a thread may keep the event loop waiting, for the whole process."""
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_THREAD_TURN_S)


class Server(uvicorn.Server):
    """A server that ends within `end_within_s` seconds of the first SIGTERM or SIGINT.

    It calls `withdraw` before it gives up its address.

    A busy event loop would never see that it has to end, Python waits for every thread before it exits, and a handler
    in Python does not run while C code keeps the interpreter. So a watchdog process ends the server by SIGKILL at the
    deadline. faulthandler notifies it, because its handler is in C. A server that ends before that exits with 0.
    """

    def __init__(
        self, config: uvicorn.Config, end_within_s: float, withdraw: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._withdraw = withdraw
        self._end_within_s = end_within_s
        # A signal handler may put something into it at any time, unlike into an event.
        self._exit_signals: SimpleQueue[int] = SimpleQueue()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, and notify the watchdog."""
        watchdog = start_watchdog(self._end_within_s)
        threading.Thread(target=self._report_late_exit, daemon=True).start()
        with super().capture_signals():
            for sign in _SIGNALS:
                # It calls the handler of uvicorn too.
                faulthandler.register(sign, watchdog, all_threads=False, chain=True)
            try:
                yield
            finally:
                for sign in _SIGNALS:
                    faulthandler.unregister(sign)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and finish the running requests."""
        self._withdraw()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal does not put the deadline off, and a second SIGINT waits for no request."""
        self._exit_signals.put(sig)
        super().handle_exit(sig, frame)

    def _report_late_exit(self) -> None:
        self._exit_signals.get()
        time.sleep(self._end_within_s * _REPORT_SHARE)
        # Not through sys.stderr: a stuck thread may hold the lock of its buffer.
        os.write(_STDERR, f"the server has not ended yet; its threads are here:\n{list_stacks()}".encode())


def list_stacks() -> str:
    """Return where all other threads are, the innermost call first.

    It holds the interpreter, so that frames do not change while they are read: faulthandler does not, and crashes.
    """
    lines: list[str] = []
    for thread, innermost in sys._current_frames().items():  # noqa: SLF001 -- documented, for debuggers
        if thread == threading.get_ident():
            continue
        lines.append(f"Thread {thread}:\n")
        frame: FrameType | None = innermost
        while frame is not None:
            # No lines of source: a busy thread may take the interpreter at each file that is opened.
            lines.append(f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}\n")
            frame = frame.f_back
    return "".join(lines)


def start_watchdog(end_within_s: float) -> int:
    """Start a process that kills this one so many seconds after something was written to the returned descriptor.

    It ends as soon as this process ends, however that happens.
    """
    watched = os.getpid()
    reader, writer = os.pipe()
    if os.fork():
        os.close(reader)
        return writer
    try:
        for sign in _SIGNALS:
            signal.signal(sign, signal.SIG_IGN)
        os.closerange(3, reader)
        os.closerange(reader + 1, _MAX_DESCRIPTORS)
        if os.read(reader, 1):
            deadline = time.monotonic() + end_within_s
            while (left := deadline - time.monotonic()) > 0:
                if select.select([reader], [], [], left)[0] and not os.read(reader, 65536):
                    break
            else:
                os.kill(watched, signal.SIGKILL)
    finally:
        os._exit(0)
