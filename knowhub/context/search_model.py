"""A question as it is understood, and what was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowhub.context.model import ContextSummary, RelationEdge
from knowhub.core.recall import ALL_TIME, TimeRange


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What a result must have beside the words of the query, and whether to `explain` each.

    `time` is when it was said, or took place, else when it was last written.
    `tags` has, for each tag that is asked for, its facets. `min_relevance` is from 0 to 1.
    """

    time: TimeRange = ALL_TIME
    tags: Sequence[frozenset[str]] = ()
    min_relevance: float = 0.0
    explain: bool = False

    @property
    def is_limiting(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.tags or self.min_relevance or self.time.is_limiting)

    def accept(self, summary: ContextSummary) -> bool:
        """Return whether a memory has the tags and is of the time that is asked for."""
        moment = summary.updated_at if summary.occurred_at is None else summary.occurred_at
        return self.time.contains(moment) and not any(tag.isdisjoint(summary.facets) for tag in self.tags)


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """A query as the planner understands it; `hints` say which rules it met, `filters` are echoed."""

    text: str
    context_type: str = ""
    categories: Sequence[str] = ()
    target_uri: str | None = None
    top_k: int = 10
    filters: Mapping[str, Any] = field(default_factory=dict)
    hints: Mapping[str, Any] = field(default_factory=dict)
    limits: MemoryLimits = MemoryLimits()


@dataclass(frozen=True, slots=True)
class SeedHit:
    """What the first round found."""

    uri: str
    score: float
    relevance: float
    category: str
    owner_space: str
    abstract: str
    has_overview: bool
    has_content: bool


@dataclass(frozen=True, slots=True)
class RetrievedBlock:
    """One answer of a search, or what was read. A search leaves `overview` and `content_excerpt` None.

    `message_ids` names the message that a part is, its turn and the replies that match at least as well, or the
    messages that an extracted memory came from, best first. `content` is the whole text, of an L2 reading only.
    `scope` is the one by which the caller sees it. `score` orders the blocks of a search; `relevance`, from 0 to 1,
    compares with that of other searches and sources. A `standing` instruction or preference is shown whatever was
    asked. `why` is there if the search was to explain.
    """

    uri: str
    category: str
    level_hit: str
    abstract: str
    scope: str
    overview: str | None = None
    content_excerpt: str | None = None
    content: str | None = None
    relations: Sequence[RelationEdge] = ()
    score: float = 0.0
    relevance: float = 0.0
    match_reason: str = ""
    message_ids: Sequence[str] = ()
    said_at: str | None = None
    standing: bool = False
    why: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MemorySearchResult:
    """The answer of a search. `max_score` and `sufficient_score` measure those of `seed_hits`, as in `SearchHits`.

    `preferences` are the URIs of the preferences and instructions that are nearest to a question without filters.
    """

    query_plan: Sequence[TypedQuery]
    seed_hits: Sequence[SeedHit]
    blocks: Sequence[RetrievedBlock]
    total: int
    index_lag: int = 0
    degraded: Sequence[str] = ()
    max_score: float = 1.0
    sufficient_score: float = 1.0
    preferences: Sequence[str] = ()
