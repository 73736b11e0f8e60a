"""Quality ranking: arithmetic on evidence, no text (seed 003 质量精排; scope precedence of seed 004, C-08)."""

from collections.abc import Sequence
from typing import Final

from knowhub.core import scopes
from knowhub.core.recall import LEXICAL, Hit
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import RERANK, ROUTING, Head, KnowledgeType, Order

_JUDGES: Final = frozenset({ROUTING, RERANK})
_WORDS: Final = frozenset({LEXICAL})
# Of the best hit's relevance. Vectors alone come to less, where words and vectors agree on the best.
_RELEVANT: Final = 0.4


def quality(score: int, helpful: int, harmful: int) -> float:
    """Return `score + helpful − 2·harmful` (KM-062; the seed's example figure is an error, C-39)."""
    return score + helpful - harmful * 2.0


def head_quality(head: Head) -> float:
    """Return the quality of a record by its head."""
    return quality(head.score, head.helpful, head.harmful)


def confidence(helpful: int, harmful: int) -> float:
    """Return the share of good evidence with one harmful case assumed: 0.5 when fresh, below 1 always (G-09)."""
    return helpful / (helpful + harmful + 1)


def rule_against(head: Head, min_score: int) -> str | None:
    """Name the rule that drops a record for its evidence; None when it stays (KM-063)."""
    if head.score < min_score:
        return "score_below_min_score"
    if head_quality(head) < 0:
        return "negative_quality"
    return None


def validity_against(head: Head, as_of: float) -> str | None:
    """Name the rule that drops a record for its time; None when it is valid at `as_of`."""
    if head.valid_from is not None and as_of < head.valid_from:
        return "not_yet_valid"
    if head.valid_to is not None and as_of >= head.valid_to:
        return "no_longer_valid"
    return None


def select(hits: Sequence[Hit[Head]], top_k: int, order: Order, ctx: RequestContext) -> list[Hit[Head]]:
    """Choose `top_k` of the hits, which come best first, and put them in the order in which they are shown."""
    return arranged(chosen(hits, top_k, order), order, ctx)


def chosen(hits: Sequence[Hit[Head]], top_k: int, order: Order) -> list[Hit[Head]]:
    """Choose `top_k` of the hits, which come best first; the one that is missed the most comes first.

    The pool is the best 2·k by relevance; k are taken by quality. Every tie keeps recall's order. What is far less
    relevant than the best gets only the places that the others leave: votes for other questions do not make it an
    answer to this one. What a model has picked or ordered is as relevant as that model says.
    """
    if order is Order.RELEVANCE:
        return list(hits[:top_k])
    pool = hits[: 2 * top_k]
    enough = _enough(pool)
    return sorted(pool, key=lambda hit: (_is_weak(hit, enough), -head_quality(hit.head)))[:top_k]


def arranged(hits: Sequence[Hit[Head]], order: Order, ctx: RequestContext) -> list[Hit[Head]]:
    """Put chosen hits in the order in which they are shown: by quality, for a named caller nearest scope first.

    What is far less relevant than the best, and shares no word with the question, comes behind what is not, unless
    quality alone was asked for.
    """
    if order is Order.RELEVANCE:
        return list(hits)
    shown = sorted(hits, key=lambda hit: -head_quality(hit.head))
    if order is Order.AUTO:
        enough = _enough(hits)
        shown.sort(key=lambda hit: _is_weak(hit, enough) and not _was_found_by(hit, _WORDS))
    if order is Order.QUALITY or (order is Order.AUTO and ctx.unrestricted):
        return shown
    return sorted(shown, key=lambda hit: _precedence(hit.head, order, ctx))


def _enough(hits: Sequence[Hit[Head]]) -> float:
    return _RELEVANT * max((hit.relevance for hit in hits), default=0.0)


def _is_weak(hit: Hit[Head], enough: float) -> bool:
    return hit.relevance < enough and not _was_found_by(hit, _JUDGES)


def _was_found_by(hit: Hit[Head], stages: frozenset[str]) -> bool:
    return any(part.stage in stages for part in hit.parts)


def _precedence(head: Head, order: Order, ctx: RequestContext) -> tuple[bool, int]:
    profile_first = order is Order.AUTO and KnowledgeType.USER_PROFILE in head.types
    return not profile_first, scopes.rank(head.scopes, head.owner, ctx.visible)
