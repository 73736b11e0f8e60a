"""A hub in a thread of its own, for callers that are not asynchronous."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from knowhub.bootstrap import Hub, World, open_hub
from knowhub.core.request_context import RequestContext, local_context
from knowhub.settings import Settings

T = TypeVar("T")

_KEEPER_WAIT_S = 5.0
_POLL_S = 0.05


class OpenTree:
    """An open hub, its event loop, and the local principal who uses it.

    The loop's thread is a daemon: a tree that is never closed keeps no process alive.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="keyword-tree", daemon=True)
        self._thread.start()
        self._closing = asyncio.Event()
        self._is_closed = False
        opened: asyncio.Future[Hub] = self._loop.create_future()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(settings, world, opened), self._loop)
        try:
            self.hub = asyncio.run_coroutine_threadsafe(_wait(opened), self._loop).result()
        except BaseException:
            self._stop()
            raise
        self.ctx: RequestContext = local_context(self.hub.default_owner)

    def run(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, T]]) -> T:
        """Run `work(hub, ctx)` on the tree's loop and return its result. Raises RuntimeError once it is closed."""
        if self._is_closed:
            raise RuntimeError("this keyword tree is closed; open another one on the same directory")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a keyword tree cannot be used from within its own LLM client's callback loop")
        return asyncio.run_coroutine_threadsafe(work(self.hub, self.ctx), self._loop).result()

    def close(self) -> None:
        """Bring the record files up to the log and let go of the directory; a second time does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._closing.set)
        try:
            self._serving.result()
        finally:
            self._stop()

    async def _serve(self, settings: Settings, world: World, opened: "asyncio.Future[Hub]") -> None:
        try:
            async with open_hub(settings, world, keep=False) as hub:
                await hub.keywords.make_root(local_context(hub.default_owner))
                # Before anybody looks: the files of a fresh tree hold its root.
                await hub.keeper.run_once()
                hub.keeper.start()
                opened.set_result(hub)
                await self._closing.wait()
                if not hub.keeper.is_keeper:
                    await _wait_for_keeper(hub)
        except Exception as problem:
            if opened.done():
                raise
            opened.set_exception(problem)

    def _stop(self) -> None:
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _wait(opened: "asyncio.Future[Hub]") -> Hub:
    return await opened


async def _wait_for_keeper(hub: Hub) -> None:
    """Wait a while for the process that writes the record files; they follow the log in any case."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _KEEPER_WAIT_S
    while hub.records.checkpoint().seq < hub.store.last_seq and loop.time() < deadline:
        # That process may have ended meanwhile: then this one takes its place.
        hub.keeper.wake()
        await asyncio.sleep(_POLL_S)
