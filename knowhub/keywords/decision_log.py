"""The log of the decisions of a model during reads. It is written in the background, after the answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Commits, Decide, Draft, Row, View
from knowhub.core.request_context import RequestContext

OP = "agent_decision"
MAX_PENDING = 256
CLOSE_S = 5.0

Note: TypeAlias = Callable[[RequestContext, Sequence[Row]], None]
"""Records model calls that belong to no operation. It neither waits nor fails."""


def discard_calls(_ctx: RequestContext, _calls: Sequence[Row]) -> None:
    """Record nothing."""


class DecisionLog:
    """Writes operations `agent_decision`, which change no row; none if not `enabled`.

    A decision that cannot be recorded never fails its search. It is counted: in `dropped` if too many are pending or
    the log closes, in `failed` if the store refuses it.
    """

    def __init__(
        self, store: Commits[View], *, enabled: bool = True, limit: int = MAX_PENDING, close_s: float = CLOSE_S
    ) -> None:
        self._store = store
        self._enabled = enabled
        self._limit = limit
        self._close_s = close_s
        self._pending: set[asyncio.Task[None]] = set()
        self.dropped = 0
        self.failed = 0

    def note(self, ctx: RequestContext, calls: Sequence[Row]) -> None:
        """Record the calls of a decision in the background. Needs a running event loop."""
        noted = tuple(calls)
        if self._enabled and noted:
            self.start(ctx, lambda _: Draft(OP, [], agent_io=noted))

    def start(self, ctx: RequestContext, decide: Decide[View]) -> None:
        """Commit a decision in the background. Needs a running event loop."""
        if len(self._pending) >= self._limit:
            self.dropped += 1
            return
        task = asyncio.get_running_loop().create_task(self._write(ctx, decide))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def close(self) -> None:
        """Wait at most `close_s` seconds for the pending records; drop the others."""
        if not self._pending:
            return
        _, late = await asyncio.wait(set(self._pending), timeout=self._close_s)
        self.dropped += len(late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _write(self, ctx: RequestContext, decide: Decide[View]) -> None:
        try:
            await self._store.commit(ctx.account, ctx.actor, decide)
        except KnowHubError:
            self.failed += 1
