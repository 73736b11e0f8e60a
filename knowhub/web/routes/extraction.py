"""The route of extraction: what of a conversation is worth keeping (seed 004, 知识提取机制)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.knowledge.extraction_model import Extracted
from knowhub.web.dependencies import body, context_of, hub_of, retry_key, written
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import RETRY, WRITES, answers, examples
from knowhub.web.schemas import extraction as schemas

router = APIRouter(prefix="/api/knowledge", tags=["knowledge"], route_class=EdgeRoute)


@router.post(
    "/extract",
    summary="Find what is worth keeping in a conversation",
    responses=answers(200, schemas.ExtractAnswer) | WRITES,
    openapi_extra=RETRY | examples("extract", schemas.ExtractBody),
)
async def extract_knowledge(request: Request) -> Response:
    """Find preferences, habits, background, constraints, corrections, pitfalls and outcomes, and save them.

    One operation writes all of them, and one undo takes them back. What cannot be saved is answered, and aborts
    nothing.
    """
    sent = body(request, schemas.ExtractBody)
    ctx = context_of(request, sent)
    extracted = await hub_of(request).extraction.extract(ctx, sent.to_extraction(), retry_key(request, ctx))
    return written(shown(extracted), extracted.operation_id)


def shown(extracted: Extracted) -> Mapping[str, Any]:
    """Return what was found as the API answers it, but for its operation."""
    return {
        "candidates": extracted.results,
        "saved": extracted.saved,
        "count": len(extracted.saved),
        "resources": [asdict(one) for one in extracted.resources],
        "rejected": [asdict(one) for one in extracted.rejected],
        "degraded": extracted.degraded,
        "messages_read": extracted.messages_read,
        "dry_run": extracted.dry_run,
    }
