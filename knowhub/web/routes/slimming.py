"""Slimming over HTTP (seed 003 `slim_knowledge`)."""

from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.core.permissions import check_may_keep_up
from knowhub.knowledge.slimming import Slimmed
from knowhub.web.dependencies import body, context_of, hub_of, query, retry_key, written
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.long_work import STARTED, job_answer
from knowhub.web.openapi import RETRY, WRITES, answers, examples, parameters
from knowhub.web.schemas.keywords import WaitParams
from knowhub.web.schemas.slimming import SlimAnswer, SlimBody

router = APIRouter(prefix="/api/knowledge", tags=["knowledge"], route_class=EdgeRoute)


@router.post(
    "/slim",
    summary="Merge what says the same",
    responses=answers(200, SlimAnswer) | STARTED | WRITES,
    openapi_extra=examples("slim", SlimBody) | parameters(WaitParams, headers=RETRY),
)
async def slim_knowledge(request: Request) -> Response:
    """Merge copies, near copies, and what a model finds to say the same, of what the caller owns; `dry_run` previews.

    Nothing is lost: what was merged is read by its id, evidence adds up, and undoing `slim_id` brings all of it back.
    """
    sent = body(request, SlimBody, beside_query=True)
    params = query(request, WaitParams, beside_body=True)
    hub, ctx = hub_of(request), context_of(request, sent)
    key = retry_key(request, ctx)
    if not params.wait:
        check_may_keep_up(ctx)
    if not ctx.is_root:
        return _answered(shown(await hub.slimming.slim(ctx, sent.model, dry_run=sent.dry_run, key=key)))

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return shown(await hub.slimming.slim(ctx, sent.model, dry_run=sent.dry_run, progress=progress, key=key))

    job = hub.jobs.start("slim", ctx.account, work, key)
    return await job_answer(hub, job, _answered, wait=params.wait)


def shown(done: Slimmed) -> dict[str, Any]:
    """Return what a slimming did as it is answered."""
    operation_id = done.operation_ids[-1] if done.operation_ids else None
    return {
        **done.report,
        "slim_id": done.slim_id,
        "operation_ids": list(done.operation_ids),
        "operation_id": operation_id,
    }


def _answered(answer: dict[str, Any]) -> Response:
    return written(answer, answer["operation_id"])
