"""Health, metrics, version, jobs, indexes, snapshots, compaction and the audit."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from knowhub.bootstrap import Hub
from knowhub.core.clock import iso
from knowhub.core.job_board import Job
from knowhub.core.language_models import get_counted
from knowhub.core.permissions import check_can_maintain
from knowhub.web.auth import is_maintainer, make_request_context
from knowhub.web.responses import answer_json, answer_report
from knowhub.web.route import STARTED, MaintenanceCall, Routes, TextAnswer, WriteCall, answer_job
from knowhub.web.schemas import maintenance as schemas
from knowhub.web.schemas.parts import CallerIds
from knowhub.web.views import make_restore_view, make_snapshot_view, make_view

routes = Routes("", "upkeep", "Indexes, jobs, health and metrics.")

_HIDDEN = "the root key is told more"
_NO_FIGURES = dict.fromkeys(
    ("index_lag", "extraction_lag", "records_lag", "maps_lag", "directories_lag", "last_seq", "damage", "quarantined")
)
_VERSION = {"name": "knowhub", "version": version("knowhub")}


@routes.add("GET", "/health", {200: schemas.HealthAnswer}, summary="Check that the process is up")
async def health(request: Request) -> Response:
    """Answer while the process runs."""
    # Who has the data directory can make sure that it is this server's.
    return answer_json({"status": "ok"}, headers=request.app.state.answer_challenge(request.headers))


@routes.add(
    "GET",
    "/ready",
    {200: schemas.ReadyAnswer, 503: (schemas.ReadyAnswer, "Writes are refused.")},
    summary="Check that writes are accepted",
)
async def ready(request: Request) -> Response:
    """Return whether writes are accepted, how far indexes and files are behind, and what is wrong.

    With keys on, only the root key gets the figures and paths, because they cover every account.
    """
    hub: Hub = request.app.state.hub
    status = hub.store.status()
    is_shown_all = is_maintainer(request)
    answer = {
        "status": "ready" if status.writable else "read_only",
        "writable": status.writable,
        "reason": status.reason if is_shown_all or status.writable else _HIDDEN,
        "degraded": sorted({*hub.maintenance.failures, *_list_unavailable_models(hub)}),
        "embedder": hub.indexes.embedding.describe() if is_shown_all else None,
        "failures": dict(hub.maintenance.failures)
        if is_shown_all
        else dict.fromkeys(hub.maintenance.failures, _HIDDEN),
        "keeper": hub.maintenance.is_leader,
        **(_collect_figures(hub) if is_shown_all else _NO_FIGURES),
    }
    return answer_json(answer, 200 if status.writable else 503)


@routes.add("GET", "/metrics", {200: TextAnswer("Text format.", ("text/plain",))}, summary="Prometheus metrics")
async def metrics(request: Request) -> Response:
    """Return counters and gauges of the server, over all accounts."""
    check_can_maintain(make_request_context(request, CallerIds()))
    return Response(request.app.state.metrics.render(), media_type="text/plain; version=0.0.4")


@routes.add("GET", "/version", {200: schemas.VersionAnswer}, summary="Name and version")
async def get_version(request: Request) -> Response:
    """Return the name and the version of the server."""
    del request
    return answer_json(_VERSION)


@routes.add("POST", "/api/maintenance/reindex", {200: schemas.ReindexAnswer} | STARTED, summary="Rebuild the indexes")
async def reindex(call: MaintenanceCall, params: schemas.LongWorkParams) -> Response:
    """Rebuild every index from the log. Searches use the old index until the new one is complete."""
    hub = call.hub

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return {"records": await hub.reindex(progress, call.ctx.account)}

    return await answer_job(call, "reindex", work, wait=params.wait)


@routes.add("GET", "/api/jobs/{job_id}", {200: schemas.JobAnswer}, summary="Read the state of a job")
async def get_job(call: MaintenanceCall, job_id: str) -> Response:
    """Return the status, stage and progress of a job."""
    return answer_json(_make_job_view(await call.hub.operations.jobs.get(call.ctx.account, job_id)))


@routes.add("DELETE", "/api/jobs/{job_id}", {200: schemas.JobAnswer}, summary="Cancel a job", is_read_only=True)
async def cancel_job(call: MaintenanceCall, job_id: str) -> Response:
    """Cancel a job. A finished job stays as it is."""
    return answer_json(_make_job_view(await call.hub.operations.jobs.cancel(call.ctx.account, job_id)))


@routes.add(
    "POST",
    "/api/maintenance/compact",
    {200: schemas.CompactAnswer} | STARTED,
    summary="Forget old operations",
)
async def compact(call: MaintenanceCall, params: schemas.CompactParams) -> Response:
    """Replace the oldest segments of the log by their rows. Every row stays; old operations cannot be undone."""
    hub = call.hub

    async def work(_progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return asdict(await hub.compact(params.undo_retention_days))

    return await answer_job(call, "compact", work, wait=params.wait)


@routes.add("POST", "/api/maintenance/snapshots", {201: schemas.SnapshotAnswer} | STARTED, summary="Create a snapshot")
async def create_snapshot(call: MaintenanceCall, params: schemas.LongWorkParams) -> Response:
    """Write everything that is saved, of every account, to one file in `snapshots/`."""
    hub = call.hub

    async def work(_progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return make_snapshot_view(await hub.operations.snapshots.create())

    return await answer_job(call, "snapshot", work, wait=params.wait, make_response=partial(answer_json, status=201))


@routes.add(
    "GET",
    "/api/maintenance/snapshots",
    {200: schemas.SnapshotList},
    summary="List the snapshots, newest first",
)
async def list_snapshots(call: MaintenanceCall) -> Response:
    """List every snapshot with its size and time. A snapshot that cannot be opened says why."""
    results = [make_snapshot_view(entry) for entry in await call.hub.operations.snapshots.entries()]
    return answer_json({"results": results, "count": len(results)})


@routes.add("DELETE", "/api/maintenance/snapshots/{ts}", {200: schemas.SnapshotDeleted}, summary="Delete a snapshot")
async def delete_snapshot(call: MaintenanceCall, ts: str) -> Response:
    """Delete the file of a snapshot. This cannot be undone."""
    await call.hub.operations.snapshots.delete(ts)
    return answer_json({"ts": ts, "deleted": True})


@routes.add(
    "POST",
    "/api/maintenance/snapshots/{ts}/restore",
    {200: schemas.RestoreAnswer} | STARTED,
    summary="Restore a snapshot",
)
async def restore_snapshot(call: WriteCall, ts: str, params: schemas.LongWorkParams) -> Response:
    """Restore every row of the account from a snapshot, as operations that one undo reverts.

    The present state is saved as a snapshot first. A damaged snapshot is 422; the answer names the damaged member.
    """
    check_can_maintain(call.ctx)
    hub, key = call.hub, call.key
    await hub.operations.snapshots.entry(ts)

    async def work(progress: Any) -> dict[str, Any]:  # noqa: ANN401 -- the job's own callback
        return make_restore_view(await hub.operations.snapshots.restore(call.ctx, ts, key, progress))

    return await answer_job(call, "restore", work, key, wait=params.wait, make_response=answer_report)


@routes.add(
    "GET",
    "/api/maintenance/audit",
    {200: schemas.AuditAnswer},
    summary="Report duplicates, copied search results, expired records and secrets",
)
async def audit(call: MaintenanceCall, params: schemas.AuditParams) -> Response:
    """Check every live record and info of an account. Writes nothing."""
    report = await call.hub.audit.report(call.ctx, params.to_query())
    answer = make_view(
        schemas.AuditAnswer,
        report,
        junk_rate=report.junk_rate,
        count=len(report.findings),
        truncated=report.is_truncated,
    )
    return answer_json(answer)


def _collect_figures(hub: Hub) -> dict[str, Any]:
    status = hub.store.status()
    return {
        "index_lag": hub.indexes.lag,
        "extraction_lag": 0 if hub.memories.extraction is None else hub.memories.extraction.count_waiting(),
        "records_lag": hub.exports.records.lag,
        "maps_lag": hub.exports.maps.lag,
        "directories_lag": hub.exports.directories.lag,
        "last_seq": status.last_seq,
        "damage": [str(damage) for damage in status.damage],
        "quarantined": hub.list_quarantined(),
    }


def _list_unavailable_models(hub: Hub) -> Sequence[str]:
    """Name the models that are not asked at present, because they failed too often."""
    models = {"llm": hub.chat, "embedder": hub.embedder, "reranker": hub.reranker}
    counted = {name: get_counted(model) for name, model in models.items()}
    unavailable = [name for name, model in counted.items() if model is not None and model.is_open]
    return [*unavailable, "embedder"] if hub.indexes.embedding.find_problems() else unavailable


def _make_job_view(job: Job) -> dict[str, Any]:
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
