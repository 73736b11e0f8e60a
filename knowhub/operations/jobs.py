"""Long work: jobs with progress that can be cancelled, and upkeep in the background, such as periodic snapshots."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from knowhub.core.clock import Clock, parse_iso
from knowhub.core.errors import Conflict, KnowHubError, NotFound
from knowhub.core.ids import Ids
from knowhub.core.job_board import Job, JobBoard, JobStatus
from knowhub.core.operation import IdempotencyKey
from knowhub.core.store_results import SnapshotReason
from knowhub.operations.snapshots import SnapshotArchives

Work = Callable[[Callable[[int, int], None]], Awaitable[dict[str, Any]]]


class Jobs:
    """Runs jobs in the background, one of a kind at a time in each account."""

    def __init__(self, clock: Clock, ids: Ids, board: JobBoard) -> None:
        self._clock = clock
        self._ids = ids
        self._board = board
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, kind: str, account: str, work: Work, key: IdempotencyKey | None = None) -> Job:
        """Begin `work(progress)` in the background. Raises Conflict while one of its kind is running.

        A request that is repeated, with the same `key`, gets the job that it has begun and that is running.
        """
        job = Job(f"job-{self._ids.hex(32)}", kind, account, self._clock.now(), stage=kind, key=key)
        running = await self._board.begin(job)
        if running is not None:
            if key is not None and running.key == key:
                return running
            raise Conflict(f"a {kind} is running already", {"job_id": running.job_id})
        task = asyncio.get_running_loop().create_task(self._run(job, work), name=job.job_id)
        self._tasks[job.job_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.job_id, None))
        return job

    async def finish(self, job: Job) -> Job:
        """Wait until a job has ended; cancelling the wait leaves the job alone."""
        task = self._tasks.get(job.job_id)
        if task is not None:
            await asyncio.shield(task)
        return job

    async def get(self, account: str, job_id: str) -> Job:
        """Return a job of this account. Raises NotFound."""
        job = await self._board.find(account, job_id)
        if job is None:
            raise NotFound.of("job", job_id)
        return job

    async def cancel(self, account: str, job_id: str) -> Job:
        """Cancel a job and wait until it has ended; does nothing if it has ended already."""
        job = await self.get(account, job_id)
        task = self._tasks.get(job_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if job.status is JobStatus.RUNNING:
                # Cancelled before its first step: nothing of it ran that could have said so.
                job.status, job.finished_at = JobStatus.CANCELLED, self._clock.now()
                await self._board.save(job)
        return job

    async def _run(self, job: Job, work: Work) -> None:
        try:
            job.result = await work(job.progress)
            job.status = JobStatus.DONE
        except asyncio.CancelledError:
            job.status = JobStatus.CANCELLED
        except (KnowHubError, OSError) as problem:
            job.status = JobStatus.FAILED
            job.error = str(problem)
            job.problem = problem if isinstance(problem, KnowHubError) else None
        except Exception as problem:
            # Never left as running: no other of its kind could start until a restart.
            job.status = JobStatus.FAILED
            job.error = f"an error that should not be: {problem!r}"
            raise
        finally:
            job.finished_at = self._clock.now()
            await self._board.save(job)


_RETRY_S = 600.0


class PeriodicTask:
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

    async def tick(self) -> None:
        """Start the work if it is due, without waiting for its end.

        Raises the error of the last run, until a run succeeds.
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
        """Cancel the work if it is running."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])


_HOUR_S = 3600.0
_LOOK_AGAIN_S = 60.0


class PeriodicSnapshots(PeriodicTask):
    """Makes a snapshot at intervals if something was written, and keeps the newest ones.

    `limits` are the hours between two of them, 0 for none, and how many are kept. Snapshots that somebody asked for, or
    that a restore made, are left alone. `newest` returns the number of the
    newest operation, `begun` the time of the oldest known operation, or None.
    """

    def __init__(
        self,
        archives: SnapshotArchives,
        clock: Clock,
        limits: tuple[float, int],
        newest: Callable[[], int],
        begun: Callable[[], Awaitable[float | None]],
    ) -> None:
        self._archives = archives
        self._every_s, self._kept = limits[0] * _HOUR_S, limits[1]
        self._newest = newest
        self._begun = begun
        super().__init__(clock, _LOOK_AGAIN_S, self._make, self._is_snapshot_due)

    async def _is_snapshot_due(self, now: float) -> bool:
        if not self._every_s:
            return False
        intact = [entry for entry in await self._archives.entries() if entry.created_at is not None]
        if intact:
            made = max(parse_iso(entry.created_at or "") for entry in intact)
            return now >= made + self._every_s and self._newest() > max(entry.last_seq or 0 for entry in intact)
        begun = await self._begun()
        return begun is not None and now >= begun + self._every_s

    async def _make(self) -> None:
        await self._archives.create(SnapshotReason.PERIODIC)
        periodic = [entry for entry in await self._archives.entries() if entry.reason is SnapshotReason.PERIODIC]
        for entry in periodic[self._kept :]:
            await self._archives.delete(entry.ts)
