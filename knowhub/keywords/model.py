"""What the keyword tree is made of: keywords, infos, links, and what a search answers (seed 000 §3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

KEYWORDS = "keywords"
INFOS = "infos"
LINKS = "links"
ROOT_ID = "root"
PAGE_SIZE = 50


class RelationType(StrEnum):
    """How an info belongs to a keyword (KT-038); the order is that of `sort=relevance` (C-36)."""

    PRIMARY = "PRIMARY"
    EXAMPLE = "EXAMPLE"
    SOURCE = "SOURCE"
    RELATED = "RELATED"


class SearchStatus(StrEnum):
    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    NOT_FOUND = "not_found"


class InfoPolicy(StrEnum):
    """What becomes of the infos of a deleted keyword (KT-232)."""

    REATTACH = "reattach"
    FORBID = "forbid"
    DETACH = "detach"


class InfoSort(StrEnum):
    TIME = "time"
    RELEVANCE = "relevance"


@dataclass(frozen=True, slots=True)
class Node:
    """A keyword as memory holds it, without description and metadata; a deleted one is not `live`.

    `ordinal` counts keywords in the order of their creation. `tokens` are the keys of exact lookup, `pinyin` those
    that are asked only where tokens miss, `terms` the words by which it is offered as a candidate.
    """

    id: str
    ordinal: int
    name: str
    tokens: tuple[str, ...]
    pinyin: tuple[str, ...]
    terms: tuple[str, ...]
    parent_id: str | None
    is_described: bool
    owner: str
    scopes: tuple[str, ...]
    audience: frozenset[str]
    version: int
    live: bool


@dataclass(frozen=True, slots=True)
class InfoHead:
    """An info without its content; `ordinal` counts infos in the order of their creation."""

    id: str
    ordinal: int
    owner: str
    audience: frozenset[str]
    live: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A live link. Its row's id is `link_id(info_id, keyword_id)`."""

    info_id: str
    keyword_id: str
    relation: RelationType


def link_id(info_id: str, keyword_id: str) -> str:
    """Return the id of the row that links these two: a pair has one link at most (G-05)."""
    return f"{info_id}:{keyword_id}"


@dataclass(frozen=True, slots=True)
class NewKeyword:
    """A keyword to be created. In a batch `ref` names it, and `parent_ref` is the `ref` of an earlier one."""

    name: str
    parent_id: str | None = None
    aliases: Sequence[str] = ()
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scopes: Sequence[str] | None = None
    owner: str | None = None
    ref: str | None = None
    parent_ref: str | None = None


@dataclass(frozen=True, slots=True)
class NewInfo:
    """An info to be created, linked to `keyword_ids` as PRIMARY, to others by `links`; `auto_link` looks for more."""

    content: str
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    keyword_ids: Sequence[str] = ()
    links: Sequence[tuple[str, RelationType]] = ()
    scopes: Sequence[str] | None = None
    owner: str | None = None
    auto_link: bool = False
    created_by: str = "user"


@dataclass(frozen=True, slots=True)
class Linking:
    """How an info shall belong to a keyword, who says so, and the version of their link that was read."""

    relation: RelationType = RelationType.PRIMARY
    created_by: str = "user"
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class InfoQuery:
    """A page of a keyword's infos; `page` counts from 0, `size` is how many a page holds."""

    relation: RelationType | None = None
    page: int = 0
    size: int = PAGE_SIZE
    sort: InfoSort = InfoSort.TIME


@dataclass(frozen=True, slots=True)
class Options:
    """The limits of the tree's searches and the switches of its policies (seed 000 §7; C-20…C-30)."""

    max_candidates: int = 50
    max_rounds: int = 6
    recent_capacity: int = 128
    descent_budget_s: float = 15.0
    write_budget_s: float = 30.0
    describe_candidates: bool = False
    uncategorized_name: str | None = None
    auto_link_creates: bool = False


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row as answers show it, as JSON text, with its version."""

    json: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search (KT-048), its rows as JSON text.

    `reason` says how it came to be: `exact`, `pinyin`, `exact_miss_llm_disabled`, `exact_miss_no_llm`, a reason of the
    model, or the name of its failure. `degraded` is `["llm"]` when the model was needed and failed.
    """

    status: SearchStatus
    node: bytes | None = None
    path: Sequence[bytes] = ()
    infos: Sequence[bytes] = ()
    candidates: Sequence[bytes] = ()
    suggested_parent_id: str | None = None
    suggested_name: str | None = None
    reason: str = ""
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The answer of a write: the row as answers show it, and the operation, None when nothing changed.

    `decided` tells what a model decided on the way, such as `{"dedup": "alias_of"}`.
    """

    row: Mapping[str, Any]
    operation_id: str | None
    degraded: Sequence[str] = ()
    decided: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    rows: Sequence[Mapping[str, Any]]
    operation_id: str | None
    degraded: Sequence[str] = ()
