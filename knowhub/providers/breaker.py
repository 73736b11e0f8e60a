"""A circuit breaker, and the client that every provider is: each of its calls goes through a breaker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import ClassVar

import httpx

from knowhub.conversations.secrets.detection import redact_secrets
from knowhub.core.language_models import FailureReason, ModelFailed, Usage
from knowhub.providers.http import CallFailed, Endpoint, EndpointOptions, RequestTiming

# Who waits for just as long as the call may take has begun a moment before it, and ends it a moment before its end.
_SLACK_S = 0.1
_SLACK_SHARE = 0.1


class CallResult(Enum):
    """What a call said about the server; UNKNOWN when it was cancelled early, or failed by what was asked."""

    SUCCESS = auto()
    FAILURE = auto()
    UNKNOWN = auto()


class CircuitBreaker:
    """Opens after `threshold` failed calls in a row, 0 never; after `cool_down_s` one call probes, the others wait.

    A call that was permitted earlier may end later: if it went well the server is well, and its failure is none of an
    open breaker's.
    """

    def __init__(self, threshold: int, cool_down_s: float, monotonic: Callable[[], float]) -> None:
        self._threshold = threshold
        self._cool_down_s = cool_down_s
        self._monotonic = monotonic
        self._failures = 0
        self._opened_at: float | None = None
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Return whether a call would be refused now."""
        return self._opened_at is not None and (self._is_probing or self.remaining_s > 0)

    @property
    def remaining_s(self) -> float:
        """Return how long until a call may probe; 0 when it may."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._cool_down_s - self._monotonic())

    def start_call(self) -> bool:
        """Return whether a call is permitted; how it went is to be given to `record`."""
        if self.is_open:
            return False
        self._is_probing = self._opened_at is not None
        return True

    def record(self, result: CallResult) -> None:
        """Record how a permitted call went."""
        is_waiting = self._opened_at is not None and not self._is_probing
        match result:
            case CallResult.SUCCESS:
                self._failures = 0
                self._opened_at = None
            case CallResult.FAILURE if not is_waiting:
                self._failures += 1
                if self._threshold and self._failures >= self._threshold:
                    self._opened_at = self._monotonic()
        self._is_probing = False


class GuardedClient:
    """A client of one server over `http`, which its maker closes; every call goes through its breaker.

    Raises ValueError for an address or key of no use. A subclass names its `peer` and the errors of a failed call:
    `unavailable_type` if the server was not asked, else `error_type`. It counts the tokens.
    """

    peer: ClassVar[str]
    error_type: ClassVar[type[ModelFailed]]
    unavailable_type: ClassVar[type[ModelFailed]]

    def __init__(self, options: EndpointOptions, http: httpx.AsyncClient, timing: RequestTiming) -> None:
        self._endpoint = Endpoint(options, http, timing)
        self._breaker = CircuitBreaker(options.breaker_failures, options.breaker_cool_down_s, timing.monotonic)
        self._calls = self._failures = 0
        self._prompt_tokens = self._completion_tokens = 0

    @property
    def is_open(self) -> bool:
        """Return whether the breaker refuses calls at present."""
        return self._breaker.is_open

    @property
    def usage(self) -> Usage:
        """What was asked and counted up to now; calls that were refused here count as failures."""
        return Usage(self._calls, self._failures, self._prompt_tokens, self._completion_tokens)

    async def _redact(self, texts: Sequence[str]) -> list[str]:
        """Return texts as they may leave, without credentials. In a thread, because long texts take a while."""
        # Half of a surrogate pair means nothing to a model, and no JSON text can hold it.
        return await asyncio.to_thread(
            lambda: [redact_secrets(text.encode("utf-8", "replace").decode()) for text in texts]
        )

    @asynccontextmanager
    async def _call(self, timeout_s: float) -> AsyncIterator[float]:
        """Run one call within `timeout_s`; yields its deadline in the loop's time.

        Raises ModelFailed for a CallFailed or a timeout, and if the call is not allowed.
        """
        self._calls += 1
        try:
            self._start_call(timeout_s)
            async with self._watch_call(timeout_s) as deadline:
                yield deadline
        except ModelFailed:
            self._failures += 1
            raise

    def _start_call(self, timeout_s: float) -> None:
        # Also true of NaN.
        if not timeout_s > 0:
            raise self.unavailable_type(FailureReason.TIMEOUT, f"no time is left to ask the {self.peer}")
        if not self._breaker.start_call():
            wait_s = self._breaker.remaining_s
            detail = f"the breaker is open: the {self.peer} failed; ask in {wait_s:.0f} s"
            raise self.unavailable_type(FailureReason.FAILURE, detail)

    @asynccontextmanager
    async def _watch_call(self, timeout_s: float) -> AsyncIterator[float]:
        result = CallResult.UNKNOWN
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                yield loop.time() + timeout_s
            result = CallResult.SUCCESS
        except asyncio.CancelledError:
            # With its time over, it was late.
            if began + timeout_s - loop.time() <= min(_SLACK_S, timeout_s * _SLACK_SHARE):
                result = CallResult.FAILURE
                self._failures += 1
            raise
        except TimeoutError as error:
            result = CallResult.FAILURE
            detail = f"the {self.peer} did not answer within {timeout_s:g} s"
            raise self.error_type(FailureReason.TIMEOUT, detail) from error
        except CallFailed as failure:
            result = CallResult.UNKNOWN if failure.is_request_error else CallResult.FAILURE
            reason = FailureReason.TIMEOUT if failure.late else FailureReason.FAILURE
            raise self.error_type(reason, failure.detail) from failure
        finally:
            self._breaker.record(result)
