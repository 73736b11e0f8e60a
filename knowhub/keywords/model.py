"""The data types of the keyword tree: keywords, infos, links, and answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from knowhub.core.scopes import visibility_facets

KEYWORDS = "keywords"
INFOS = "infos"
LINKS = "links"
MISSED = "missed_keywords"
ROOT_ID = "root"
PAGE_SIZE = 50


class RelationType(StrEnum):
    """The relation of an info to a keyword, in the order of `sort=relevance`."""

    PRIMARY = "PRIMARY"
    EXAMPLE = "EXAMPLE"
    SOURCE = "SOURCE"
    RELATED = "RELATED"


RELATION_RANKS: Final[Mapping[str, int]] = {relation: rank for rank, relation in enumerate(RelationType)}
"""The strongest relation has rank 0. Where two links of an info become one, the stronger is kept."""


class SearchStatus(StrEnum):
    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    NOT_FOUND = "not_found"


class InfoPolicy(StrEnum):
    """What happens to the infos of a deleted keyword."""

    REATTACH = "reattach"
    FORBID = "forbid"
    DETACH = "detach"


class InfoSort(StrEnum):
    TIME = "time"
    RELEVANCE = "relevance"


class TreeFormat(StrEnum):
    """The form of a file with a keyword tree. Only JSON lines hold infos, scopes and owners."""

    JSONL = "jsonl"
    SKOS = "skos"
    OUTLINE = "outline"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Node:
    """The summary of a keyword in memory, without description and metadata; a deleted one is not `live`.

    `ordinal` counts keywords by creation. `name_keys` are the normal forms of its name and aliases, by which exact
    lookup finds it; `pinyin` are the keys of the second lookup, `terms` the words by which it becomes a candidate.
    `text_change` is the number of the change that last wrote what is searched: names, description and audience, whose
    hash is `signature`.
    """

    id: str
    ordinal: int
    name: str
    name_keys: tuple[str, ...]
    pinyin: tuple[str, ...]
    terms: tuple[str, ...]
    parent_id: str | None
    is_described: bool
    owner: str
    scopes: tuple[str, ...]
    audience: frozenset[str]
    version: int
    live: bool
    text_change: int
    signature: int

    @property
    def facets(self) -> frozenset[str]:
        """What a search filters by."""
        return make_facets(KEYWORDS, self.audience)

    @property
    def is_rewritten(self) -> bool:
        """Whether there was an earlier version."""
        return self.version > 1


@lru_cache(maxsize=65_536)
def make_facets(collection: str, audience: frozenset[str]) -> frozenset[str]:
    """Return the facets by which searches of keywords and infos filter: the collection and the visibility."""
    return frozenset({collection, *visibility_facets(audience)})


@dataclass(frozen=True, slots=True)
class Link:
    """A link of an info to a keyword."""

    info_id: str
    keyword_id: str
    relation: RelationType
    live: bool = True

    @property
    def id(self) -> str:
        """The id of its row."""
        return make_link_id(self.info_id, self.keyword_id)


def make_link_id(info_id: str, keyword_id: str) -> str:
    """Return the id of a link's row: a pair has at most one link."""
    return f"{info_id}:{keyword_id}"


@dataclass(frozen=True, slots=True)
class NewKeyword:
    """A keyword to create. In a batch `ref` names it, and `parent_ref` is the `ref` of an earlier item."""

    name: str
    parent_id: str | None = None
    aliases: Sequence[str] = ()
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scopes: Sequence[str] | None = None
    owner: str | None = None
    ref: str | None = None
    parent_ref: str | None = None
    allow_duplicate: bool = False


Dropped: TypeAlias = Counter[tuple[str, str]]
"""How many of what an import leaves out, and why."""


@dataclass(frozen=True, slots=True)
class NewInfo:
    """An info to create, linked to `keyword_ids` as PRIMARY and by `links`; `auto_link` finds more keywords.

    With `dedup`, an info of the same owner, scopes and content gets the links instead.
    """

    content: str
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    keyword_ids: Sequence[str] = ()
    links: Sequence[tuple[str, RelationType]] = ()
    scopes: Sequence[str] | None = None
    owner: str | None = None
    auto_link: bool = False
    created_by: str = "user"
    dedup: bool = False


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """The relation and the creator of a link, and the version that the caller read."""

    relation: RelationType = RelationType.PRIMARY
    created_by: str = "user"
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class InfoQuery:
    """A request for a page of a keyword's infos; `page` counts from 0. With `descendants` those below it count too."""

    relation: RelationType | None = None
    page: int = 0
    size: int = PAGE_SIZE
    sort: InfoSort = InfoSort.TIME
    descendants: bool = False


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Limits and switches of the keyword tree."""

    max_candidates: int = 50
    max_rounds: int = 6
    descent_budget_s: float = 15.0
    write_budget_s: float = 30.0
    describe_candidates: bool = True
    uncategorized_name: str | None = None
    auto_link_creates: bool = False


@dataclass(frozen=True, slots=True)
class KeywordSearchResult:
    """The answer of a search, its rows as JSON text.

    `reason` is `exact`, `id`, `path`, `pinyin`, `exact_miss_llm_disabled`, `exact_miss_no_llm`, the model's reason, or
    the name of its failure. `degraded` names what was needed and failed: `llm`, `embedder`, `index`.
    """

    status: SearchStatus
    node: bytes | None = None
    path: Sequence[bytes] = ()
    infos: Sequence[bytes] = ()
    candidates: Sequence[bytes] = ()
    candidate_ids: Sequence[str] = ()
    suggested_parent_id: str | None = None
    suggested_name: str | None = None
    reason: str = ""
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TextRows:
    """Keywords and infos found by their texts, the best first: (collection, relevance from 0 to 1, JSON text)."""

    rows: Sequence[tuple[str, float, bytes]] = ()
    index_lag: int = 0
    degraded: Sequence[str] = ()
