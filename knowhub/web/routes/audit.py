"""The junk-rate report."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.audit.model import Finding, Report
from knowhub.core.clock import iso
from knowhub.web.dependencies import hub_of, json_response, query
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.long_work import upkeep_context
from knowhub.web.openapi import answers, parameters, problems
from knowhub.web.schemas import audit as shapes

router = APIRouter(tags=["upkeep"], route_class=EdgeRoute)


@router.get(
    "/api/maintenance/audit",
    summary="What is kept twice, comes out of a search, is over, or must not be kept",
    responses=answers(200, shapes.AuditAnswer) | problems(422, 503),
    openapi_extra=parameters(shapes.AuditParams),
)
async def audit(request: Request) -> Response:
    """Look at every live record and info of an account and answer with what is wrong; writes nothing."""
    params = query(request, shapes.AuditParams)
    ctx = upkeep_context(request, params)
    return json_response(shown(await hub_of(request).audit.report(ctx, params.question())))


def shown(report: Report) -> dict[str, Any]:
    """Return a report as it is answered."""
    return {
        "account": report.account,
        "records": report.records,
        "infos": report.infos,
        "junk": report.junk,
        "junk_rate": report.junk_rate,
        "searches_known_since": iso(report.searches_known_since),
        "summary": dict(report.summary),
        "findings": _findings(report.findings),
        "count": len(report.findings),
        "truncated": report.is_truncated,
    }


def _findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [
        {
            "kind": finding.kind.value,
            "severity": finding.severity.value,
            "collection": finding.collection,
            "id": finding.id,
            "related": list(finding.related),
            "evidence": finding.evidence,
            "suggestion": finding.suggestion,
        }
        for finding in findings
    ]
