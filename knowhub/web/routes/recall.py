"""The route of recall: one question answered from everything that is kept."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from knowhub.usecases.recall import Answer
from knowhub.web.dependencies import context_of, hub_of, json_response, query
from knowhub.web.edge_route import EdgeRoute
from knowhub.web.openapi import answers, parameters, problems
from knowhub.web.schemas import context as schemas
from knowhub.web.schemas.context_answers import RecallAnswer

router = APIRouter(prefix="/api/recall", tags=["memories"], route_class=EdgeRoute)


@router.get(
    "",
    summary="Ask knowledge, keywords and memory together",
    responses=answers(200, RecallAnswer) | problems(422),
    openapi_extra=parameters(schemas.RecallParams),
)
async def recall(request: Request) -> Response:
    """Find what records, the keyword tree and memories say to one question, each item with its source.

    The best of each source come first. A source that fails is named in `degraded`, and the others answer.
    """
    params = query(request, schemas.RecallParams)
    answer = await hub_of(request).recall_all.recall(context_of(request, params), params.question())
    return json_response(shown(answer))


def shown(answer: Answer) -> Mapping[str, Any]:
    """Return what was found as the API answers it."""
    return {
        "results": [asdict(one) for one in answer.items],
        "count": len(answer.items),
        "degraded": list(answer.degraded),
        "index_lag": answer.index_lag,
    }
