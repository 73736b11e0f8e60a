"""A server that gets stuck: on SIGUSR1 its event loop never turns again, and a thread of it never ends.

Run as `python -m tests.e2e.stuck_server loop thread`, with either word or both. With `interpreter`, a thread keeps the
interpreter from SIGUSR1 on and never gives it back.
"""

import re
import signal
import sys
import threading

from knowhub.cli.serve import bind_socket, run_server
from knowhub.settings import Settings


def stay_busy() -> None:
    while True:
        # Some milliseconds: other threads have their turn in between.
        re.match("(a|a)+$", "a" * 16 + "b")


def keep_interpreter() -> None:
    re.match("(a|a)+$", "a" * 60 + "b")


def main() -> None:
    if "loop" in sys.argv:
        # A handler runs in the main thread, where the loop is: nothing else runs there until it returns.
        signal.signal(signal.SIGUSR1, lambda *_: stay_busy())
    if "interpreter" in sys.argv:
        signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=keep_interpreter).start())
    if "thread" in sys.argv:
        threading.Thread(target=threading.Event().wait).start()
    settings = Settings()
    run_server(settings, bind_socket(settings), as_json=True)


if __name__ == "__main__":
    main()
