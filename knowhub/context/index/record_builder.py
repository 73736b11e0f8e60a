"""One layer of a node, one edge, one move: each as an index holds it (CE-030, CE-039, CE-043)."""

from knowhub.context import uri
from knowhub.context.index_model import IndexRecord, MoveProjection, RelationIndexRecord
from knowhub.context.model import ContextNode, Level, RelationEdge


def context_record(node: ContextNode, level: Level, text: str) -> IndexRecord:
    """Return one layer of a node; its id is the same in every process, and another where the node has moved."""
    return IndexRecord(
        id=uri.stable_hash(node.uri, int(level)),
        uri=node.uri,
        parent_uri=node.parent_uri,
        context_type=node.context_type,
        category=node.category,
        level=int(level),
        text=text,
        filters={"category": node.category, "context_type": node.context_type, "owner_space": node.owner_space},
        metadata={"version": node.version, "updated_at": node.updated_at},
    )


def relation_record(edge: RelationEdge) -> RelationIndexRecord:
    """Return an edge; written twice it stays one."""
    return RelationIndexRecord(
        id=uri.stable_hash(edge.from_uri, edge.relation_type, edge.to_uri),
        from_uri=edge.from_uri,
        to_uri=edge.to_uri,
        relation_type=edge.relation_type,
        metadata={"reason": edge.reason, "weight": edge.weight},
    )


def move_record(from_uri: str, to_uri: str) -> MoveProjection:
    """Return what a move does to a URI and to the one above it."""
    return MoveProjection(from_uri, to_uri, uri.parent_of(from_uri), uri.parent_of(to_uri))
