"""Rows in, rows out: reading, correcting and forgetting one memory at a time, with no store and no clock."""

from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.context import l0, seen, uri
from knowhub.context.model import NODES, PARTS, Category, ContextHead, ContextNode, ContextType, RelationEdge
from knowhub.context.ports import ContextView
from knowhub.core.erasing import is_erased
from knowhub.core.errors import Forbidden, InvalidInput, NotFound, VersionConflict
from knowhub.core.operation import Row, Write, next_of
from knowhub.core.request_context import RequestContext

EDITABLE = ("abstract", "overview", "content")
FORGOTTEN = "forgotten"
"""The field, true, of a row that a person deleted: a session that is committed again does not bring it back."""

BY, BY_PERSON = "by", "person"
"""The key of a node's metadata that says who wrote its layers, and its value where a person summed a session up."""


def checked(ctx: RequestContext, address: str, field: str = "uri") -> uri.ContextUri:
    """Read a URI of the caller's account. Raises InvalidInput, and NotFound for one of another account (CE-061)."""
    parsed = uri.parse(address, field)
    if parsed.account != ctx.account:
        raise NotFound.of("memory", address)
    return parsed


def readable_head(view: ContextView, ctx: RequestContext, address: str) -> ContextHead:
    """Return the head of what stands at a URI. Raises NotFound where nothing does, or nothing that the caller sees."""
    place = checked(ctx, address)
    if not place.is_node and not place.is_part:
        # Its words tell so much: whether something stands below it is told to nobody.
        raise NotFound(f"no memory with id {address!r}: it is a folder, which has no text; list what stands below it")
    head = view.context_head(place.text)
    if head is None or not head.live or not ctx.sees(head.audience):
        raise NotFound.of("memory", address)
    return head


def row_at(view: ContextView, head: ContextHead) -> Row:
    """Return the row behind a head. Raises NotFound where it has gone since."""
    row = view.get(collection_of(head), head.uri)
    if row is None or row.get("deleted") or is_erased(row):
        raise NotFound.of("memory", head.uri)
    return row


def told_row(view: ContextView, ctx: RequestContext, head: ContextHead) -> Row:
    """Return the row behind a head without what tells of what the caller does not see. Raises NotFound."""
    row = row_at(view, head)
    return row if head.is_part or ctx.unrestricted else seen.told(head.uri, row, seeing(view, ctx))


def seeing(view: ContextView, ctx: RequestContext) -> seen.Sees:
    """Return whether the caller sees what stands or stood at a URI; where nothing ever did nothing is hidden."""

    def sees(address: str) -> bool:
        head = view.context_head(address)
        return head is None or ctx.sees(head.audience)

    return sees


def editable_head(view: ContextView, ctx: RequestContext, address: str, expected: int | None) -> ContextHead:
    """Return what the caller may change. Raises NotFound, Forbidden, and VersionConflict where `expected` is old."""
    head = readable_head(view, ctx, address)
    if not ctx.may_edit(head.owner):
        raise Forbidden("only its owner may change or delete a memory")
    if expected is not None and expected != head.version:
        raise VersionConflict(head.version)
    return head


def patched(head: ContextHead, row: Row, patch: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """Return a node's row with the layers of `patch`, None where that changes nothing.

    Raises InvalidInput for what was said: a transcript is forgotten in part, never edited.
    """
    if head.is_part:
        raise InvalidInput.of("uri", "what was said stays as it was said; a message can be deleted")
    if head.category is Category.SESSIONS and "content" in patch:
        raise InvalidInput.of("content", "the content of a session is its messages; each can be deleted")
    changed = {**row, **{name: patch[name] for name in EDITABLE if name in patch}}
    if changed == row:
        return None
    if head.category is Category.SESSIONS:
        changed["metadata"] = {**changed["metadata"], BY: BY_PERSON}
    return next_of(changed, row, now)


def forgotten(view: ContextView, head: ContextHead, now: float) -> list[Write]:
    """Say that a node or a message shall be gone; with a session go its messages."""
    heads: Sequence[ContextHead] = [head]
    if head.category is Category.SESSIONS and not head.is_part:
        heads = [head, *view.context_parts(head.uri)]
    rows = [(collection_of(one), row_at(view, one)) for one in heads]
    return [
        Write(collection, row["id"], next_of({**row, "deleted": True, FORGOTTEN: True}, row, now))
        for collection, row in rows
    ]


def collection_of(head: ContextHead) -> str:
    """Return the collection of a head's row."""
    return PARTS if head.is_part else NODES


def node_of(head: ContextHead, row: Row) -> ContextNode:
    """Return a node as it is shown with all of its layers; of a message every layer is the message, a long one cut."""
    if head.is_part:
        said = {name: row[name] for name in ("number", "role", "name", "message_id", "timestamp")}
        overview = l0.shown(row["content"], l0.MAX_MESSAGE_CHARS)
        layers = {"abstract": head.abstract, "overview": overview, "content": row["content"]}
        kind, metadata, edges = ContextType.SESSION.value, said, []
    else:
        layers = {name: row[name] for name in EDITABLE}
        kind, metadata, edges = row["context_type"], row["metadata"], edges_of(row)
    return ContextNode(
        uri=head.uri,
        parent_uri=head.parent_uri,
        context_type=kind,
        category=head.category.value,
        owner_space=head.owner_space,
        **layers,
        metadata=metadata,
        relations=edges,
        version=head.version,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def edges_of(row: Row) -> list[RelationEdge]:
    """Return the edges that a node's row holds."""
    return [
        RelationEdge(row["id"], edge["to_uri"], edge["relation_type"], edge["reason"], edge["weight"])
        for edge in row["relations"]
    ]
