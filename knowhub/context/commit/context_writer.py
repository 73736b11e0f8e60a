"""The nodes that one decision writes: each plan changes the row of a node, over those that are stored."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import AppliedPlan, WriteAction, WritePlan, WriteResult
from knowhub.context.model import COUNTED, NODES, MemoryContext, RelationEdge
from knowhub.core import clock, scopes
from knowhub.core.operation import Row, View, Write, add_version, is_live, next_version

OWNER_SCOPE: Final = "owner_scope"
"""The field of a patch that names the owner of the space; it is no field of the row."""
MAX_EDGES: Final = 200
MAX_EDGES_OF_TOOLS: Final = 8


class ContextWriter:
    """Collects the rows of one decision, which belong to `whose` where they are new. Pure: it writes nothing."""

    def __init__(self, view: View, whose: MemoryContext) -> None:
        self.view = view
        self.whose = whose
        self._rows: dict[str, dict[str, Any]] = {}

    def get_row(self, address: str) -> Row | None:
        """Return a node's row after this decision, also a tombstone."""
        return self._rows.get(address) or self.view.get(NODES, address)

    def apply_plan(self, plan: WritePlan, sources: Sequence[str] = ()) -> AppliedPlan:
        """Carry out a plan that takes in the messages `sources`."""
        is_skipped, is_new = plan.action is WriteAction.SKIP, False
        if not is_skipped:
            is_new = self.merge_node(plan.target_uri, plan.node_patch)
            row = self._rows[plan.target_uri]
            if plan.relation_ops:
                row["relations"] = _add_edges(row, plan.relation_ops)
        version = int((self.get_row(plan.target_uri) or {}).get("version", 0))
        is_updated = not is_skipped and not is_new
        return AppliedPlan(
            plan, WriteResult(plan.target_uri, plan.action, version, is_new, is_updated, plan.reason), sources
        )

    def merge_node(self, address: str, patch: Mapping[str, Any]) -> bool:
        """Write the fields of a patch over those of a node; return whether the node is new."""
        stored = self.get_row(address)
        is_new = not is_live(stored)
        fields = {name: value for name, value in patch.items() if name != OWNER_SCOPE}
        row = self._make_row(address, str(patch.get(OWNER_SCOPE, "user"))) if is_new else dict(stored or {})
        version = next_version(self.view.get(NODES, address))
        self._rows[address] = row | fields | {"version": version, "updated_at": clock.iso(self.view.now)}
        return is_new

    def list_writes(self) -> list[Write]:
        """Return the nodes that this decision writes, in the order in which they were planned."""
        return [Write(NODES, address, row) for address, row in self._rows.items()]

    def _make_row(self, address: str, owner_scope: str) -> dict[str, Any]:
        fields = {
            "id": address,
            "parent_uri": uri.parent_of(address),
            "context_type": "",
            "category": "",
            "owner_space": uri.space_of(self.whose, owner_scope),
            "abstract": "",
            "overview": "",
            "content": "",
            "metadata": {},
            "relations": [],
            "owner": self.whose.owner,
            "scopes": [scopes.OWNER],
        }
        return add_version(fields, None, self.view.now)


def _add_edges(row: Mapping[str, Any], new: Sequence[RelationEdge]) -> list[dict[str, Any]]:
    """Return the edges of a node with new ones; an edge that is there is updated. The newest are kept."""
    edges = {(edge["to_uri"], edge["relation_type"]): dict(edge) for edge in row.get("relations", ())}
    for edge in new:
        fields = {"relation_type": edge.relation_type, "reason": edge.reason, "weight": edge.weight}
        edges[edge.to_uri, edge.relation_type] = {"to_uri": edge.to_uri, **fields}
    return list(edges.values())[-(MAX_EDGES_OF_TOOLS if row["category"] in COUNTED else MAX_EDGES) :]
