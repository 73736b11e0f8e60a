"""The values of seed 000 §3, as callers in the same process get them: times are float seconds since the epoch."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import orjson

from knowhub.core import clock
from knowhub.keywords.model import Found, RelationType, SearchStatus


@dataclass(slots=True)
class KeywordNode:
    """A keyword (KT-040); a copy, so that changing it changes nothing in the tree."""

    id: str
    name: str
    aliases: list[str]
    normalized: list[str]
    level: int
    parent_id: str | None
    children: list[str]
    description: str
    metadata: dict[str, Any]
    version: int
    created_at: float
    updated_at: float
    deleted: bool = False


@dataclass(slots=True)
class Info:
    """A piece of information (KT-046)."""

    id: str
    content: str
    source: str
    metadata: dict[str, Any]
    version: int
    created_at: float
    updated_at: float
    deleted: bool = False


@dataclass(slots=True)
class InfoKeywordLink:
    """An info's place at a keyword (KT-047)."""

    info_id: str
    keyword_id: str
    relation: RelationType
    created_by: str
    created_at: float
    deleted: bool = False


@dataclass(slots=True)
class SearchResult:
    """What a search found (KT-048)."""

    status: SearchStatus
    node: KeywordNode | None = None
    path: list[KeywordNode] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    candidates: list[KeywordNode] = field(default_factory=list)
    suggested_parent_id: str | None = None
    suggested_name: str | None = None
    reason: str = ""


ChildrenOf = Callable[[str], Sequence[str]]
"""Gives the children of a keyword by its id."""


def node_of(row: Mapping[str, Any] | bytes, children_of: ChildrenOf | None = None) -> KeywordNode:
    """Make a node of an answer's row; `children_of` is asked where the row leaves the children out."""
    row = _parsed(row)
    children = row["children"] if children_of is None else children_of(row["id"])
    return KeywordNode(
        id=row["id"],
        name=row["name"],
        aliases=list(row["aliases"]),
        normalized=list(row["normalized"]),
        level=row["level"],
        parent_id=row["parent_id"],
        children=list(children),
        description=row["description"],
        metadata=deepcopy(row["metadata"]),
        version=row["version"],
        created_at=clock.parse_iso(row["created_at"]),
        updated_at=clock.parse_iso(row["updated_at"]),
        deleted=row.get("deleted", False),
    )


def info_of(row: Mapping[str, Any] | bytes) -> Info:
    """Make an info of an answer's row."""
    row = _parsed(row)
    return Info(
        id=row["id"],
        content=row["content"],
        source=row["source"],
        metadata=deepcopy(row["metadata"]),
        version=row["version"],
        created_at=clock.parse_iso(row["created_at"]),
        updated_at=clock.parse_iso(row["updated_at"]),
        deleted=row.get("deleted", False),
    )


def link_of(row: Mapping[str, Any]) -> InfoKeywordLink:
    """Make a link of an answer's row."""
    return InfoKeywordLink(
        info_id=row["info_id"],
        keyword_id=row["keyword_id"],
        relation=RelationType(row["relation"]),
        created_by=row["created_by"],
        created_at=clock.parse_iso(row["created_at"]),
        deleted=row.get("deleted", False),
    )


def _parsed(row: Mapping[str, Any] | bytes) -> Mapping[str, Any]:
    if not isinstance(row, bytes):
        return row
    parsed: Mapping[str, Any] = orjson.loads(row)
    return parsed


def result_of(found: Found, children_of: ChildrenOf) -> SearchResult:
    """Make a result of what a search found, whose rows leave the children out."""
    return SearchResult(
        status=found.status,
        node=None if found.node is None else node_of(found.node, children_of),
        path=[node_of(row, children_of) for row in found.path],
        infos=[info_of(row) for row in found.infos],
        candidates=[node_of(row, children_of) for row in found.candidates],
        suggested_parent_id=found.suggested_parent_id,
        suggested_name=found.suggested_name,
        reason=found.reason,
    )
