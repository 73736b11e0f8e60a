"""A hub with an event loop in a thread of its own, for callers that are not asynchronous."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from traceback import clear_frames
from typing import Any, TypeVar

from knowhub.bootstrap import Hub, open_hub
from knowhub.core.background_writes import finish_tasks
from knowhub.core.request_context import RequestContext, local_context, share_nothing_by_default
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides

T = TypeVar("T")

_LEADER_WAIT_S = 5.0
_POLL_S = 0.05
# When a tree is closed, short calls may finish. Calls that wait for a model are cancelled.
_GRACE_S = 0.25
_CLOSED = "this keyword tree is closed; open another one on the same directory"
_CANCELLED = "this keyword tree was closed during the call; read again to see whether it was carried out"
_FORKED = "this keyword tree was opened before the process forked; open another one on the same directory"


class HubThread:
    """An open hub, its event loop, and the local principal who uses it.

    The thread is a daemon: a tree that is never closed does not keep the process alive. A forked child has no such
    thread: there every call is refused, and closing does nothing, so the tree of the parent stays open.
    """

    def __init__(self, settings: Settings, overrides: Overrides) -> None:
        self._pid = os.getpid()
        # A signal handler may close the tree while its thread holds the lock.
        self._lock = threading.RLock()
        self._is_closed = False
        self._is_dropped = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        opened: Future[Hub] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run_loop, args=(settings, overrides, opened), name="keyword-tree", daemon=True
        )
        self._thread.start()
        try:
            self.hub = opened.result()
        except BaseException:
            self.drop()
            raise
        ctx = local_context(self.hub.default_owner)
        self.ctx: RequestContext = ctx if self.hub.settings.auth == "none" else share_nothing_by_default(ctx)

    def run(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, T]]) -> T:
        """Run `work(hub, ctx)` in the thread and return its result.

        Raises RuntimeError when the tree is closed, before or during the call, in a forked child, and in the thread
        itself.
        """
        self.check_usable()
        with self._lock:
            self.check_usable()
            future = asyncio.run_coroutine_threadsafe(self._run_task(work), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError(_CANCELLED) from None
        except KeyboardInterrupt:
            future.cancel()
            raise
        except BaseException as error:
            # The traceback refers to the frames of the caller, and the frames of this thread refer to the error. With
            # such a reference cycle an unused tree would wait for the garbage collector.
            clear_frames(error.__traceback__)
            raise
        finally:
            del future

    def check_usable(self) -> None:
        """Raise RuntimeError when no call is possible."""
        if os.getpid() != self._pid:
            raise RuntimeError(_FORKED)
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        self._check_caller()

    def close(self) -> None:
        """Cancel running calls, write the record files and release the directory.

        A second call only waits until this is done. Raises RuntimeError in the thread itself.
        """
        if os.getpid() != self._pid:
            return
        self._check_caller()
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        self._signal_close()
        if is_first:
            self._ended.result()
        self._thread.join()

    def drop(self) -> None:
        """Start to close, and do not wait: nobody can use the tree any more."""
        # The garbage collector calls this at any moment, in any thread: it must not take a lock.
        if os.getpid() == self._pid and not self._is_closed:
            self._is_closed = self._is_dropped = True
            self._signal_close()

    def _check_caller(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a keyword tree cannot be used from within its own `normalize`")

    def _signal_close(self) -> None:
        # A closed loop needs no signal.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._closing.set)

    def _run_loop(self, settings: Settings, overrides: Overrides, opened: "Future[Hub]") -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(settings, overrides, opened))
        except BaseException as error:  # noqa: BLE001 -- whoever waits for the future raises it
            (self._ended if opened.done() else opened).set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            self._is_closed = True

    async def _serve(self, settings: Settings, overrides: Overrides, opened: "Future[Hub]") -> None:
        async with open_hub(settings, overrides, maintain=False) as hub:
            await hub.keywords.tree.make_root(local_context(hub.default_owner))
            # Write the files of a new tree, with its root, before the caller can read them.
            await hub.maintenance.tick()
            hub.maintenance.start()
            opened.set_result(hub)
            await self._closing.wait()
            # End every call before the hub is closed. A write that the store has accepted is still written.
            await finish_tasks(set(self._tasks), _GRACE_S)
            if not (self._is_dropped or hub.maintenance.is_leader):
                await _wait_for_leader(hub)

    async def _run_task(self, work: Callable[[Hub, RequestContext], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await work(self.hub, self.ctx)


async def _wait_for_leader(hub: Hub) -> None:
    """Wait a while for the process that writes the record files. They follow the log in any case."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LEADER_WAIT_S
    while hub.exports.records.lag and loop.time() < deadline:
        # The leader may have ended: then this process becomes the leader.
        hub.maintenance.wake()
        await asyncio.sleep(_POLL_S)
