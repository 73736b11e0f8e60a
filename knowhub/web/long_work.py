"""Upkeep that takes long: who may ask for it, and how it is answered."""

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response

from knowhub.bootstrap import Hub
from knowhub.core.errors import Unavailable
from knowhub.core.permissions import check_may_keep_up
from knowhub.core.request_context import RequestContext
from knowhub.operations.jobs import Job, JobStatus
from knowhub.web.dependencies import context_of, json_response
from knowhub.web.openapi import answers
from knowhub.web.schemas.answers import JobStarted
from knowhub.web.schemas.parts import CallerIds

STARTED = answers(202, JobStarted, "Started; see /api/jobs.")


def upkeep_context(request: Request, ids: CallerIds) -> RequestContext:
    """Return who may keep the server up. Raises Forbidden for anybody else."""
    ctx = context_of(request, ids)
    check_may_keep_up(ctx)
    return ctx


def started_answer(job: Job) -> Response:
    """Answer with the name under which the caller can ask how a job is getting on."""
    return json_response({"job_id": job.job_id}, 202)


async def job_answer(
    hub: Hub, job: Job, answer: Callable[[dict[str, Any]], Response] = json_response, *, wait: bool
) -> Response:
    """Answer with what a job has done when the caller waits for it. Raises what it failed with, else Unavailable."""
    return answer(_result_of(await hub.jobs.finish(job))) if wait else started_answer(job)


def _result_of(job: Job) -> dict[str, Any]:
    if job.status is JobStatus.DONE and job.result is not None:
        return job.result
    if job.problem is not None:
        raise job.problem
    raise Unavailable(
        f"{job.kind} {job.status.value}: {job.error or 'another request ended it'}", {"job_id": job.job_id}
    )
