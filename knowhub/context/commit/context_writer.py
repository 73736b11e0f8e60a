"""Writes of a commit: nodes, and the relations between them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import WriteAction, WritePlan, WriteResult
from knowhub.context.model import NODES, MemoryCategory, MemoryContext, RelationEdge
from knowhub.context.uri import owner_of, space_of
from knowhub.core import clock, scopes
from knowhub.core.operation import Row, View, Write, is_live, next_version
from knowhub.core.unicode_forms import normalize

OWNER_SCOPE: Final = "owner_scope"
"""The field of a patch that names the owner of the space; it is no field of the row."""


class ContextWriter:
    """Holds the rows that one decision writes, over the stored rows. Pure: it writes nothing."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._rows: dict[str, dict[str, Any]] = {}

    def row(self, address: str) -> Row | None:
        """Return a node's row after this decision, also a tombstone."""
        return self._rows.get(address) or self._view.get(NODES, address)

    def apply_plan(self, ctx: MemoryContext, plan: WritePlan) -> WriteResult:
        """Carry out a plan."""
        if plan.action is WriteAction.SKIP:
            version = int((self.row(plan.target_uri) or {}).get("version", 0))
            return WriteResult(plan.target_uri, plan.action, version, created=False, updated=False, reason=plan.reason)
        done = self.merge_node(ctx, plan.target_uri, plan.node_patch)
        return WriteResult(done.uri, plan.action, done.node_version, done.created, done.updated, plan.reason)

    def merge_node(self, ctx: MemoryContext, address: str, patch: Mapping[str, Any]) -> WriteResult:
        """Write the fields of a patch over those of a node, which need not be there yet."""
        stored = self.row(address)
        is_new = not is_live(stored)
        before = self._view.get(NODES, address)
        fields = {name: value for name, value in patch.items() if name != OWNER_SCOPE}
        row = self._fresh(ctx, address, str(patch.get(OWNER_SCOPE, "user"))) if is_new else dict(stored or {})
        row |= fields
        row |= {"version": next_version(before), "updated_at": clock.iso(self._view.now)}
        self._rows[address] = row
        action = WriteAction.CREATE if is_new else WriteAction.MERGE
        return WriteResult(address, action, row["version"], created=is_new, updated=not is_new)

    def set_relations(self, address: str, edges: Sequence[Mapping[str, Any]]) -> None:
        """Give a node that this decision writes these edges."""
        self._rows[address]["relations"] = [dict(edge) for edge in edges]

    def writes_node(self, address: str) -> bool:
        """Return whether this decision writes a node."""
        return address in self._rows

    def writes(self) -> list[Write]:
        """Return the nodes that this decision writes, in the order in which they were planned."""
        return [Write(NODES, address, row) for address, row in self._rows.items()]

    def _fresh(self, ctx: MemoryContext, address: str, owner_scope: str) -> dict[str, Any]:
        return {
            "id": address,
            "parent_uri": uri.parent_of(address),
            "context_type": "",
            "category": "",
            "owner_space": space_of(ctx, owner_scope),
            "abstract": "",
            "overview": "",
            "content": "",
            "metadata": {},
            "relations": [],
            "owner": owner_of(ctx, owner_scope),
            "scopes": [scopes.OWNER],
            "version": 1,
            "created_at": clock.iso(self._view.now),
            "updated_at": clock.iso(self._view.now),
        }


MENTIONS: Final = "mentions"
MAX_EDGES: Final = 200
MAX_EDGES_OF_TOOLS: Final = 8
_COUNTED: Final = (MemoryCategory.SKILLS, MemoryCategory.TOOLS)
_MAX_MENTIONS: Final = 20
_NAMED_WEIGHT: Final = 0.5
_LEAST_NAME: Final = 2
_NOT_WORD: Final = re.compile(r"[\W_]+")


class RelationWriter:
    """Writes edges into the rows of one decision."""

    def __init__(self, writer: ContextWriter) -> None:
        self._writer = writer

    def apply_edges(self, ctx: MemoryContext, address: str, relation_ops: Sequence[RelationEdge]) -> None:  # noqa: ARG002 -- the port names it
        """Add edges to a node that this decision writes; an existing edge is updated, not doubled.

        A node keeps its newest 200, a tool or a skill its newest 8.
        """
        if not relation_ops or not self._writer.writes_node(address):
            return
        row = self._writer.row(address) or {}
        edges = {_identity(edge): dict(edge) for edge in row.get("relations", ())}
        for op in relation_ops:
            edge = {"to_uri": op.to_uri, "relation_type": op.relation_type, "reason": op.reason, "weight": op.weight}
            edges[_identity(edge)] = edge
        self._writer.set_relations(
            address, list(edges.values())[-(MAX_EDGES_OF_TOOLS if row["category"] in _COUNTED else MAX_EDGES) :]
        )


def list_names(entities: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return entities, URIs and names, with their names as `mentions` looks for them; too short a name is left out."""
    folded = ((target, _fold(name).strip("-")) for target, name in entities)
    return [(target, name) for target, name in folded if len(name) >= _LEAST_NAME]


def mentions(address: str, text: str, entities: Iterable[tuple[str, str]]) -> list[RelationEdge]:
    """Return edges from a memory to those of the entities, as `list_names` returns them, that it names as a word."""
    folded = _fold(text)
    # Chinese parts no words.
    met = (
        target for target, name in entities if target != address and (f"-{name}-" if name.isascii() else name) in folded
    )
    targets = list(dict.fromkeys(met))[:_MAX_MENTIONS]
    return [RelationEdge(address, target, MENTIONS, "it names it", _NAMED_WEIGHT) for target in targets]


def _fold(text: str) -> str:
    return f"-{_NOT_WORD.sub('-', normalize('NFKC', text).casefold()).strip('-')}-"


def _identity(edge: Mapping[str, Any]) -> tuple[str, str]:
    return str(edge["to_uri"]), str(edge["relation_type"])
