"""The log of what models decided in reads: noted behind the answer, which never waits for it (KT-251, C-79)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from knowhub.core.errors import KnowHubError
from knowhub.core.operation import Commits, Draft, Row, View
from knowhub.core.request_context import RequestContext

OP = "agent_decision"
MAX_PENDING = 256
CLOSE_S = 5.0

Note: TypeAlias = Callable[[RequestContext, Sequence[Row]], None]
"""Keeps the calls of a model of which nothing is written: it waits for nothing, and does not fail."""


def unkept(_ctx: RequestContext, _calls: Sequence[Row]) -> None:
    """Keep nothing: a Note where there is no log."""


class DecisionLog:
    """Writes operations `agent_decision`, which change no row. With `enabled` False it writes none.

    A decision that cannot be noted never fails the search that it was made in: it is counted, in `dropped` when
    too many wait or the log closes, in `failed` when the store refuses it (a full disk, a log that is read-only).
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
        """Start to write down the calls of one decision; none is no decision. Call it in a running event loop."""
        if not self._enabled or not calls:
            return
        if len(self._pending) >= self._limit:
            self.dropped += 1
            return
        task = asyncio.get_running_loop().create_task(self._write(ctx, tuple(calls)))
        # The loop itself holds tasks weakly.
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def close(self) -> None:
        """Wait for what is pending, `close_s` seconds at most; the rest is dropped."""
        if not self._pending:
            return
        _, late = await asyncio.wait(set(self._pending), timeout=self._close_s)
        self.dropped += len(late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _write(self, ctx: RequestContext, calls: Sequence[Row]) -> None:
        try:
            await self._store.commit(ctx.account, ctx.actor, lambda _: Draft(OP, [], agent_io=calls))
        except KnowHubError:
            self.failed += 1
