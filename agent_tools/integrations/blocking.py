"""Run coroutines from code that cannot wait, such as the synchronous methods of frameworks."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


def run_blocking(work: Coroutine[Any, Any, ValueT]) -> ValueT:
    """Run a coroutine to its end in a thread with an event loop, and return its result or raise its error.

    It sees the context variables of the caller. Connections of that loop stay open between calls. On an event loop, use
    the asynchronous methods of a framework instead: this one holds the loop up.
    """
    return asyncio.run_coroutine_threadsafe(work, _start_loop()).result()


@cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="knowhub-integrations", daemon=True).start()
    return loop
