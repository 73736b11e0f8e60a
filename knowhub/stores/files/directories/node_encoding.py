"""Between a node and its five files: one encoding, whoever writes them (CE-056, CE-059)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from knowhub.context.model import ContextNode, RelationEdge
from knowhub.core.operation import Row
from knowhub.stores.files.directories.node_files import ABSTRACT, CONTENT, OVERVIEW, RELATIONS, NodeContent

_BEGINNING = (-1, "")


@dataclass(frozen=True, slots=True)
class Standing:
    """What the directory of a node stands for: `revision` grows with each change of it, its messages' too.

    Of a session it also tells how its transcript came to be: `versions` is the sum of the versions of its messages,
    deleted ones too, and `last` the number and the URI of the last message in it.
    """

    revision: int
    versions: int = 0
    last: tuple[int, str] = _BEGINNING

    @classmethod
    def noted(cls, note: Mapping[str, Any]) -> "Standing":
        """Read it from `.meta.json`; what is not there stands for nothing."""
        match note:
            case {
                "revision": int() as revision,
                "messages": {"versions": int() as versions, "last": [int() as n, str() as u]},
            }:
                return cls(revision, versions, (n, u))
            case {"revision": int() as revision}:
                return cls(revision)
        return cls(-1)


NOTHING: Final = Standing(0)


def encoded(node: ContextNode, standing: Standing, content: bytes | None = None) -> NodeContent:
    """Return the files of a node; `content` stands in for the node's own where it is bytes already."""
    meta: dict[str, Any] = {
        "uri": node.uri,
        "parent_uri": node.parent_uri,
        "context_type": node.context_type,
        "category": node.category,
        "owner_space": node.owner_space,
        "version": node.version,
        "created_at": node.created_at,
        "updated_at": node.updated_at,
        "metadata": node.metadata,
        "revision": standing.revision,
    }
    if standing.last != _BEGINNING:
        meta["messages"] = {"versions": standing.versions, "last": standing.last}
    texts = {
        ABSTRACT: node.abstract.encode(),
        OVERVIEW: node.overview.encode(),
        CONTENT: node.content.encode() if content is None else content,
        RELATIONS: encoded_edges(node.relations),
    }
    return NodeContent(texts, meta)


def decoded(meta: Mapping[str, Any], texts: Mapping[str, bytes]) -> ContextNode:
    """Return a node from its files; a text that was not read is empty."""
    return ContextNode(
        uri=str(meta["uri"]),
        parent_uri=str(meta["parent_uri"]),
        context_type=str(meta["context_type"]),
        category=str(meta["category"]),
        owner_space=str(meta["owner_space"]),
        abstract=texts.get(ABSTRACT, b"").decode(),
        overview=texts.get(OVERVIEW, b"").decode(),
        content=texts.get(CONTENT, b"").decode(),
        metadata=meta["metadata"],
        relations=decoded_edges(str(meta["uri"]), texts.get(RELATIONS, b"[]")),
        version=int(meta["version"]),
        created_at=str(meta["created_at"]),
        updated_at=str(meta["updated_at"]),
    )


def node_of(row: Row) -> ContextNode:
    """Return the node of a row."""
    uri = str(row["id"])
    names = ("parent_uri", "context_type", "category", "owner_space", "abstract", "overview", "content")
    texts = {name: str(row[name]) for name in names}
    edges = [_edge(uri, one) for one in row["relations"]]
    return ContextNode(
        uri=uri,
        **texts,
        metadata=row["metadata"],
        relations=edges,
        version=int(row["version"]),
        created_at=str(row["created_at"]),
        updated_at=str(row["updated_at"]),
    )


def encoded_edges(edges: Sequence[RelationEdge]) -> bytes:
    """Write `.relations.json`: a list of edges, each from this node."""
    rows = [
        {"to_uri": one.to_uri, "relation_type": one.relation_type, "reason": one.reason, "weight": one.weight}
        for one in edges
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2) + b"\n"


def decoded_edges(uri: str, text: bytes) -> list[RelationEdge]:
    """Read `.relations.json` of a node."""
    return [_edge(uri, one) for one in orjson.loads(text)]


def _edge(uri: str, row: Mapping[str, Any]) -> RelationEdge:
    return RelationEdge(uri, row["to_uri"], row["relation_type"], row.get("reason", ""), row.get("weight", 1.0))
