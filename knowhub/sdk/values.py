"""The values of a keyword tree. They are copies; times are float seconds since the epoch."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import orjson

from knowhub.core import clock
from knowhub.keywords.model import KeywordSearchResult, RelationType, SearchStatus


@dataclass(slots=True)
class KeywordNode:
    """A keyword. Changing this copy changes nothing in the tree."""

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
    """A piece of information."""

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
    """The link of an info to a keyword."""

    info_id: str
    keyword_id: str
    relation: RelationType
    created_by: str
    created_at: float
    deleted: bool = False


@dataclass(slots=True)
class SearchResult:
    """The result of a search."""

    status: SearchStatus
    node: KeywordNode | None = None
    path: list[KeywordNode] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    candidates: list[KeywordNode] = field(default_factory=list)
    suggested_parent_id: str | None = None
    suggested_name: str | None = None
    reason: str = ""


ValueT = TypeVar("ValueT", KeywordNode, Info, InfoKeywordLink)
ListChildren = Callable[[str], Sequence[str]]
"""Returns the ids of the children of a keyword."""


def make_node(row: Mapping[str, Any] | bytes, list_children: ListChildren | None = None) -> KeywordNode:
    """Make a node of a row. `list_children` returns the children if the row does not have them."""
    row = _parse(row)
    children = row["children"] if list_children is None else list_children(row["id"])
    return _make(KeywordNode, {**row, "children": list(children)})


def make_info(row: Mapping[str, Any] | bytes) -> Info:
    """Make an info of a row."""
    return _make(Info, _parse(row))


def make_link(row: Mapping[str, Any]) -> InfoKeywordLink:
    """Make a link of a row."""
    return _make(InfoKeywordLink, {**row, "relation": RelationType(row["relation"])})


def make_result(found: KeywordSearchResult, list_children: ListChildren) -> SearchResult:
    """Make a result of a search, whose rows have no children."""
    return SearchResult(
        status=found.status,
        node=None if found.node is None else make_node(found.node, list_children),
        path=[make_node(row, list_children) for row in found.path],
        infos=[make_info(row) for row in found.infos],
        candidates=[make_node(row, list_children) for row in found.candidates],
        suggested_parent_id=found.suggested_parent_id,
        suggested_name=found.suggested_name,
        reason=found.reason,
    )


def _make(kind: type[ValueT], row: Mapping[str, Any]) -> ValueT:
    """Make a value of the fields of a row that it has. Its lists and objects are copies."""
    values = {item.name: deepcopy(row[item.name]) for item in fields(kind) if item.name in row}
    times = {name: clock.parse_iso(values[name]) for name in ("created_at", "updated_at") if name in values}
    return kind(**values | times)


def _parse(row: Mapping[str, Any] | bytes) -> Mapping[str, Any]:
    if not isinstance(row, bytes):
        return row
    parsed: Mapping[str, Any] = orjson.loads(row)
    return parsed
