"""The background loop of a data directory. One process, the leader, runs the jobs that write derived data."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.lock import try_flock, unlock

_log = structlog.get_logger("knowhub.maintenance")

MaintenanceTask = Callable[[], Awaitable[Any]]


class Maintenance:
    """Runs jobs every `interval_s` seconds, or at once when woken.

    The process that holds a lock on `path` is the leader and runs `leader_jobs`; the others run `follower_jobs`.
    """

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        interval_s: float,
        leader_jobs: Mapping[str, MaintenanceTask],
        follower_jobs: Mapping[str, MaintenanceTask],
    ) -> None:
        self._files = files
        self._descriptor = files.open(path, os.O_RDWR | os.O_CREAT)
        self._interval_s = interval_s
        self._leader_jobs = leader_jobs
        self._follower_jobs = follower_jobs
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_leader = False
        self._is_closing = False
        self._turn = asyncio.Lock()
        self.failures: dict[str, str] = {}

    @property
    def is_leader(self) -> bool:
        """Whether this process writes derived files."""
        return self._is_leader

    def start(self) -> None:
        """Run the jobs in the background from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="maintenance")

    def wake(self) -> None:
        """Run the jobs now and not only at the next interval."""
        self._woken.set()

    async def tick(self) -> None:
        """Run each job once. A job that fails is named in `failures`, tried again the next time, and stops no other.

        A caller that comes while the jobs run waits for them, and then runs them again.
        """
        async with self._turn:
            self._is_leader = self._is_leader or try_flock(self._descriptor)
            jobs = self._leader_jobs if self._is_leader else self._follower_jobs
            for name, job in jobs.items():
                try:
                    await job()
                    self.failures.pop(name, None)
                except Exception as problem:  # noqa: BLE001 -- derived data can be built again; the failure is named and retried
                    if name not in self.failures:
                        _log.warning("maintenance_failed", job=name, error=str(problem))
                    self.failures[name] = str(problem)

    async def close(self) -> None:
        """Run the jobs a last time, stop, and let another process become the leader."""
        # The task is not cancelled: a job may be writing in a thread, which would go on.
        self._is_closing = True
        self.wake()
        if self._task is not None:
            await self._task
        await self.tick()
        # A forked process shares the open file, and would stay the leader for as long as it lives.
        unlock(self._descriptor)
        self._files.close(self._descriptor)

    async def _run(self) -> None:
        while not self._is_closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._interval_s)
            self._woken.clear()
            if not self._is_closing:
                await self.tick()
