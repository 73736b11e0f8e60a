"""KEEPER: the one process of a directory that writes what is derived, and the loop in which it does."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_flock, unlock

_log = structlog.get_logger("knowhub.keeper")

Job = Callable[[], Awaitable[Any]]


class Keeper:
    """Runs jobs every `interval_s`, or at once when woken: `kept` ones as keeper, `followed` ones otherwise."""

    def __init__(
        self, files: FileSystem, path: Path, interval_s: float, kept: Mapping[str, Job], followed: Mapping[str, Job]
    ) -> None:
        self._files = files
        self._descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
        self._interval_s = interval_s
        self._kept = kept
        self._followed = followed
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_keeper = False
        self._closing = False
        self._turn = asyncio.Lock()
        self.failures: dict[str, str] = {}

    @property
    def is_keeper(self) -> bool:
        return self._is_keeper

    def start(self) -> None:
        """Run the jobs in the background from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="keeper")

    def wake(self) -> None:
        """Run the jobs now rather than at the next interval."""
        self._woken.set()

    async def run_once(self) -> None:
        """Run each job once; one that fails is named in `failures` and tried again, and hinders no other.

        Who calls it while the jobs run waits until they have, and then has them run again.
        """
        async with self._turn:
            await self._run_each()

    async def _run_each(self) -> None:
        self._is_keeper = self._is_keeper or try_flock(self._descriptor)
        for name, job in (self._kept if self._is_keeper else self._followed).items():
            try:
                await job()
                self.failures.pop(name, None)
            except Exception as problem:  # noqa: BLE001 -- what is derived can be built again; it is named and retried
                if name not in self.failures:
                    _log.warning("upkeep_failed", job=name, error=str(problem))
                self.failures[name] = str(problem)

    async def close(self) -> None:
        """Run the jobs a last time, stop, and let another process become keeper."""
        # Not cancelled: a job may be writing in a thread, which cancelling would leave behind.
        self._closing = True
        self.wake()
        if self._task is not None:
            await self._task
        await self.run_once()
        # A process that was forked off shares the open file, and would be keeper for as long as it lives.
        unlock(self._descriptor)
        self._files.close(self._descriptor)

    async def _run(self) -> None:
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._interval_s)
            self._woken.clear()
            if not self._closing:
                await self.run_once()
