"""The values of knowledge: records, queries, results, and the summary that is kept in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from knowhub.core.recall import ALL_TIME, TimeRange

KNOWLEDGE = "knowledge"
DEFAULT_SCORE = 3
HISTORY_SHOWN = 50
ROUTING = "routing"
RERANK = "rerank"


class KnowledgeType(StrEnum):
    """The six types of knowledge. A record may have several."""

    USER_PROFILE = "user_profile"
    STRATEGY = "strategy"
    TOOL = "tool"
    USECASE = "usecase"
    DEFINITION = "definition"
    PLAN = "plan"


class Order(StrEnum):
    """The order of the search results. `relevance` also selects by relevance."""

    AUTO = "auto"
    QUALITY = "quality"
    SCOPE = "scope"
    RELEVANCE = "relevance"


class OnConflict(StrEnum):
    """What an import does with an id that is already used."""

    FAIL = "fail"
    SKIP = "skip"
    REPLACE = "replace"


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class NewKnowledge:
    """A record to save. None means the default; times are normalised ISO 8601."""

    task: str = ""
    content: str = ""
    types: Sequence[str] = (KnowledgeType.STRATEGY.value,)
    tags: Mapping[str, str | list[str]] = field(default_factory=dict)
    scopes: Sequence[str] | None = None
    owner: str | None = None
    visibility: str | None = None
    resource_ids: Sequence[str] = ()
    message_id: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    score: int = DEFAULT_SCORE
    valid_from: str | None = None
    valid_to: str | None = None
    supersedes: str | None = None
    dedup: bool = True


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a stored record. `NewKnowledge` has the fields that callers send.

    `facet` names the filters of search and lists by this field; its value is then None, a text, a list of texts, or a
    mapping to texts and lists. An erase keeps the field if `is_kept`, and replaces its value by `blank` otherwise.
    Records are merged only if they have equal values where `must_match`. Search results have the field if `is_found`.
    If `is_added`, records that were written before the field existed are read as if they held `blank`.
    """

    name: str
    blank: Any = None
    facet: str | None = None
    is_kept: bool = False
    must_match: bool = False
    is_found: bool = False
    is_added: bool = False


SOURCE_FIELDS = ("name", "category", "urls", "agent_id", "submitted_by", "timestamp", "message_id", "trace_id")
_BLANK_SOURCE = dict.fromkeys(SOURCE_FIELDS) | {"category": "", "urls": [], "timestamp": ""}
_BLANK_EVALUATION = {
    "score": 0,
    "helpful": 0,
    "harmful": 0,
    "confidence": 0.0,
    "helpful_history": [],
    "harmful_history": [],
}
RECORD_FIELDS = (
    RecordField("id", is_kept=True, is_found=True),
    RecordField("message_id"),
    RecordField("types", facet="type", is_kept=True, must_match=True, is_found=True),
    RecordField("type", is_kept=True, is_found=True),
    RecordField("task", "", is_found=True),
    RecordField("content", "", is_found=True),
    RecordField("tags", {}, facet="tag", is_found=True),
    RecordField("scopes", facet="scope", is_kept=True, must_match=True, is_found=True),
    RecordField("owner", facet="owner", is_kept=True, must_match=True, is_found=True),
    RecordField("visibility", is_kept=True, must_match=True),
    RecordField("resource_ids", [], is_found=True),
    RecordField("source", _BLANK_SOURCE),
    RecordField("valid_from", must_match=True),
    RecordField("valid_to", must_match=True),
    RecordField("supersedes"),
    RecordField("eval", _BLANK_EVALUATION),
    RecordField("version", is_kept=True),
    RecordField("created_at", is_kept=True),
    RecordField("updated_at", is_kept=True),
    RecordField("deleted", is_kept=True),
    RecordField("merged_into", is_kept=True),
)
"""The fields of a record, in their order. `deleted` and `merged_into` are in deleted and merged records only."""


