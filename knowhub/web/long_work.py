"""Upkeep that takes long: who may ask for it, and how it is answered."""

from typing import Any

from fastapi import Request

from knowhub.core.errors import Unavailable
from knowhub.core.permissions import check_may_keep_up
from knowhub.core.request_context import RequestContext
from knowhub.operations.jobs import Job, JobStatus
from knowhub.web.dependencies import context_of
from knowhub.web.schemas.parts import CallerIds


def upkeep_context(request: Request, ids: CallerIds) -> RequestContext:
    """Return who may keep the server up. Raises Forbidden for anybody else."""
    ctx = context_of(request, ids)
    check_may_keep_up(ctx)
    return ctx


def result_of(job: Job) -> dict[str, Any]:
    """Return what a job that was waited for answers. Raises what it failed with, else Unavailable."""
    if job.status is JobStatus.DONE and job.result is not None:
        return job.result
    if job.problem is not None:
        raise job.problem
    raise Unavailable(
        f"{job.kind} {job.status.value}: {job.error or 'another request ended it'}", {"job_id": job.job_id}
    )
