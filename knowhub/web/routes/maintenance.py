"""Compaction, snapshots of the data directory, and the way back to one."""

from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.operations.model import Restored, SnapshotEntry
from knowhub.web.dependencies import hub_of, json_response, query, retry_key, written
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.long_work import STARTED, job_answer, upkeep_context
from knowhub.web.openapi import RETRY, WRITES, answers, parameters, problems
from knowhub.web.schemas import maintenance as shapes
from knowhub.web.schemas.operations import CompactParams, LongWorkParams
from knowhub.web.schemas.parts import CallerIds

router = APIRouter(prefix="/api/maintenance", tags=["upkeep"], route_class=EdgeRoute)


@router.post(
    "/compact",
    summary="Forget old operations",
    responses=answers(200, shapes.CompactAnswer) | STARTED | WRITES | problems(409),
    openapi_extra=parameters(CompactParams),
)
async def compact(request: Request) -> Response:
    """Put a base in the place of the oldest segments of the log: no row is lost, what is older cannot be undone."""
    params = query(request, CompactParams)
    ctx, hub = upkeep_context(request, params), hub_of(request)

    async def work(_progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return asdict(await hub.compact(params.undo_retention_days))

    job = hub.jobs.start("compact", ctx.account, work)
    return await job_answer(hub, job, wait=params.wait)


@router.post(
    "/snapshots",
    summary="Make a snapshot",
    status_code=201,
    responses=answers(201, shapes.SnapshotAnswer) | STARTED | WRITES | problems(409),
    openapi_extra=parameters(LongWorkParams),
)
async def create_snapshot(request: Request) -> Response:
    """Keep everything that is acknowledged, of every account, in one file below `snapshots/`."""
    params = query(request, LongWorkParams)
    ctx, hub = upkeep_context(request, params), hub_of(request)

    async def work(_progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return shown(await hub.snapshots.create())

    job = hub.jobs.start("snapshot", ctx.account, work)
    return await job_answer(hub, job, partial(json_response, status=201), wait=params.wait)


@router.get(
    "/snapshots",
    summary="List the snapshots, newest first",
    responses=answers(200, shapes.SnapshotList) | problems(422),
    openapi_extra=parameters(CallerIds),
)
async def list_snapshots(request: Request) -> Response:
    """List every snapshot with its size and time; one that does not open says why."""
    upkeep_context(request, query(request, CallerIds))
    results = [shown(entry) for entry in await hub_of(request).snapshots.entries()]
    return json_response({"results": results, "count": len(results)})


@router.delete(
    "/snapshots/{ts}",
    summary="Delete a snapshot",
    responses=answers(200, shapes.SnapshotDeleted) | WRITES | problems(404, 409),
    openapi_extra=parameters(CallerIds),
)
async def delete_snapshot(request: Request, ts: str) -> Response:
    """Remove a snapshot's file; there is no way back."""
    upkeep_context(request, query(request, CallerIds))
    await hub_of(request).snapshots.delete(ts)
    return json_response({"ts": ts, "deleted": True})


@router.post(
    "/snapshots/{ts}/restore",
    summary="Go back to a snapshot",
    responses=answers(200, shapes.RestoreAnswer) | STARTED | WRITES | problems(404, 409),
    openapi_extra=parameters(LongWorkParams, headers=RETRY),
)
async def restore_snapshot(request: Request, ts: str) -> Response:
    """Bring every row of the account back to what a snapshot holds, as operations that are undone together.

    What stands is kept in another snapshot first. A damaged one answers 422, names the member, and changes nothing.
    """
    params = query(request, LongWorkParams)
    ctx, hub = upkeep_context(request, params), hub_of(request)
    key = retry_key(request, ctx)
    await hub.snapshots.entry(ts)

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return restored(await hub.snapshots.restore(ctx, ts, key, progress))

    job = hub.jobs.start("restore", ctx.account, work, key)
    return await job_answer(hub, job, _restored_answer, wait=params.wait)


def shown(entry: SnapshotEntry) -> dict[str, Any]:
    """Return a snapshot as it is answered."""
    told = asdict(entry)
    return {"ts": told.pop("ts"), "path": told.pop("path"), "bytes": told.pop("size"), **told}


def restored(done: Restored) -> dict[str, Any]:
    """Return what a restore did as it is answered."""
    told = asdict(done)
    return {**told, "erased": [{"collection": collection, "id": row_id} for collection, row_id in done.erased]}


def _restored_answer(result: dict[str, Any]) -> Response:
    return written(result, result["operation_ids"][-1] if result["operation_ids"] else None)
