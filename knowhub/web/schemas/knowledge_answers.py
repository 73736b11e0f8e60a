"""Answers on knowledge records."""

from typing import Any

from pydantic import Field

from knowhub.web.schemas.parts import Answer, DroppedAnswer, OperationAnswer, OwnedRowAnswer, Page, WarningsAnswer


class SourceAnswer(Answer):
    name: str | None
    category: str
    urls: list[str]
    agent_id: str | None
    submitted_by: str | None
    timestamp: str
    message_id: str | None
    trace_id: str | None


class WeightAnswer(Answer):
    helpful: float
    harmful: float


class EvaluationAnswer(Answer):
    score: int
    helpful: int
    harmful: int
    confidence: float = Field(description="How likely it is right by the votes that count; 0.5 without any.")
    effective: WeightAnswer | None = Field(
        default=None, description="In searches: the weight of the votes that count, less with repeats and with age."
    )


class WeakEvidence(Answer):
    success: int
    failure: int


class FullEvaluationAnswer(EvaluationAnswer):
    helpful_history: list[dict[str, Any]] = Field(description="The last 50. The log has all.")
    harmful_history: list[dict[str, Any]]
    votes: list[dict[str, str]] | None = Field(default=None, description="The votes that count for the ranking.")
    weak: WeakEvidence | None = Field(
        default=None, description="Runs that showed the record, and of which nobody said what helped."
    )
    kept_words: list[str] | None = Field(
        default=None, description="What `evolve_feedback` said while no model could use it; the last 20."
    )


class KnowledgeRecord(OwnedRowAnswer):
    """A record, whole."""

    id: str = Field(examples=["knowledge-20260305-a1b2"])
    message_id: str | None
    types: list[str]
    type: str
    task: str
    content: str
    tags: dict[str, str | list[str]]
    visibility: str
    resource_ids: list[str]
    source: SourceAnswer
    valid_from: str | None
    valid_to: str | None
    supersedes: str | None
    merged_into: str | None = Field(default=None, description="The record that it was merged into.")
    eval: FullEvaluationAnswer


class SimilarRecord(Answer):
    id: str
    similarity: float = Field(description="The share of common pairs of words, 0.8 to 1.")


class ReadRecord(KnowledgeRecord):
    """A record, read by its id."""

    similar: list[SimilarRecord] = Field(
        description="Up to ten live records that say nearly the same and that the caller may see."
    )


class SavedRecord(KnowledgeRecord, WarningsAnswer, OperationAnswer):
    """A record after a write; `duplicate_of` if an equal record exists."""

    duplicate_of: str | None = None
    restored: bool | None = Field(
        default=None, description="What the caller said against the equal record no longer counts."
    )
    warning: str | None = Field(
        default=None, description="Why not to rely on the equal record: others speak against it."
    )
    missing_resource_ids: list[str] | None = Field(
        default=None, description="Resources that it refers to and that do not exist, or that the caller may not see."
    )


class SavedRecords(WarningsAnswer, OperationAnswer):
    results: list[SavedRecord]
    count: int


class KnowledgeList(Page[KnowledgeRecord]):
    pass


class FoundRecord(Answer):
    id: str
    task: str
    content: str
    types: list[str]
    type: str
    tags: dict[str, str | list[str]]
    scopes: list[str]
    owner: str
    resource_ids: list[str]
    eval: EvaluationAnswer
    quality_score: float
    relevance: float = Field(description="How well it fits the question: 0 to 1, comparable between questions.")
    warning: str | None = Field(default=None, description="Why not to rely on it: the evidence speaks against it.")
    tag: str | None = Field(
        default=None, description="With `session_id` or `goal_id`: the short name by which an outcome may name it."
    )
    shown: bool | None = Field(default=None, description="With `session_id` or `goal_id`: whether it was shown before.")
    truncated: bool | None = Field(default=None, description="With `budget_tokens`: its text was cut to fit.")
    why: dict[str, Any] | None = Field(default=None, description="With `explain=true`.")


