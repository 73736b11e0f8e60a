"""Upkeep that takes long and is due now and then: begun by the keeper, and not waited for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from knowhub.core.clock import Clock

_RETRY_S = 600.0


class Background:
    """Runs `work` whenever `is_due(now)` says so, which is asked every `interval_s` seconds; never twice at a time."""

    def __init__(
        self,
        clock: Clock,
        interval_s: float,
        work: Callable[[], Coroutine[Any, Any, object]],
        is_due: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._work = work
        self._is_due = is_due
        self._task: asyncio.Task[object] | None = None
        self._look_at = 0.0
        self._problem: BaseException | None = None
        self._is_closed = False

    async def tend(self) -> None:
        """Begin the work where it is due; other upkeep does not wait for it.

        Raises what it failed with the last time, until it succeeds.
        """
        now = self._clock.now()
        if self._task is not None and self._task.done():
            self._problem = None if self._task.cancelled() else self._task.exception()
            self._task = None
            if self._problem is not None:
                self._look_at = now + _RETRY_S
        if self._task is None and not self._is_closed and now >= self._look_at:
            self._look_at = now + self._interval_s
            if await self._is_due(now):
                self._task = asyncio.create_task(self._work(), name="background-upkeep")
        if self._problem is not None:
            raise self._problem

    async def close(self) -> None:
        """Break off what is under way."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])
