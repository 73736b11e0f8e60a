"""What a caller reads: the block of each hit of a search, and the layers of a node.

What the caller does not see is missing, in the same words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from knowhub.context import edits, texts
from knowhub.context.model import PARTS, ContextNode, ContextSummary, Level, MemoryCategory, RelationEdge
from knowhub.context.ports import ContextIndex
from knowhub.context.queries import find_memory, find_visible, get_message_id, list_parts
from knowhub.context.retrieval.ranking import ScoredHit
from knowhub.context.search_model import RetrievedBlock, TypedQuery
from knowhub.context.texts import format_transcript
from knowhub.context.uri import Sees
from knowhub.core import clock, scopes
from knowhub.core.erasing import is_erased
from knowhub.core.operation import View, is_live
from knowhub.core.request_context import RequestContext

# So that a line of a terminal, cut at 120 characters, shows the match too.
_CHARS_BEFORE_MATCH: Final = 80
# A search may show a hundred long messages, and nobody else is answered while they are looked through.
_LOOKED_THROUGH_CHARS: Final = 50_000
_MAX_WORDS: Final = 8
_MAX_MESSAGE_IDS: Final = 20


def make_blocks(
    view: View, index: ContextIndex, query: TypedQuery, hits: Sequence[ScoredHit], ctx: RequestContext
) -> list[RetrievedBlock]:
    """Return a block for each hit, in order. Of rows it reads those of long messages, which are their own L0."""
    sees = edits.make_visibility_check(view, ctx)
    blocks = []
    for hit in hits:
        summary = hit.summary
        text = _get_text(view, index, query, summary)
        block = RetrievedBlock(
            uri=summary.uri,
            category=summary.category.value,
            level_hit=Level.L0.name,
            abstract=text,
            scope=_get_scope(summary, ctx),
            score=round(hit.score, 6),
            match_reason="; ".join(_list_reasons(index, query, hit, text)),
            message_ids=_list_message_ids(view, hit, sees),
            said_at=clock.iso(summary.occurred_at) if summary.occurred_at is not None else None,
        )
        blocks.append(block)
    return blocks


def _get_scope(summary: ContextSummary, ctx: RequestContext) -> str:
    return scopes.best(summary.audience, summary.owner, ctx.visible) or ""


def _get_text(view: View, index: ContextIndex, query: TypedQuery, summary: ContextSummary) -> str:
    if not summary.is_part or len(summary.abstract) < texts.MAX_SHOWN_CHARS:
        return summary.abstract
    row = view.get(PARTS, summary.uri)
    if row is None or not is_live(row):
        return summary.abstract
    said = texts.format_message(row)
    if len(said) <= texts.MAX_MESSAGE_CHARS:
        return said
    words = set(index.list_matched_terms(query.text, query.text))
    # A single Chinese character matches anywhere; the longest word says most.
    whole = {word for word in words if len(word) > 1} or words
    return _cut_excerpt(said, sorted(whole, key=lambda word: (-len(word), word)))


def _list_reasons(index: ContextIndex, query: TypedQuery, hit: ScoredHit, text: str) -> Iterable[str]:
    words = index.list_matched_terms(query.text, text)
    # A bigram of Chinese says what its two characters say.
    whole = [word for word in words if not any(word != other and word in other for other in words)]
    if whole:
        yield f"words: {', '.join(whole[:_MAX_WORDS])}"
    yield from hit.reasons
    if not whole and not hit.reasons:
        yield "meaning" if "times" not in query.hints else "day"


def _cut_excerpt(said: str, words: Sequence[str]) -> str:
    """Return the beginning of a long message, or, where none of these words is there, what is around the first."""
    lower = said[: texts.MAX_MESSAGE_CHARS].lower()
    if any(word in lower for word in words):
        return said[: texts.MAX_MESSAGE_CHARS]
    # Lower case may be longer; that is a few characters in a whole message.
    lower = said[:_LOOKED_THROUGH_CHARS].lower()
    match_at = next((at for at in (lower.find(word) for word in words) if at >= 0), 0)
    start = min(max(0, match_at - _CHARS_BEFORE_MATCH), len(said) - texts.MAX_MESSAGE_CHARS)
    return f"…{said[start + 1 : start + texts.MAX_MESSAGE_CHARS]}" if match_at else said[: texts.MAX_MESSAGE_CHARS]


def _list_message_ids(view: View, hit: ScoredHit, sees: Sees) -> list[str]:
    """Name the messages of a turn, or those that an extracted memory comes from as far as they are seen, best first."""
    ranks = {address: rank for rank, address in enumerate(hit.folded)}
    named = (
        (hit.summary.uri, *hit.folded)
        if hit.summary.is_part
        else sorted(filter(sees, hit.summary.sources), key=lambda source: ranks.get(source, len(ranks)))
    )
    parts = (find_memory(view, address) for address in named[:_MAX_MESSAGE_IDS])
    return [get_message_id(part) for part in parts if part is not None and part.live]


MAX_READ: Final = 100
"""So many memories are read in one request."""
_EXCERPT_CHARS: Final = 500


def read_layer(
    view: View,
    ctx: RequestContext,
    address: str,
    level: Level = Level.L1,
    *,
    expand_relations: bool = False,
    max_relations: int = 0,
) -> RetrievedBlock:
    """Return a layer of a node, and with L1 and L2 those above it.

    With `expand_relations` its edges come along, at most `max_relations`, where 0 is no bound.
    Raises InvalidInput for what is no URI, and NotFound.
    """
    summary = edits.get_visible_summary(view, ctx, address)
    node = read_node(view, ctx, summary) if level is Level.L2 else _make_node(view, ctx, summary)
    edges = _list_visible_edges(view, ctx, node.relations)[: max_relations or None] if expand_relations else []
    message_ids = [get_message_id(summary)] if summary.is_part else list(map(str, node.metadata.get("message_ids", ())))
    return RetrievedBlock(
        uri=summary.uri,
        category=summary.category.value,
        level_hit=level.name,
        abstract=node.abstract,
        scope=_get_scope(summary, ctx),
        overview=node.overview if level >= Level.L1 else None,
        content_excerpt=node.content[:_EXCERPT_CHARS] if level is Level.L2 else None,
        content=node.content if level is Level.L2 else None,
        relations=edges,
        message_ids=message_ids,
        said_at=clock.iso(summary.occurred_at) if summary.occurred_at is not None else None,
    )


def read_node(view: View, ctx: RequestContext, summary: ContextSummary) -> ContextNode:
    """Return a node with all of its layers; the content of a session is its transcript. Raises NotFound."""
    node = _make_node(view, ctx, summary)
    if summary.is_part or summary.category is not MemoryCategory.SESSIONS:
        return node
    rows = (view.get(PARTS, part.uri) for part in list_parts(view, summary.uri))
    return replace(
        node, content=format_transcript(row for row in rows if row is not None and is_live(row) and not is_erased(row))
    )


def _make_node(view: View, ctx: RequestContext, summary: ContextSummary) -> ContextNode:
    return edits.make_node(summary, edits.get_redacted_row(view, ctx, summary))


def _list_visible_edges(view: View, ctx: RequestContext, edges: Sequence[RelationEdge]) -> list[RelationEdge]:
    """Return the edges that lead to what the caller sees, the strongest first."""
    seen = (edge for edge in edges if find_visible(view, ctx, edge.to_uri) is not None)
    return sorted(seen, key=lambda edge: -edge.weight)