class SearchAnswer(Answer):
    results: list[FoundRecord]
    count: int
    degraded: list[str] = Field(
        description="The configured parts that were needed and failed; `index` if records were left out."
    )
    index_lag: int = Field(description="Records that were not in an index yet and were scanned, or had no vector yet.")
    routed: list[str] | None = Field(
        default=None, description="The ids that a model picked. `[]`: nothing fits. Only where a model decided."
    )
    dropped: list[DroppedAnswer] | None = Field(
        default=None,
        description="The `picks` of a model that were no candidates (`unknown`) or beyond 2·`top_k` (`too_many`).",
    )
    explanation: dict[str, Any] | None = Field(
        default=None, description="With `explain=true`: what was left out, and why."
    )
    tokens: int | None = Field(default=None, description="With `budget_tokens`: the tokens of the texts (estimated).")


class FeedbackStatus(Answer):
    knowledge_id: str
    status: str = Field(examples=["applied", "unknown", "counted_before", "not_counted"])


class BatchFeedbackAnswer(OperationAnswer):
    results: list[FeedbackStatus]
    count: int


class OutcomeStatus(FeedbackStatus):
    evidence: str = Field(examples=["helpful", "harmful", "passed_over", "weak", "none"])


class OutcomeAnswer(OperationAnswer):
    results: list[OutcomeStatus]
    count: int


class ReaderAnswer(Answer):
    scope: str = Field(examples=["team:web"])
    because: str = Field(examples=["owner", "scope"])


class CallerAccess(Answer):
    principal: str
    seen_by: str = Field(examples=["team:web"], description="The scope by which the caller sees it.")
    is_owner: bool
    rights: list[str] = Field(examples=[["read", "add_evidence"]])


class AccessAnswer(Answer):
    knowledge_id: str
    owner: str
    scopes: list[str]
    visibility: str
    readers: list[ReaderAnswer]
    caller: CallerAccess


class HistoryEntry(Answer):
    version: int
    operation_id: str
    op: str
    actor: str
    timestamp: str
    changes: dict[str, Any]


class HistoryAnswer(Page[HistoryEntry]):
    pass


class ImportAnswer(OperationAnswer):
    imported: int
    replaced: int
    skipped: int
    import_id: str | None = Field(description="Undo this to undo the whole import.")
    operation_ids: list[str]


class MergedRecords(Answer):
    """Records that became one. `task` and `content` are there where they are not those of `into` as it was."""

    into: str
    sources: list[str]
    how: str = Field(examples=["duplicate", "near_duplicate", "model"])
    similarity: float | None = Field(
        default=None, description="The smallest similarity of the sources, by common pairs of words."
    )
    task: str | None = None
    content: str | None = None


class LeftApart(Answer):
    ids: list[str]
    reason: str


class SlimAnswer(OperationAnswer):
    """What was merged into what. Undoing `slim_id` undoes all of it."""

    dry_run: bool
    records_before: int
    records_after: int
    characters_before: int
    characters_after: int
    merged: list[MergedRecords] = Field(description="The first 500; `merged_count` counts all.")
    merged_count: int
    sources_by: dict[str, int] = Field(examples=[{"duplicate": 2, "near_duplicate": 1, "model": 0}])
    skipped: list[LeftApart] = Field(description="The first 500; `skipped_count` counts all.")
    skipped_count: int
    families_asked: int = Field(description="The number of questions to a model.")
    has_more: bool = Field(description="Some records were not compared yet: run it again.")
    degraded: list[str]
    slim_id: str | None
    operation_ids: list[str]


class EvolvedRecord(SavedRecord):
    """A record after feedback; the rest is there where `evolve_feedback` was given."""

    evolved: bool | None = None
    diff: str | None = Field(default=None, description="A unified diff of the content; null where it stays.")
    degraded: list[str] | None = None
    detail: str | None = Field(default=None, description="What was changed, or why nothing was.")
