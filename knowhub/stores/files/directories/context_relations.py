"""RelationStore: the edges of a node in its `.relations.json` (seed 002 §10.3, CE-129…132)."""

from collections.abc import Callable, Sequence

from knowhub.context.model import MemoryContext, RelationEdge
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.directories.node_encoding import decoded_edges, encoded_edges
from knowhub.stores.files.directories.node_files import RELATIONS

_Key = tuple[str, str]
_Edges = Callable[[Sequence[RelationEdge]], dict[_Key, RelationEdge]]


class RelationStore:
    """Edges from one node, known by where they lead and by their type: of each there is one."""

    def __init__(self, nodes: ContextFS) -> None:
        self._nodes = nodes

    def get_edges(self, ctx: MemoryContext, uri: str) -> list[RelationEdge]:
        """Return the edges from a node, in the order in which they came. Raises as `ContextFS` does."""
        return decoded_edges(uri, self._nodes.read_file(ctx, uri, RELATIONS))

    def upsert_edges(self, ctx: MemoryContext, uri: str, edges: Sequence[RelationEdge]) -> None:
        """Write edges; one that is there takes the new reason and weight (CE-130)."""
        self._change(ctx, uri, lambda standing: {**_by_key(standing), **_by_key(edges)})

    def append_edges(self, ctx: MemoryContext, uri: str, edges: Sequence[RelationEdge]) -> None:
        """Add edges behind those that are there, which stay as they are (CE-131)."""
        # A key keeps its first place and its last value.
        self._change(ctx, uri, lambda standing: _by_key([*standing, *edges, *standing]))

    def remove_edges(
        self,
        ctx: MemoryContext,
        uri: str,
        to_uris: Sequence[str] | None = None,
        relation_types: Sequence[str] | None = None,
    ) -> int:
        """Remove the edges to these nodes and of these types, of any where None; return how many (CE-132)."""
        removed: list[_Key] = []

        def kept(standing: Sequence[RelationEdge]) -> dict[_Key, RelationEdge]:
            edges = _by_key(standing)
            removed[:] = [
                key
                for key in edges
                if (to_uris is None or key[0] in to_uris) and (relation_types is None or key[1] in relation_types)
            ]
            return {key: edge for key, edge in edges.items() if key not in removed}

        self._change(ctx, uri, kept)
        return len(removed)

    def _change(self, ctx: MemoryContext, uri: str, edges: _Edges) -> None:
        def changed(text: bytes) -> bytes:
            return encoded_edges(list(edges(decoded_edges(uri, text)).values()))

        self._nodes.change_file(ctx, uri, RELATIONS, changed)


def _by_key(edges: Sequence[RelationEdge]) -> dict[_Key, RelationEdge]:
    return {(edge.to_uri, edge.relation_type): edge for edge in edges}
