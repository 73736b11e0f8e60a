"""Plans become rows: each node that a commit touches gets its next version, once (CE-067, CE-140…142)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import Action, WritePlan, WriteResult
from knowhub.context.model import NODES, MemoryContext
from knowhub.context.ports import ContextView
from knowhub.context.spaces import owner_of, space_of
from knowhub.core import clock, scopes
from knowhub.core.operation import Row, Write, is_live, next_version

OWNER_SCOPE: Final = "owner_scope"
"""The field of a patch that says in whose space the node stands; it is no field of the row."""


class ContextWriter:
    """Holds the rows that one decision writes, over those that stand. Pure: nothing is written by it."""

    def __init__(self, view: ContextView) -> None:
        self._view = view
        self._rows: dict[str, dict[str, Any]] = {}

    def row(self, address: str) -> Row | None:
        """Return a node's row as it will stand, a tombstone too."""
        return self._rows.get(address) or self._view.get(NODES, address)

    def apply_plan(self, ctx: MemoryContext, plan: WritePlan) -> WriteResult:
        """Carry out a plan (CE-140)."""
        if plan.action is Action.SKIP:
            version = int((self.row(plan.target_uri) or {}).get("version", 0))
            return WriteResult(plan.target_uri, plan.action, version, created=False, updated=False, reason=plan.reason)
        write = self.append_node if plan.action is Action.APPEND else self.merge_node
        done = write(ctx, plan.target_uri, plan.node_patch)
        return WriteResult(done.uri, plan.action, done.node_version, done.created, done.updated, plan.reason)

    def merge_node(self, ctx: MemoryContext, address: str, patch: Mapping[str, Any]) -> WriteResult:
        """Write the fields of a patch over those of a node, which need not be there yet (CE-141)."""
        standing = self.row(address)
        is_new = not is_live(standing)
        before = self._view.get(NODES, address)
        fields = {name: value for name, value in patch.items() if name != OWNER_SCOPE}
        row = self._fresh(ctx, address, str(patch.get(OWNER_SCOPE, "user"))) if is_new else dict(standing or {})
        row |= fields
        row |= {"version": next_version(before), "updated_at": clock.iso(self._view.now)}
        self._rows[address] = row
        action = Action.CREATE if is_new else Action.MERGE
        return WriteResult(address, action, row["version"], created=is_new, updated=not is_new)

    def append_node(self, ctx: MemoryContext, address: str, patch: Mapping[str, Any]) -> WriteResult:
        """Continue the content of a node; what stands of it is never written over (CE-142)."""
        standing = self.row(address)
        if standing is None or not is_live(standing):
            return self.merge_node(ctx, address, patch)
        kept = {name: standing[name] for name in ("abstract", "overview")}
        content = f"{standing['content']}{patch.get('content', '')}"
        return self.merge_node(ctx, address, {**patch, **kept, "content": content})

    def set_relations(self, address: str, edges: Sequence[Mapping[str, Any]]) -> None:
        """Give a node that this decision writes these edges."""
        self._rows[address]["relations"] = [dict(edge) for edge in edges]

    def set_layers(self, address: str, layers: Mapping[str, str]) -> None:
        """Give a node that this decision writes these layers."""
        self._rows[address] |= layers

    def writes_node(self, address: str) -> bool:
        """Tell whether this decision writes a node."""
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
