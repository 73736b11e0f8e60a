"""Which row an id stands for: a record's own, or that of the record which it was merged into."""

from knowhub.core.errors import Conflict, NotFound, VersionConflict
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import COLLECTION, Head
from knowhub.knowledge.ports import KnowledgeView

_MOST_HOPS = 1_000


def readable_head(view: KnowledgeView, ctx: RequestContext, knowledge_id: str) -> Head:
    """Return the head of a record that stands and that the caller sees. Raises NotFound, the same for both."""
    head = view.head(knowledge_id)
    if head is None or not head.is_readable or not ctx.sees(head.audience):
        raise NotFound.of("knowledge", knowledge_id)
    return head


def readable_row(view: KnowledgeView, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    """Return the row of a record that the caller sees, as it stands. Raises NotFound, VersionConflict."""
    head = readable_head(view, ctx, knowledge_id)
    if expected is not None and expected != head.version:
        raise VersionConflict(head.version)
    row = view.get(COLLECTION, knowledge_id)
    if row is None:
        raise NotFound.of("knowledge", knowledge_id)
    return row


def standing_head(view: KnowledgeView, knowledge_id: str) -> Head | None:
    """Return the head of a record, or of the one that it was merged into in the end; None where none stands."""
    head = view.head(knowledge_id)
    for _ in range(_MOST_HOPS):
        if head is None or head.merged_into is None:
            return head if head is not None and head.live else None
        head = view.head(head.merged_into)
    # Only what nobody's merge wrote, such as two rows that name each other, has no end.
    return None


def standing_row(view: KnowledgeView, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    """Return the row of a record, or of the one that it was merged into. Raises NotFound, VersionConflict.

    `expected` is the version of the record that was named.
    """
    named = readable_row(view, ctx, knowledge_id, expected)
    if named.get("merged_into") is None:
        return named
    head = standing_head(view, knowledge_id)
    if head is None:
        raise NotFound.of("knowledge", knowledge_id)
    return readable_row(view, ctx, head.id, None)


def check_not_merged(row: Row) -> None:
    """Raise Conflict for a record that was merged into another: what is changed there, nobody finds."""
    into = row.get("merged_into")
    if into is not None:
        raise Conflict(f"this record was merged into {into!r}; change that one", {"merged_into": into})
