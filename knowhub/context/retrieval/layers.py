"""Read one layer of a node on request. What the caller does not see is missing, in the same words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from knowhub.context import edits
from knowhub.context.model import PARTS, ContextNode, ContextSummary, Level, MemoryCategory, RelationEdge
from knowhub.context.queries import find_memory, list_parts, message_id_of
from knowhub.context.search_model import RetrievedBlock
from knowhub.context.texts import transcript
from knowhub.core import clock
from knowhub.core.erasing import is_erased
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import View, is_live
from knowhub.core.request_context import RequestContext

MAX_READ: Final = 100
"""So many memories are read in one request."""
_EXCERPT_CHARS: Final = 500


def read_layer(
    view: View,
    ctx: RequestContext,
    address: str,
    level: str | int = Level.L1,
    *,
    expand_relations: bool = False,
    max_relations: int = 0,
) -> RetrievedBlock:
    """Return a layer of a node, and with L1 and L2 those above it.

    With `expand_relations` its edges come along, at most `max_relations`, where 0 is no bound.
    Raises InvalidInput for a level that there is not and for what is no URI, and NotFound.
    """
    wanted = level_of(level)
    if max_relations < 0:
        raise InvalidInput.of("max_relations", "must not be negative; 0 is no bound")
    head = edits.get_visible_summary(view, ctx, address)
    node = read_node(view, ctx, head) if wanted is Level.L2 else _node(view, ctx, head)
    edges = _list_visible_edges(view, ctx, node.relations)[: max_relations or None] if expand_relations else []
    message_ids = [message_id_of(head)] if head.is_part else list(map(str, node.metadata.get("message_ids", ())))
    return RetrievedBlock(
        uri=head.uri,
        category=head.category.value,
        level_hit=wanted.name,
        abstract=node.abstract,
        overview=node.overview if wanted >= Level.L1 else None,
        content_excerpt=node.content[:_EXCERPT_CHARS] if wanted is Level.L2 else None,
        content=node.content if wanted is Level.L2 else None,
        relations=edges,
        message_ids=message_ids,
        said_at=clock.iso(head.said_at) if head.said_at is not None else None,
    )


def read_node(view: View, ctx: RequestContext, head: ContextSummary) -> ContextNode:
    """Return a node with all of its layers; the content of a session is its transcript. Raises NotFound."""
    node = _node(view, ctx, head)
    if head.is_part or head.category is not MemoryCategory.SESSIONS:
        return node
    rows = (view.get(PARTS, part.uri) for part in list_parts(view, head.uri))
    return replace(
        node, content=transcript(row for row in rows if row is not None and is_live(row) and not is_erased(row))
    )


def level_of(level: str | int) -> Level:
    """Read a level, `L0` or 0. Raises InvalidInput."""
    known = {name: level for level in Level for name in (level.name, str(level.value))}
    found = known.get(str(int(level) if isinstance(level, Level) else level).strip().upper())
    if found is None or isinstance(level, bool):
        raise InvalidInput.of("level", f"{str(level)[:80]!r} is none of L0, L1, L2")
    return found


def _node(view: View, ctx: RequestContext, head: ContextSummary) -> ContextNode:
    return edits.node_of(head, edits.get_redacted_row(view, ctx, head))


def _list_visible_edges(view: View, ctx: RequestContext, edges: Sequence[RelationEdge]) -> list[RelationEdge]:
    """Return the edges that lead to what the caller sees, the strongest first."""
    targets = ((edge, find_memory(view, edge.to_uri)) for edge in edges)
    seen = [edge for edge, head in targets if head is not None and head.live and ctx.sees(head.audience)]
    return sorted(seen, key=lambda edge: -edge.weight)
