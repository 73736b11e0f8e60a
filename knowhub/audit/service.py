"""The junk rate of an account: what is kept twice, came out of a search, is over, or must not be kept (KH-3)."""

import asyncio

from knowhub.audit.examination import Examination
from knowhub.audit.model import Question, Report
from knowhub.audit.ports import AuditStore, Showings
from knowhub.core.clock import Clock
from knowhub.core.request_context import RequestContext


class AuditService:
    """Audits one account at a time, without a model, a few milliseconds a turn; it writes nothing."""

    def __init__(self, store: AuditStore, clock: Clock, showings: Showings) -> None:
        self._store = store
        self._clock = clock
        self._showings = showings
        # Each needs memory for every row: those that come meanwhile wait.
        self._turn = asyncio.Lock()

    async def report(self, ctx: RequestContext, question: Question) -> Report:
        """Look at every live record and info that the caller sees.

        A row is judged as it stands when its turn comes; what is saved meanwhile is not looked at.
        """
        async with self._turn:
            await self._store.refresh()
            examination = Examination(self._store.view(ctx.account), ctx, question, self._showings)
            return await examination.report(self._clock.now())
