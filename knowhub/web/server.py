"""The server process: uvicorn's, which ends in time once a signal told it to, whatever it is doing."""

import contextlib
import faulthandler
import os
import select
import signal
import time
from collections.abc import Iterator
from types import FrameType
from typing import Final

import uvicorn

# After this share of the time for the shutdown, the stacks of all threads are printed.
_DUMP_SHARE: Final = 0.95
# How much later than the kernel's timer the watchdog ends the server.
_WATCHDOG_DELAY_S: Final = 1.0
_MOST_DESCRIPTORS: Final = 65_536
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """A server that ends within `end_within_s` seconds of the first SIGTERM or SIGINT.

    A busy event loop would never see that it has to end, and Python waits for every thread before it exits. So the
    kernel ends the process at the deadline, by SIGALRM. A server that ends well before that exits with 0.

    The timer is set by a handler in Python, which does not run while C code keeps the interpreter. Therefore a watchdog
    process ends the server by SIGKILL, a second after the deadline. faulthandler notifies it, because its
    handler is in C.
    """

    def __init__(self, config: uvicorn.Config, end_within_s: float) -> None:
        super().__init__(config)
        self._end_within_s = end_within_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, and notify the watchdog."""
        watchdog = start_watchdog(self._end_within_s + _WATCHDOG_DELAY_S)
        with super().capture_signals():
            for sign in _SIGNALS:
                # It calls the handler of uvicorn too.
                faulthandler.register(sign, watchdog, all_threads=False, chain=True)
            try:
                yield
            finally:
                for sign in _SIGNALS:
                    faulthandler.unregister(sign)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal does not put the deadline off, and a second SIGINT waits for no request."""
        if not self.should_exit:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._end_within_s)
            faulthandler.dump_traceback_later(self._end_within_s * _DUMP_SHARE)
        super().handle_exit(sig, frame)


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
        os.closerange(reader + 1, _MOST_DESCRIPTORS)
        if os.read(reader, 1):
            deadline = time.monotonic() + end_within_s
            while (left := deadline - time.monotonic()) > 0:
                if select.select([reader], [], [], left)[0] and not os.read(reader, 65536):
                    break
            else:
                os.kill(watched, signal.SIGKILL)
    finally:
        os._exit(0)
