"""What a knowledge record is: its values, and the head that search and lists keep in memory (seeds 003, 004)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

COLLECTION = "knowledge"
DEFAULT_SCORE = 3
HISTORY_SHOWN = 50
HISTORY_PAGE = 100
ROUTING = "routing"
RERANK = "rerank"


class KnowledgeType(StrEnum):
    """The six kinds of knowledge (seed 003, 字段说明); a record may be several."""

    USER_PROFILE = "user_profile"
    STRATEGY = "strategy"
    TOOL = "tool"
    USECASE = "usecase"
    DEFINITION = "definition"
    PLAN = "plan"


class Order(StrEnum):
    """How the chosen records are shown; `relevance` also chooses by it (C-08)."""

    AUTO = "auto"
    QUALITY = "quality"
    SCOPE = "scope"
    RELEVANCE = "relevance"


class OnConflict(StrEnum):
    """What an import does with an id that is taken."""

    FAIL = "fail"
    SKIP = "skip"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class NewKnowledge:
    """A record to be saved. None stands for «use the default»; times are normalised ISO 8601."""

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
class ImportedKnowledge:
    """A line of an import: a record that keeps its id, evidence and time of creation (KS-001, KS-058)."""

    id: str | None
    record: NewKnowledge
    evaluation: Mapping[str, Any]
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """Evidence on one record; each part is optional and they combine (KM-069…073).

    `words` say what somebody learnt, for a model to write the content anew.
    """

    helpful_case: Mapping[str, Any] | None = None
    harmful_case: Mapping[str, Any] | None = None
    score: int | None = None
    words: str | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """One line of a batch feedback (KM-076)."""

    knowledge_id: str
    is_helpful: bool
    case: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search. `as_of` in seconds since the epoch; empty `types` and `scopes` filter nothing.

    `budget_tokens` bounds how much text comes back; `session_id` and `goal_id` say for whom it is shown, and `unseen`
    leaves out what was shown there before.
    """

    text: str
    top_k: int = 5
    min_score: int = 3
    types: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    as_of: float | None = None
    order: Order = Order.AUTO
    explain: bool = False
    budget_tokens: int | None = None
    session_id: str | None = None
    goal_id: str | None = None
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A page of records, newest first. Each of `filters` is a set of facets of which one must hold.

    With `is_deleted` it is of those that were deleted, which nobody is shown, instead of those that live; with
    `is_merged` of those that were merged into others.
    """

    filters: Sequence[frozenset[str]] = ()
    limit: int = 10
    before: int | None = None
    is_deleted: bool = False
    is_merged: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """A record without its text: what filters, ranking and duplicates need.

    `ordinal` counts records in the order of their creation. `text_num` names the operation that last changed
    what is searched, so that an index entry that carries an older number is known to be stale. `live` is what search,
    lists and duplicates know: a record that was merged into another is not, and can still be read by its id. `helpful`
    and `harmful` are what votes weigh, where that is not their number.
    """

    id: str
    ordinal: int
    text_num: int
    signature: int
    live: bool
    version: int
    owner: str
    scopes: tuple[str, ...]
    audience: frozenset[str]
    types: tuple[str, ...]
    facets: frozenset[str]
    duplicate_key: bytes
    score: int
    helpful: int
    harmful: int
    valid_from: float | None
    valid_to: float | None
    supersedes: str | None
    merged_into: str | None = None

    @property
    def is_readable(self) -> bool:
        """Tell whether the record can be read by its id: it was not deleted."""
        return self.live or self.merged_into is not None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as JSON text, exactly as the log holds it, with its version."""

    json: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page of records as JSON text; `next_before` is the ordinal to go on from, None on the last page."""

    records: Sequence[bytes]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """A search's answer: `records` best first, each with `quality_score` (and `why` when asked).

    `tokens` is what their texts cost by estimate, where a budget was given.
    """

    records: Sequence[Mapping[str, Any]]
    index_lag: int
    explanation: Mapping[str, Any] | None = None
    degraded: Sequence[str] = ()
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """The answer of a save: the record, and either the operation or the duplicate that stood there."""

    record: Mapping[str, Any]
    operation_id: str | None
    duplicate_of: str | None = None


@dataclass(frozen=True, slots=True)
class SavedBatch:
    records: Sequence[Saved]
    operation_id: str | None


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """One step of a record's history; `changes` maps a field's path to what it was and became."""

    version: int
    operation_id: str
    op: str
    actor: str
    timestamp: float
    changes: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of a record's history, newest first; `next_before` is the version to go on below, None on the last."""

    entries: Sequence[VersionEntry]
    next_before: int | None
