"""Between a node and its five files: one encoding, whoever writes them (CE-056, CE-059)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from knowhub.context.model import ContextNode, RelationEdge
from knowhub.core.operation import Row
from knowhub.stores.files.directories.node_files import ABSTRACT, CONTENT, OVERVIEW, RELATIONS, NodeContent

_BEGINNING = (-1, "")
_TOLD: Final = (
    "parent_uri",
    "context_type",
    "category",
    "owner_space",
    "version",
    "created_at",
    "updated_at",
    "metadata",
)


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


def encoded(node: ContextNode, standing: Standing) -> NodeContent:
    """Return the files of a node."""
    return encoded_row({**asdict(node), "id": node.uri}, standing)


def encoded_row(row: Row, standing: Standing, content: bytes | None = None) -> NodeContent:
    """Return the files of the node of a row; `content` stands in for the row's own where it is bytes already."""
    meta: dict[str, Any] = {"uri": row["id"], **{name: row[name] for name in _TOLD}, "revision": standing.revision}
    if standing.last != _BEGINNING:
        meta["messages"] = {"versions": standing.versions, "last": standing.last}
    texts = {
        ABSTRACT: row["abstract"].encode(),
        OVERVIEW: row["overview"].encode(),
        CONTENT: row["content"].encode() if content is None else content,
        RELATIONS: _edges_text(row["relations"]),
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


def encoded_edges(edges: Sequence[RelationEdge]) -> bytes:
    """Write `.relations.json`: a list of edges, each from this node."""
    return _edges_text([asdict(one) for one in edges])


def decoded_edges(uri: str, text: bytes) -> list[RelationEdge]:
    """Read `.relations.json` of a node."""
    return [RelationEdge(uri, **_edge(one)) for one in orjson.loads(text)]


def _edges_text(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return orjson.dumps([_edge(one) for one in rows], option=orjson.OPT_INDENT_2) + b"\n"


def _edge(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "to_uri": row["to_uri"],
        "relation_type": row["relation_type"],
        "reason": row.get("reason", ""),
        "weight": row.get("weight", 1.0),
    }
