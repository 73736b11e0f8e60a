"""What every call of an embedder or a reranker runs in: its deadline, the breaker, and the count of what came of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from knowhub.core.chat import FailureReason
from knowhub.providers.breaker import Breaker, Verdict, verdict_of_cancelled
from knowhub.providers.http import CallFailed, Refused


class GuardedFailure(Exception):
    """The call came to nothing; `is_of_the_request` when the server is well and does not want what it was sent."""

    def __init__(self, reason: FailureReason, detail: str, *, is_of_the_request: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.is_of_the_request = is_of_the_request


class Guard:
    """Guards the calls of one server; `who` is its name in errors."""

    def __init__(self, who: str, breaker: Breaker) -> None:
        self._who = who
        self._breaker = breaker
        self.calls = self.failures = 0

    @property
    def is_open(self) -> bool:
        """Say whether the breaker refuses calls at present."""
        return self._breaker.is_open

    @asynccontextmanager
    async def call(self, timeout_s: float) -> AsyncIterator[float]:
        """Run one call within `timeout_s`; yields its deadline in the loop's time.

        Raises GuardedFailure in place of CallFailed and of what time ends, and where the call may not be made.
        """
        self.calls += 1
        try:
            epoch = self._admitted(timeout_s)
            async with self._judged(timeout_s, epoch) as deadline:
                yield deadline
        except GuardedFailure:
            self.failures += 1
            raise

    def _admitted(self, timeout_s: float) -> int:
        # Also true of NaN.
        if not timeout_s > 0:
            raise GuardedFailure(FailureReason.TIMEOUT, f"no time is left to ask the {self._who}")
        epoch = self._breaker.admit()
        if epoch is None:
            wait_s = self._breaker.remaining_s
            detail = f"the breaker is open: the {self._who} failed; ask in {wait_s:.0f} s"
            raise GuardedFailure(FailureReason.FAILURE, detail)
        return epoch

    @asynccontextmanager
    async def _judged(self, timeout_s: float, epoch: int) -> AsyncIterator[float]:
        verdict = Verdict.NOTHING
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                yield loop.time() + timeout_s
            verdict = Verdict.WELL
        except asyncio.CancelledError:
            verdict = verdict_of_cancelled(timeout_s, loop.time() - began)
            self.failures += verdict is Verdict.ILL
            raise
        except TimeoutError as error:
            verdict = Verdict.ILL
            detail = f"the {self._who} did not answer within {timeout_s:g} s"
            raise GuardedFailure(FailureReason.TIMEOUT, detail) from error
        except CallFailed as failure:
            is_of_the_request = isinstance(failure, Refused) and failure.is_of_the_request
            verdict = Verdict.NOTHING if is_of_the_request else Verdict.ILL
            reason = FailureReason.TIMEOUT if failure.late else FailureReason.FAILURE
            raise GuardedFailure(reason, failure.detail, is_of_the_request=is_of_the_request) from failure
        finally:
            self._breaker.note(epoch, verdict)
