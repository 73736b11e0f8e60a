"""Memories that a person or an agent writes by hand: create, edit, move, link, unlink and forget."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.context import edits, uri
from knowhub.context.commit import memory_page, session_node
from knowhub.context.commit.context_writer import MAX_EDGES, ContextWriter
from knowhub.context.edits import FORGOTTEN, parse_own_uri
from knowhub.context.events import MOVED_FROM
from knowhub.context.model import COUNTED, NODES, ContextNode, ContextType, MemoryCategory, RelationEdge
from knowhub.context.ports import ContextDirectories
from knowhub.context.queries import find_visible, list_memories
from knowhub.context.retrieval.blocks import read_node
from knowhub.conversations.sentences import Fold
from knowhub.core import permissions
from knowhub.core.errors import Conflict, InvalidInput, NotFound
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    IdempotencyKey,
    LongDecision,
    Outcome,
    Row,
    Store,
    Unchanged,
    View,
    Write,
    get_operation,
    is_live,
    next_of,
    next_version,
)
from knowhub.core.request_context import RequestContext

_WITHOUT_STATEMENTS = (MemoryCategory.SESSIONS, *COUNTED)


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory to create in the caller's own space; `name` is how its URI ends, by default a hash of its text."""

    category: MemoryCategory
    content: str
    name: str = ""
    layers: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenNode:
    """A node after it was written; `operation_id` is None if nothing changed."""

    node: ContextNode
    operation_id: str | None


