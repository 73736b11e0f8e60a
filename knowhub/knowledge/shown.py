"""Records as answers show them: as they stand, less the ids of other records that the caller does not see."""

import json

from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.knowledge.model import COLLECTION, Head
from knowhub.knowledge.ports import KnowledgeView

_NAMES = ("supersedes", "merged_into")


def shown_json(view: KnowledgeView, ctx: RequestContext, head: Head) -> bytes:
    """Return a record as JSON text. Nearly always that is its row as it lies in memory, which is not parsed."""
    raw = view.raw(COLLECTION, head.id) or b""
    named = (head.supersedes, head.merged_into)
    if ctx.unrestricted or all(_may_be_named(view, ctx, one) for one in named):
        return raw
    shown = shown_row(view, ctx, json.loads(raw))
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def shown_row(view: KnowledgeView, ctx: RequestContext, row: Row) -> Row:
    """Return a row with null in the place of the id of a record that the caller does not see."""
    if ctx.unrestricted:
        return row
    hidden = {name: None for name in _NAMES if not _may_be_named(view, ctx, row.get(name))}
    return {**row, **hidden} if hidden else row


def _may_be_named(view: KnowledgeView, ctx: RequestContext, knowledge_id: str | None) -> bool:
    if knowledge_id is None:
        return True
    head = view.head(knowledge_id)
    # What was never there tells nothing: an import may bring a record before the one that it replaces.
    return head is None or ctx.sees(head.audience)
