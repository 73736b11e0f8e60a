"""Writes after an answer, such as the log of decisions by models. No request waits for them or fails with them."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Commits, Decide, Draft, Row, View
from knowhub.core.request_context import RequestContext

CLOSE_S: Final = 5.0
MAX_PENDING: Final = 256


class BackgroundWrites:
    """Commits decisions in tasks of their own, at most `limit` at a time.

    A decision that is not written is counted: in `dropped` if too many wait or this closes, in `failed` if the store
    refuses it.
    """

    def __init__(self, store: Commits[View], limit: int, close_s: float = CLOSE_S) -> None:
        self._store = store
        self._limit = limit
        self._close_s = close_s
        # The loop itself holds tasks weakly.
        self._pending: set[asyncio.Task[None]] = set()
        self.dropped = 0
        self.failed = 0

    def start(self, ctx: RequestContext, decide: Decide[View]) -> bool:
        """Commit a decision in the background; return whether there is room for it. Needs a running event loop."""
        if len(self._pending) >= self._limit:
            self.dropped += 1
            return False
        task = asyncio.get_running_loop().create_task(self._write(ctx, decide))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return True

    async def close(self) -> None:
        """Wait at most `close_s` seconds for the pending writes; drop the others."""
        self.dropped += await finish_tasks(set(self._pending), self._close_s)

    async def _write(self, ctx: RequestContext, decide: Decide[View]) -> None:
        try:
            await self._store.commit(ctx.account, ctx.actor, decide)
        except KnowHubError:
            self.failed += 1


NoteCalls: TypeAlias = Callable[[RequestContext, Sequence[Row]], None]
"""Records model calls that belong to no operation. It neither waits nor fails."""


def discard_calls(_ctx: RequestContext, _calls: Sequence[Row]) -> None:
    """Record nothing."""


class DecisionLog(BackgroundWrites):
    """Writes the calls of a model during reads as operations that change no row; none if not `enabled`."""

    def __init__(
        self, store: Commits[View], *, enabled: bool = True, limit: int = MAX_PENDING, close_s: float = CLOSE_S
    ) -> None:
        super().__init__(store, limit, close_s)
        self._enabled = enabled

    def note(self, ctx: RequestContext, calls: Sequence[Row]) -> None:
        """Record the calls of a decision in the background. Needs a running event loop."""
        noted = tuple(calls)
        if self._enabled and noted:
            self.start(ctx, lambda _: Draft("agent_decision", [], agent_io=noted))


async def finish_tasks(tasks: Collection["asyncio.Task[None]"], timeout_s: float) -> int:
    """Wait for tasks, and cancel those that are late; return how many those are."""
    if not tasks:
        return 0
    _, late = await asyncio.wait(tasks, timeout=timeout_s)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return len(late)
