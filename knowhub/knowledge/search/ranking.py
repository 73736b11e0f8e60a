"""The ranking of search results: relevance selects them, quality orders them.

1. The pool is the best 2·k hits by relevance.
2. Hits with less than 0.4 of the best relevance are weak, unless a model picked them.
3. The k best of the pool by quality are selected; weak hits only fill what is left.
4. They are shown by quality (`evidence.quality`). Named callers see the nearest scope first, and profiles before it.

Ties keep the order of relevance.
"""

from collections.abc import Sequence
from typing import Final

from knowhub.core import scopes
from knowhub.core.recall import LEXICAL, SearchHit
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.feedback.evidence import summary_quality
from knowhub.knowledge.model import RERANK, ROUTING, KnowledgeSummary, KnowledgeType, Order

_POOL_FACTOR: Final = 2
# Where words and vectors agree on the best hit, a hit of the vectors alone has less than this share.
_RELEVANT_SHARE: Final = 0.4
_MODEL_STAGES: Final = frozenset({ROUTING, RERANK})
_WORD_STAGES: Final = frozenset({LEXICAL})


def pool_size(top_k: int, order: Order) -> int:
    """Return how many hits the ranking reads."""
    return top_k if order is Order.RELEVANCE else _POOL_FACTOR * top_k


def select_hits(
    hits: Sequence[SearchHit[KnowledgeSummary]], top_k: int, order: Order
) -> list[SearchHit[KnowledgeSummary]]:
    """Return the `top_k` hits to show; `hits` come best first."""
    if order is Order.RELEVANCE:
        return list(hits[:top_k])
    pool = hits[: pool_size(top_k, order)]
    least = _least_relevance(pool)
    return sorted(pool, key=lambda hit: (_is_weak(hit, least), -summary_quality(hit.head)))[:top_k]


def order_hits(
    hits: Sequence[SearchHit[KnowledgeSummary]], order: Order, ctx: RequestContext
) -> list[SearchHit[KnowledgeSummary]]:
    """Return the selected hits in the order in which they are shown.

    With `auto`, weak hits that share no word with the query come last.
    """
    if order is Order.RELEVANCE:
        return list(hits)
    ordered = sorted(hits, key=lambda hit: -summary_quality(hit.head))
    if order is Order.AUTO:
        least = _least_relevance(hits)
        ordered.sort(key=lambda hit: _is_weak(hit, least) and not _has_stage(hit, _WORD_STAGES))
    if order is Order.QUALITY or (order is Order.AUTO and ctx.unrestricted):
        return ordered
    return sorted(ordered, key=lambda hit: _rank_scope(hit.head, order, ctx))


def _least_relevance(hits: Sequence[SearchHit[KnowledgeSummary]]) -> float:
    return _RELEVANT_SHARE * max((hit.relevance for hit in hits), default=0.0)


def _is_weak(hit: SearchHit[KnowledgeSummary], least: float) -> bool:
    return hit.relevance < least and not _has_stage(hit, _MODEL_STAGES)


def _has_stage(hit: SearchHit[KnowledgeSummary], stages: frozenset[str]) -> bool:
    return any(part.stage in stages for part in hit.parts)


def _rank_scope(summary: KnowledgeSummary, order: Order, ctx: RequestContext) -> tuple[bool, int]:
    profile_first = order is Order.AUTO and KnowledgeType.USER_PROFILE in summary.types
    return not profile_first, scopes.rank(summary.scopes, summary.owner, ctx.visible)
