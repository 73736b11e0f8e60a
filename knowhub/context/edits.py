"""Checks, corrections and deletions of single memories. Pure: rows in, rows out."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.context import texts, uri
from knowhub.context.model import ContextNode, ContextSummary, ContextType, MemoryCategory, RelationEdge
from knowhub.context.queries import find_memory, find_visible, list_parts
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Row, View, Write, is_live, next_of
from knowhub.core.request_context import RequestContext
from knowhub.core.unicode_forms import shorten

LAYERS = ("abstract", "overview", "content")
EDITABLE = (*LAYERS, "tags")
FORGOTTEN = "forgotten"
"""The field, true, of a row that a person deleted: a session that is committed again does not bring it back."""

BY, BY_PERSON = "by", "person"
"""The key of a node's metadata that says who wrote its layers, and its value where a person summed a session up."""


def parse_own_uri(ctx: RequestContext, address: str, field: str = "uri") -> uri.ContextUri:
    """Read a URI of the caller's account. Raises InvalidInput, and NotFound for one of another account."""
    parsed = uri.parse(address, field)
    if parsed.account != ctx.account:
        raise NotFound.of("memory", address)
    return parsed


def get_visible_summary(view: View, ctx: RequestContext, address: str) -> ContextSummary:
    """Return the summary of the node at a URI. Raises NotFound for a missing or hidden node."""
    parsed = parse_own_uri(ctx, address)
    if not parsed.is_node and not parsed.is_part:
        # The answer must not show whether the folder holds anything.
        raise NotFound(f"no memory with id {address!r}: it is a folder, which has no text; list what stands below it")
    summary = find_visible(view, ctx, parsed.text)
    if summary is None:
        raise NotFound.of("memory", address)
    return summary


def get_live_row(view: View, summary: ContextSummary) -> Row:
    """Return the row of a summary. Raises NotFound if it is gone."""
    row = view.get(summary.collection, summary.uri)
    if row is None or row.get("deleted") or is_erased(row):
        raise NotFound.of("memory", summary.uri)
    return row


def get_redacted_row(view: View, ctx: RequestContext, summary: ContextSummary) -> Row:
    """Return a node's row without references to hidden nodes. Raises NotFound."""
    row = get_live_row(view, summary)
    return (
        row
        if summary.is_part or ctx.sees_everything
        else uri.redact_node(summary.uri, row, make_visibility_check(view, ctx))
    )


def make_visibility_check(view: View, ctx: RequestContext) -> uri.Sees:
    """Return a check of whether the caller may see the node at a URI, also a deleted one. Unused URIs are visible."""

    def sees(address: str) -> bool:
        summary = find_memory(view, address)
        return summary is None or ctx.sees(summary.audience)

    return sees


def is_row_seen(ctx: RequestContext, row: Row) -> bool:
    """Return whether a row is live and the caller sees it."""
    return is_live(row) and ctx.sees_row(row)


def get_editable_summary(view: View, ctx: RequestContext, address: str, expected: int | None) -> ContextSummary:
    """Return what the caller may change. Raises NotFound, Forbidden, and VersionConflict where `expected` is old."""
    summary = get_visible_summary(view, ctx, address)
    if not ctx.can_edit(summary.owner):
        raise Forbidden("only its owner may change or delete a memory")
    if expected is not None and expected != summary.version:
        raise VersionConflict(summary.version)
    return summary


def apply_patch(summary: ContextSummary, row: Row, patch: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """Return a node's row with the layers of `patch`, None where that changes nothing.

    Raises InvalidInput for a message, and for the content of a session: messages are deleted, never edited.
    """
    if summary.is_part:
        raise InvalidInput.of("uri", "what was said stays as it was said; a message can be deleted")
    if summary.category is MemoryCategory.SESSIONS and "content" in patch:
        raise InvalidInput.of("content", "the content of a session is its messages; each can be deleted")
    changed = {"tags": {}, **row, **{name: patch[name] for name in EDITABLE if name in patch}}
    if not changed["tags"]:
        changed.pop("tags")
    if changed == row:
        return None
    if summary.category is MemoryCategory.SESSIONS and any(name in patch for name in LAYERS):
        changed["metadata"] = {**changed["metadata"], BY: BY_PERSON}
    return next_of(changed, row, now)


def make_deletion_writes(view: View, summary: ContextSummary, now: float) -> list[Write]:
    """Return the writes that delete a node or a message; a session is deleted with its messages."""
    summaries: Sequence[ContextSummary] = [summary]
    if summary.category is MemoryCategory.SESSIONS and not summary.is_part:
        summaries = [summary, *list_parts(view, summary.uri)]
    rows = [(other.collection, get_live_row(view, other)) for other in summaries]
    return [
        Write(collection, row["id"], next_of({**row, "deleted": True, FORGOTTEN: True}, row, now))
        for collection, row in rows
    ]


def make_node(summary: ContextSummary, row: Row) -> ContextNode:
    """Return a node as it is shown with all of its layers; of a message every layer is the message, a long one cut."""
    if summary.is_part:
        said = {name: row[name] for name in ("number", "role", "name", "message_id", "timestamp")}
        overview = shorten(row["content"], texts.MAX_MESSAGE_CHARS)
        layers = {"abstract": summary.abstract, "overview": overview, "content": row["content"]}
        kind, metadata, edges = ContextType.SESSION.value, said, list[RelationEdge]()
    else:
        layers = {name: row[name] for name in LAYERS}
        kind, metadata = row["context_type"], row["metadata"]
        edges = [
            RelationEdge(row["id"], edge["to_uri"], edge["relation_type"], edge["reason"], edge["weight"])
            for edge in row["relations"]
        ]
    return ContextNode(
        uri=summary.uri,
        parent_uri=summary.parent_uri,
        context_type=kind,
        category=summary.category.value,
        owner_space=summary.owner_space,
        **layers,
        metadata=metadata,
        relations=edges,
        tags=row.get("tags", {}),
        version=summary.version,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
