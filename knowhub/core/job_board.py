"""The state of long work, which the replicas of a server have to share."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from knowhub.core.errors import KnowHubError
from knowhub.core.operation import IdempotencyKey

MAX_JOBS: Final = 100


class JobStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Job:
    """A piece of long work; times in seconds since the epoch."""

    job_id: str
    kind: str
    account: str
    started_at: float
    stage: str
    key: IdempotencyKey | None = field(default=None, repr=False)
    status: JobStatus = JobStatus.RUNNING
    done: int = 0
    total: int = 0
    finished_at: float | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    problem: KnowHubError | None = field(default=None, repr=False)

    def progress(self, done: int, total: int) -> None:
        """Note how far the work has come."""
        self.done, self.total = done, total


class JobBoard(Protocol):
    """Where the state of jobs is kept. Replicas of a server need a common one."""

    async def begin(self, job: Job) -> Job | None:
        """Keep a new job. If one of its kind is running in its account, keep nothing and return that one."""

    async def save(self, job: Job) -> None:
        """Keep what a job has come to."""

    async def find(self, account: str, job_id: str) -> Job | None:
        """Return a job of an account; None if there is none, or if it was forgotten."""


class InMemoryJobBoard:
    """Keeps the last hundred jobs of one process until it ends."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    async def begin(self, job: Job) -> Job | None:
        """See `JobBoard`."""
        for other in self._jobs.values():
            if (other.kind, other.account, other.status) == (job.kind, job.account, JobStatus.RUNNING):
                return other
        self._jobs[job.job_id] = job
        ended = [job_id for job_id, kept in self._jobs.items() if kept.status is not JobStatus.RUNNING]
        for job_id in ended[: max(0, len(self._jobs) - MAX_JOBS)]:
            del self._jobs[job_id]
        return None

    async def save(self, job: Job) -> None:
        """See `JobBoard`."""
        self._jobs[job.job_id] = job

    async def find(self, account: str, job_id: str) -> Job | None:
        """See `JobBoard`."""
        job = self._jobs.get(job_id)
        return job if job is not None and job.account == account else None
