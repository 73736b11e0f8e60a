"""Health, metrics, version, long work."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.bootstrap import Hub
from knowhub.core.chat import CountedChatModel
from knowhub.core.clock import iso
from knowhub.core.embedding import CountedEmbedder
from knowhub.core.permissions import check_may_keep_up
from knowhub.core.reranking import CountedReranker
from knowhub.operations.jobs import Job
from knowhub.web.auth import is_keeper_up
from knowhub.web.dependencies import context_of, hub_of, json_response, query
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.long_work import STARTED, job_answer, upkeep_context
from knowhub.web.openapi import WRITES, answers, content, parameters, problems
from knowhub.web.schemas import answers as shapes
from knowhub.web.schemas.operations import LongWorkParams
from knowhub.web.schemas.parts import CallerIds

router = APIRouter(tags=["upkeep"], route_class=EdgeRoute)

_UNTOLD = "the root key is told more"
_NO_FIGURES = dict.fromkeys(
    ("index_lag", "records_lag", "maps_lag", "directories_lag", "last_seq", "damage", "quarantined")
)
_VERSION = {"name": "knowhub", "version": version("knowhub")}


@router.get("/health", summary="The process is up", responses=answers(200, shapes.HealthAnswer) | problems())
async def health(request: Request) -> Response:
    """Answer as long as the process does."""
    del request
    return json_response({"status": "ok"})


@router.get(
    "/ready",
    summary="Writes are taken",
    responses=problems() | answers(200, shapes.ReadyAnswer) | answers(503, shapes.ReadyAnswer, "Writes are refused."),
)
async def ready(request: Request) -> Response:
    """Tell whether writes are taken, how far what is derived is behind, and what is wrong.

    Where keys are asked for, only the root key is told figures and paths, which are of every account.
    """
    hub = hub_of(request)
    status = hub.store.status()
    is_told_all = is_keeper_up(request)
    answer = {
        "status": "ready" if status.writable else "read_only",
        "writable": status.writable,
        "reason": status.reason if is_told_all or status.writable else _UNTOLD,
        "degraded": sorted({*hub.keeper.failures, *_silent(hub)}),
        "failures": dict(hub.keeper.failures) if is_told_all else dict.fromkeys(hub.keeper.failures, _UNTOLD),
        "keeper": hub.keeper.is_keeper,
        **(_figures(hub) if is_told_all else _NO_FIGURES),
    }
    return json_response(answer, 200 if status.writable else 503)


def _figures(hub: Hub) -> dict[str, Any]:
    status = hub.store.status()
    return {
        "index_lag": hub.index_lag,
        "records_lag": hub.records.lag,
        "maps_lag": hub.maps.lag,
        "directories_lag": hub.directories.lag,
        "last_seq": status.last_seq,
        "damage": [str(damage) for damage in status.damage],
        "quarantined": hub.quarantined(),
    }


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    responses=content(200, "Text format.", "text/plain") | problems(),
)
async def metrics(request: Request) -> Response:
    """Show counters and the state of the hub; they count what is of every account."""
    check_may_keep_up(context_of(request, CallerIds()))
    return Response(request.app.state.metrics.render(), media_type="text/plain; version=0.0.4")


@router.get("/version", summary="Which KnowHub this is", responses=answers(200, shapes.VersionAnswer) | problems())
async def get_version(request: Request) -> Response:
    """Name the server and its version."""
    del request
    return json_response(_VERSION)


@router.post(
    "/api/maintenance/reindex",
    summary="Build the indexes anew",
    responses=answers(200, shapes.ReindexAnswer) | STARTED | WRITES | problems(409),
    openapi_extra=parameters(LongWorkParams),
)
async def reindex(request: Request) -> Response:
    """Build every derived index from the log, beside the one in use; searches go on meanwhile."""
    params = query(request, LongWorkParams)
    hub = hub_of(request)
    ctx = upkeep_context(request, params)

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return {"records": await hub.reindex(progress, ctx.account)}

    job = hub.jobs.start("reindex", ctx.account, work)
    return await job_answer(hub, job, wait=params.wait)


@router.get(
    "/api/jobs/{job_id}",
    summary="How long work is getting on",
    responses=answers(200, shapes.JobAnswer) | problems(404, 422),
    openapi_extra=parameters(CallerIds),
)
async def get_job(request: Request, job_id: str) -> Response:
    """Tell a job's status, stage and progress."""
    ids = query(request, CallerIds)
    return json_response(_job(hub_of(request).jobs.get(upkeep_context(request, ids).account, job_id)))


@router.delete(
    "/api/jobs/{job_id}",
    summary="Cancel long work",
    responses=answers(200, shapes.JobAnswer) | WRITES | problems(404),
    openapi_extra=parameters(CallerIds),
)
async def cancel_job(request: Request, job_id: str) -> Response:
    """Cancel a job; one that has ended stays as it ended."""
    ids = query(request, CallerIds)
    return json_response(_job(await hub_of(request).jobs.cancel(upkeep_context(request, ids).account, job_id)))


def _silent(hub: Hub) -> Sequence[str]:
    """Name each model that is not asked at present; without it, what it would decide is left undecided."""
    models = {"llm": hub.chat, "embedder": hub.embedder, "reranker": hub.reranker}
    counted = CountedChatModel | CountedEmbedder | CountedReranker
    return [name for name, model in models.items() if isinstance(model, counted) and model.is_open]


def _job(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "kind": job.kind,
        "status": job.status.value,
        "stage": job.stage,
        "progress": {"done": job.done, "total": job.total},
        "started_at": iso(job.started_at),
        "finished_at": None if job.finished_at is None else iso(job.finished_at),
        "result": job.result,
        "error": job.error,
    }
