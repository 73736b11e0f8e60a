"""Why a record is among the results: by which stages it came in, its evidence, and by which scope it is seen."""

from collections.abc import Mapping
from typing import Any

from knowhub.core import scopes
from knowhub.core.recall import Hit, Part
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import ranking
from knowhub.knowledge.model import Head, SearchQuery
from knowhub.knowledge.ports import KnowledgeIndex

_SCORE_DIGITS = 4


def why(
    ctx: RequestContext, query: SearchQuery, index: KnowledgeIndex, hit: Hit[Head], row: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what speaks for a hit; `recall` is the first of its `stages`, with the words of the query it holds."""
    head = hit.head
    tags = " ".join(f"{name} {value}" for name, value in row["tags"].items())
    matched = index.matched_terms(query.text, row["task"], row["content"], tags)
    stages = [_stage(part) for part in hit.parts]
    return {
        "recall": {**stages[0], "matched": matched},
        "stages": stages,
        "quality": {
            "score": head.score,
            "helpful": head.helpful,
            "harmful": head.harmful,
            "formula": "score + helpful - 2.0*harmful",
            "quality_score": ranking.head_quality(head),
        },
        "scope": {
            "seen_by": scopes.best(head.scopes, head.owner, ctx.visible),
            "rank": scopes.rank(head.scopes, head.owner, ctx.visible),
        },
        "order": query.order.value,
    }


def _stage(part: Part) -> dict[str, Any]:
    score = None if part.score is None else round(part.score, _SCORE_DIGITS)
    return {"stage": part.stage, "rank": part.rank, "score": score}
