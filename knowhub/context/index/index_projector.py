"""What of a node goes to an index: its three layers, its edges, its moves (CE-151…153)."""

from collections.abc import Sequence

from knowhub.context.index.record_builder import context_record, move_record, relation_record
from knowhub.context.index_model import IndexRecord, MoveProjection, RelationIndexRecord
from knowhub.context.model import ContextNode, Level, RelationEdge


class IndexProjector:
    """Stateless: the same node gives the same records in every process."""

    def build_context_records(self, node: ContextNode, searched: str | None = None) -> list[IndexRecord]:
        """Return the layers of a node that are not empty, L0 first.

        `searched` is what search looks at, where that is more than the abstract: a message as it was said.
        """
        layers = {
            Level.L0: node.abstract if searched is None else searched,
            Level.L1: node.overview,
            Level.L2: node.content,
        }
        return [context_record(node, level, text) for level, text in layers.items() if text]

    def build_relation_records(self, address: str, edges: Sequence[RelationEdge]) -> list[RelationIndexRecord]:
        """Return the edges that begin at a node, each once."""
        records = {record.id: record for record in map(relation_record, edges) if record.from_uri == address}
        return list(records.values())

    def build_move_records(self, from_uri: str, to_uri: str) -> MoveProjection:
        """Return the move of one node; what stands below it moves by the same prefix."""
        return move_record(from_uri, to_uri)