class MemoryAuthoring:
    """Each verb is one operation that can be undone. A committed session does not overwrite what is written here."""

    def __init__(self, store: Store, directories: ContextDirectories, fold: Fold) -> None:
        self._store = store
        self._directories = directories
        self._fold = fold

    async def create(self, ctx: RequestContext, new: NewMemory, key: IdempotencyKey | None = None) -> WrittenNode:
        """Create a memory. Raises InvalidInput, Forbidden for a reader, and Conflict where its URI is taken."""
        permissions.check_can_write(ctx)
        whose = uri.memory_context(ctx)
        address = _make_uri(ctx, uri.space_of(whose, "user"), new)

        def decide(view: View) -> Draft:
            _check_free(view, ctx, address)
            writer = ContextWriter(view, whose)
            kind = {"context_type": ContextType.MEMORY.value, "category": new.category.value}
            writer.merge_node(address, {**kind, **({"tags": dict(new.tags)} if new.tags else {})})
            blank = dict(writer.get_row(address) or {})
            layers = memory_page.complete_layers(new.category, blank, {"content": new.content, **new.layers})
            page = memory_page.edit_page(blank, {**blank, **layers}, view.now)
            writer.merge_node(address, {**layers, "metadata": page["metadata"]})
            return Draft("create_memory", writer.list_writes())

        return await self._commit_node(ctx, address, decide, key)

    async def move(
        self, ctx: RequestContext, address: str, to: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> WrittenNode:
        """Give a memory another URI in the same space; edges that lead to it follow.

        Raises NotFound, Forbidden, VersionConflict, Conflict where `to` is taken, and InvalidInput for a session, a
        message, or a URI of another space.
        """
        permissions.check_can_write(ctx)
        target = parse_own_uri(ctx, to, "to")

        def decide(view: View) -> Draft | Unchanged:
            summary = edits.get_editable_summary(view, ctx, address, expected)
            if MemoryCategory.SESSIONS in (summary.category, target.category):
                raise InvalidInput.of("uri", "a session and its messages keep their URIs")
            if not target.is_node or target.space != summary.owner_space:
                raise InvalidInput.of("to", f"must be the URI of a memory in {summary.owner_space}")
            if target.text == summary.uri:
                return Unchanged()
            _check_free(view, ctx, target.text)
            row = edits.get_live_row(view, summary)
            new_fields = {"id": target.text, "parent_uri": target.parent, "category": str(target.category)}
            version = next_version(view.get(NODES, target.text))
            moved = next_of({**row, **new_fields, MOVED_FROM: summary.uri}, row, view.now) | {"version": version}
            gone = next_of({**row, "deleted": True, FORGOTTEN: True}, row, view.now)
            pointing = _list_pointing(view, summary.owner_space, summary.uri)
            followed = [_replace_target(other, summary.uri, target.text, view.now) for other in pointing]
            return Draft(
                "move_memory",
                [Write(NODES, target.text, moved), Write(NODES, summary.uri, gone)]
                + [Write(NODES, str(other["id"]), other) for other in followed],
            )

        return await self._commit_node(ctx, target.text, LongDecision(decide), key)

    async def link(self, ctx: RequestContext, edge: RelationEdge, key: IdempotencyKey | None = None) -> WrittenNode:
        """Add an edge between two memories, or change the one of its type. A memory has at most 200 edges.

        Raises NotFound, Forbidden where the caller may not change the first memory, Conflict, and InvalidInput.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            row = _get_linkable_row(view, ctx, edge.from_uri)
            edits.get_visible_summary(view, ctx, edge.to_uri)
            new = {
                "to_uri": edge.to_uri,
                "relation_type": edge.relation_type,
                "reason": edge.reason,
                "weight": edge.weight,
            }
            others = [item for item in row["relations"] if not _is_edge(item, edge.to_uri, edge.relation_type)]
            if len(others) >= MAX_EDGES:
                raise Conflict(f"a memory has at most {MAX_EDGES} edges; remove one first")
            if new in row["relations"]:
                return Unchanged()
            return Draft("link_memories", [_write_relations(row, [*others, new], view.now)])

        return await self._commit_node(ctx, edge.from_uri, decide, key)

    async def unlink(
        self,
        ctx: RequestContext,
        from_uri: str,
        to_uri: str,
        relation_type: str | None = None,
        key: IdempotencyKey | None = None,
    ) -> WrittenNode:
        """Remove the edges between two memories, only those of a type where one is given. Raises as `link`."""
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            row = _get_linkable_row(view, ctx, from_uri)
            others = [item for item in row["relations"] if not _is_edge(item, to_uri, relation_type)]
            if len(others) == len(row["relations"]):
                raise NotFound(f"no edge leads from {from_uri!r} to {to_uri!r}")
            return Draft("unlink_memories", [_write_relations(row, others, view.now)])

        return await self._commit_node(ctx, from_uri, decide, key)

    async def edit(
        self,
        ctx: RequestContext,
        address: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> WrittenNode:
        """Correct layers of a memory; with its content go the layers above it, where the patch has none for them.

        Raises NotFound, Forbidden, VersionConflict, and InvalidInput for a message.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            summary = edits.get_editable_summary(view, ctx, address, expected)
            row = edits.get_live_row(view, summary)
            after: Row | None = edits.apply_patch(
                summary, row, memory_page.complete_layers(summary.category, row, patch), view.now
            )
            if after is None:
                return Unchanged()
            if summary.category not in _WITHOUT_STATEMENTS:
                after = memory_page.edit_page(row, after, view.now)
            return Draft("edit_memory", [Write(NODES, address, after)])

        return await self._commit_node(ctx, address, decide, key)

    async def delete(
        self, ctx: RequestContext, address: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Forget a memory, a message, or a session with its messages; return the operation, which can be undone.

        A session that is committed again does not bring back what was forgotten of it, and what it is said to be about
        is said anew without that. Raises as `edit`.
        """
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            summary = edits.get_editable_summary(view, ctx, address, expected)
            session = session_node.remove_message(view, summary, self._fold) if summary.is_part else []
            return Draft("delete_memory", [*session, *edits.make_deletion_writes(view, summary, view.now)])

        return get_operation(await self._commit(ctx, LongDecision(decide), key)).operation_id

    async def _commit_node(
        self, ctx: RequestContext, address: str, decide: Decide[View], key: IdempotencyKey | None
    ) -> WrittenNode:
        outcome = await self._commit(ctx, decide, key)
        operation_id = outcome.operation.operation_id if isinstance(outcome, Committed) else None
        view = self._store.view(ctx.account)
        return WrittenNode(read_node(view, ctx, edits.get_visible_summary(view, ctx, address)), operation_id)

    async def _commit(self, ctx: RequestContext, decide: Decide[View], key: IdempotencyKey | None) -> Outcome:
        """Write nodes and their directories."""
        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Committed):
            # Where a directory has to wait, the leader brings it up: the log has it already.
            await self._directories.project(ctx.account, outcome.operation)
        return outcome


def _make_uri(ctx: RequestContext, space: str, new: NewMemory) -> str:
    if not new.content.strip():
        raise InvalidInput.of("content", "must not be empty")
    try:
        return uri.node_uri(ctx.account, space, new.category, new.name or uri.hash_name(uri.make_slug(new.content)))
    except ValueError as problem:
        raise InvalidInput.of("name", str(problem)) from problem


def _check_free(view: View, ctx: RequestContext, address: str) -> None:
    if find_visible(view, ctx, address) is not None:
        raise Conflict(f"there is a memory at {address!r}; change it with PATCH, or choose another name")


def _get_linkable_row(view: View, ctx: RequestContext, address: str) -> Row:
    summary = edits.get_editable_summary(view, ctx, address, None)
    if summary.is_part:
        raise InvalidInput.of("from_uri", "a message has no edges; link the memory")
    return edits.get_live_row(view, summary)


def _is_edge(edge: Mapping[str, Any], to_uri: str, relation_type: str | None) -> bool:
    return edge["to_uri"] == to_uri and relation_type in (None, edge["relation_type"])


def _write_relations(row: Row, edges: Sequence[Mapping[str, Any]], now: float) -> Write:
    return Write(NODES, str(row["id"]), next_of({**row, "relations": list(edges)}, row, now))


def _list_pointing(view: View, space: str, address: str) -> Iterator[Row]:
    """Yield the nodes of a space that have an edge to a memory."""
    for summary in list_memories(view):
        if not summary.is_part and summary.owner_space == space and summary.uri != address:
            row = view.get(NODES, summary.uri)
            if row is not None and is_live(row) and any(edge["to_uri"] == address for edge in row["relations"]):
                yield row


def _replace_target(row: Row, old: str, new: str, now: float) -> dict[str, Any]:
    edges = [{**edge, "to_uri": new} if edge["to_uri"] == old else edge for edge in row["relations"]]
    return next_of({**row, "relations": edges}, row, now)