@dataclass(frozen=True, slots=True)
class ImportedKnowledge:
    """One line of an import: a record with its id, evidence and time of creation."""

    id: str | None
    record: NewKnowledge
    evaluation: Mapping[str, Any]
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Evidence on one record. Every part is optional.

    `words` say what somebody learnt; a model rewrites the content from them.
    """

    helpful_case: Mapping[str, Any] | None = None
    harmful_case: Mapping[str, Any] | None = None
    score: int | None = None
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote of a batch."""

    knowledge_id: str
    is_helpful: bool
    case: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search. `as_of` is in seconds since the epoch. A record must have at least one facet of each set in `filters`.

    `budget_tokens` limits the returned text. The results are logged for `session_id` and `goal_id`; `unseen` leaves out
    the results that were logged there before. `min_relevance` replaces the floor of the ranking. Without `asks_models`
    no language model and no reranker is asked. `floor` replaces KNOWHUB_RELEVANCE_FLOOR.
    """

    text: str
    top_k: int = 5
    min_score: int = 3
    filters: Sequence[frozenset[str]] = ()
    as_of: float | None = None
    order: Order = Order.AUTO
    explain: bool = False
    budget_tokens: int | None = None
    session_id: str | None = None
    goal_id: str | None = None
    unseen: bool = False
    min_relevance: float | None = None
    created: TimeRange = ALL_TIME
    asks_models: bool = True
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A page of records, newest first. A record must have at least one facet of each set in `filters`.

    With `is_deleted` it lists deleted records instead of live ones, with `is_merged` merged ones.
    """

    filters: Sequence[frozenset[str]] = ()
    limit: int = 10
    before: int | None = None
    is_deleted: bool = False
    is_merged: bool = False
    created: TimeRange = ALL_TIME


class UnattributedRuns(NamedTuple):
    """How many runs showed a record and ended so, without a word on what helped: weak evidence."""

    succeeded: int
    failed: int


NO_RUNS = UnattributedRuns(0, 0)


class WeighedVote(NamedTuple):
    """A vote that ranks a record: its kind, its weight, and when it was cast in seconds since the epoch, if known."""

    kind: str
    weight: float
    time: float | None


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class KnowledgeSummary:
    """A record without its text: what filters, ranking and the duplicate check need.

    `ordinal` counts records in the order of creation. `text_change` is the number of the change that last wrote the
    searched text; an index entry with an older number is outdated. Search, lists and the duplicate check use `live`
    records only; a merged record is not live, but can be read by its id. `votes` are the newest ones, newest first.
    With `has_pending_feedback` it has feedback in words that no model has used yet.
    """

    id: str
    ordinal: int
    text_change: int
    signature: int
    live: bool
    version: int
    owner: str
    scopes: tuple[str, ...]
    audience: frozenset[str]
    types: tuple[str, ...]
    facets: frozenset[str]
    dedup_key: bytes
    score: int
    helpful: int
    harmful: int
    created_at: float
    valid_from: float | None
    valid_to: float | None
    supersedes: str | None
    merged_into: str | None = None
    votes: tuple[WeighedVote, ...] = ()
    unattributed_runs: UnattributedRuns = NO_RUNS
    has_pending_feedback: bool = False

    @property
    def is_rewritten(self) -> bool:
        """Whether there was an earlier version."""
        return self.version > 1

    @property
    def can_read(self) -> bool:
        """Return whether the record can be read by its id: it is not deleted."""
        return self.live or self.merged_into is not None


@dataclass(frozen=True, slots=True)
class DroppedPart:
    """How many messages, candidates, picks of a model or resources were left out, and why."""

    what: str
    why: str
    count: int


@dataclass(frozen=True, slots=True)
class KnowledgeSearchResult:
    """The result of a search: `records`, best first, each with `relevance` (and with `why` on request).

    `tokens` is the estimated cost of their texts, if there was a budget. `routed` are the ids that a model picked; None
    if no model decided; `dropped` counts those of its picks that were left out.
    """

    records: Sequence[Mapping[str, Any]]
    index_lag: int
    explanation: Mapping[str, Any] | None = None
    degraded: Sequence[str] = ()
    tokens: int | None = None
    routed: Sequence[str] | None = None
    dropped: Sequence[DroppedPart] = ()
