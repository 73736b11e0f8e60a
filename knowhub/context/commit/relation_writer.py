"""Edges become part of the nodes that they begin at; the same edge twice is one (CE-068, CE-143)."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.model import MemoryContext, RelationEdge

MENTIONS: Final = "mentions"
MAX_EDGES: Final = 200
_MAX_MENTIONS: Final = 20
_NAMED_WEIGHT: Final = 0.5
_LEAST_NAME: Final = 2
_NOT_WORD: Final = re.compile(r"[\W_]+")


class RelationWriter:
    """Writes edges into the rows of one decision."""

    def __init__(self, writer: ContextWriter) -> None:
        self._writer = writer

    def apply_edges(self, ctx: MemoryContext, address: str, relation_ops: Sequence[RelationEdge]) -> None:  # noqa: ARG002 -- CE-143 has it
        """Add edges to a node that this decision writes; one that is there already is renewed, and stays one.

        A node keeps its newest 200.
        """
        if not relation_ops or not self._writer.writes_node(address):
            return
        row = self._writer.row(address) or {}
        edges = {_identity(edge): dict(edge) for edge in row.get("relations", ())}
        for op in relation_ops:
            edge = {"to_uri": op.to_uri, "relation_type": op.relation_type, "reason": op.reason, "weight": op.weight}
            edges[_identity(edge)] = edge
        self._writer.set_relations(address, list(edges.values())[-MAX_EDGES:])


def named(entities: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return entities, URIs and names, with their names as `mentions` looks for them; too short a name is left out."""
    folded = ((target, _folded(name).strip("-")) for target, name in entities)
    return [(target, name) for target, name in folded if len(name) >= _LEAST_NAME]


def mentions(address: str, text: str, entities: Iterable[tuple[str, str]]) -> list[RelationEdge]:
    """Return edges from a memory to those of the entities, as `named` returns them, that it names as a word."""
    folded = _folded(text)
    # Chinese parts no words.
    met = (
        target for target, name in entities if target != address and (f"-{name}-" if name.isascii() else name) in folded
    )
    targets = list(dict.fromkeys(met))[:_MAX_MENTIONS]
    return [RelationEdge(address, target, MENTIONS, "it names it", _NAMED_WEIGHT) for target in targets]


def _folded(text: str) -> str:
    return f"-{_NOT_WORD.sub('-', unicodedata.normalize('NFKC', text).casefold()).strip('-')}-"


def _identity(edge: Mapping[str, Any]) -> tuple[str, str]:
    return str(edge["to_uri"]), str(edge["relation_type"])
