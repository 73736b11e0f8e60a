"""A hub in a thread of its own, for callers that are not asynchronous."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from traceback import clear_frames
from typing import Any, TypeVar

from knowhub.bootstrap import Hub, World, open_hub
from knowhub.core.request_context import RequestContext, local_context
from knowhub.settings import Settings

T = TypeVar("T")

_KEEPER_WAIT_S = 5.0
_POLL_S = 0.05
# What is short is carried through when a tree is closed; what waits for a model is broken off.
_GRACE_S = 0.25
_CLOSED = "this keyword tree is closed; open another one on the same directory"
_CUT_SHORT = "this keyword tree was closed while the verb was under way; read again what became of it"
_FORKED = "this keyword tree was opened before the process forked; open another one on the same directory"


class OpenTree:
    """An open hub, its event loop, and the local principal who uses it.

    The loop's thread is a daemon: a tree that is never closed keeps no process alive. In a forked child that thread
    is not there: every verb is refused, and closing does nothing, so that the parent's tree stays as it is.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self._pid = os.getpid()
        # Whoever closes from a signal handler may hold it already.
        self._gate = threading.RLock()
        self._is_closed = False
        self._is_dropped = False
        self._under_way: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        opened: Future[Hub] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._live, args=(settings, world, opened), name="keyword-tree", daemon=True
        )
        self._thread.start()
        try:
            self.hub = opened.result()
        except BaseException:
            self.drop()
            raise
        self.ctx: RequestContext = local_context(self.hub.default_owner)

    def run(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, T]]) -> T:
        """Run `work(hub, ctx)` on the tree's loop and return its result.

        Raises RuntimeError once the tree is closed, also under way, in a forked child, and on the loop's own thread.
        """
        self.check_usable()
        with self._gate:
            self.check_usable()
            future = asyncio.run_coroutine_threadsafe(self._carried_out(work), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError(_CUT_SHORT) from None
        except KeyboardInterrupt:
            future.cancel()
            raise
        except BaseException as problem:
            # It leads to the caller's frames, and the frames of the tree's thread lead to it: in such a circle a tree
            # that nobody holds any more would wait for the garbage collector, perhaps for ever.
            clear_frames(problem.__traceback__)
            raise
        finally:
            del future

    def check_usable(self) -> None:
        """Raise RuntimeError where no verb can be carried out."""
        if os.getpid() != self._pid:
            raise RuntimeError(_FORKED)
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        self._check_thread()

    def close(self) -> None:
        """Break off what is under way, bring the record files up to the log and let go of the directory.

        A second time only waits until that is done. Raises RuntimeError on the loop's own thread.
        """
        if os.getpid() != self._pid:
            return
        self._check_thread()
        with self._gate:
            is_first, self._is_closed = not self._is_closed, True
        self._signal()
        if is_first:
            self._ended.result()
        self._thread.join()

    def drop(self) -> None:
        """Begin to close, and wait for nothing: nobody is left who could use the tree."""
        # Called by the garbage collector, in any thread at any moment: it takes no lock.
        if os.getpid() == self._pid and not self._is_closed:
            self._is_closed = self._is_dropped = True
            self._signal()

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a keyword tree cannot be used from within its own `normalize`")

    def _signal(self) -> None:
        # A loop that is closed has heard it already.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._closing.set)

    def _live(self, settings: Settings, world: World, opened: "Future[Hub]") -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(settings, world, opened))
        except BaseException as problem:  # noqa: BLE001 -- it is raised where it is waited for
            (self._ended if opened.done() else opened).set_exception(problem)
        else:
            self._ended.set_result(None)
        finally:
            self._is_closed = True

    async def _serve(self, settings: Settings, world: World, opened: "Future[Hub]") -> None:
        async with open_hub(settings, world, keep=False) as hub:
            await hub.keywords.make_root(local_context(hub.default_owner))
            # Before anybody looks: the files of a fresh tree hold its root.
            await hub.keeper.run_once()
            hub.keeper.start()
            opened.set_result(hub)
            await self._closing.wait()
            await self._break_off()
            if not (self._is_dropped or hub.keeper.is_keeper):
                await _wait_for_keeper(hub)

    async def _carried_out(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, T]]) -> T:
        self._note(asyncio.current_task())
        return await work(self.hub, self.ctx)

    def _note(self, task: asyncio.Task[Any] | None) -> None:
        if task is not None:
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _break_off(self) -> None:
        """End every verb before the hub is closed; a write that was handed to the store is written all the same."""
        if self._under_way:
            _, late = await asyncio.wait(set(self._under_way), timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def _wait_for_keeper(hub: Hub) -> None:
    """Wait a while for the process that writes the record files; they follow the log in any case."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _KEEPER_WAIT_S
    while hub.records.checkpoint().seq < hub.store.last_seq and loop.time() < deadline:
        # That process may have ended meanwhile: then this one takes its place.
        hub.keeper.wake()
        await asyncio.sleep(_POLL_S)
