"""The edges between memories in memory: a replica for whoever wants to walk them (CE-170, CE-171)."""

from collections.abc import Sequence

from knowhub.context.model import RelationEdge

_Key = tuple[str, str, str]


class InProcessGraph:
    """Implements `GraphStore`. It begins empty in every process: its edges are those of the nodes in the log."""

    def __init__(self) -> None:
        self._touching: dict[str, dict[_Key, RelationEdge]] = {}

    async def upsert_edges(self, edges: Sequence[RelationEdge]) -> None:
        """Take in edges; one of the same ends and type takes the place of what stood there."""
        for edge in edges:
            for end in (edge.from_uri, edge.to_uri):
                self._touching.setdefault(end, {})[_key(edge)] = edge

    async def remove_node(self, uri: str) -> None:
        """Forget every edge from or to a node."""
        for key, edge in self._touching.pop(uri, {}).items():
            other = edge.to_uri if edge.from_uri == uri else edge.from_uri
            left = self._touching.get(other, {})
            left.pop(key, None)
            if not left:
                self._touching.pop(other, None)

    async def neighbors(
        self, uri: str, relation_types: Sequence[str] | None = None, depth: int = 1
    ) -> Sequence[RelationEdge]:
        """Return the edges within `depth` steps of a node, nearest first, each once."""
        found: dict[_Key, RelationEdge] = {}
        reached, last = {uri}, {uri}
        for _ in range(depth):
            reaching = {
                key: edge
                for one in sorted(last)
                for key, edge in self._touching.get(one, {}).items()
                if relation_types is None or edge.relation_type in relation_types
            }
            found |= {key: edge for key, edge in reaching.items() if key not in found}
            last = {end for edge in reaching.values() for end in (edge.from_uri, edge.to_uri)} - reached
            reached |= last
        return list(found.values())


def _key(edge: RelationEdge) -> _Key:
    return edge.from_uri, edge.relation_type, edge.to_uri
