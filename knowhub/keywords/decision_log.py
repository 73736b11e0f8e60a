"""The log of the decisions of a model during reads. It is written in the background, after the answer."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from knowhub.core.background_writes import CLOSE_S, BackgroundWrites
from knowhub.core.operation import Commits, Draft, Row, View
from knowhub.core.request_context import RequestContext

OP = "agent_decision"
MAX_PENDING = 256

Note: TypeAlias = Callable[[RequestContext, Sequence[Row]], None]
"""Records model calls that belong to no operation. It neither waits nor fails."""


def discard_calls(_ctx: RequestContext, _calls: Sequence[Row]) -> None:
    """Record nothing."""


class DecisionLog(BackgroundWrites):
    """Writes operations `agent_decision`, which change no row; none if not `enabled`."""

    def __init__(
        self, store: Commits[View], *, enabled: bool = True, limit: int = MAX_PENDING, close_s: float = CLOSE_S
    ) -> None:
        super().__init__(store, limit, close_s)
        self._enabled = enabled

    def note(self, ctx: RequestContext, calls: Sequence[Row]) -> None:
        """Record the calls of a decision in the background. Needs a running event loop."""
        noted = tuple(calls)
        if self._enabled and noted:
            self.start(ctx, lambda _: Draft(OP, [], agent_io=noted))
