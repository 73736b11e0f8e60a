"""The shapes of answers, for the OpenAPI document. Rows are answered as the log holds them; a test compares."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from knowhub.web.schemas.parts import OperationAnswer


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


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
    helpful: int
    harmful: int


class EvaluationAnswer(Answer):
    score: int
    helpful: int
    harmful: int
    confidence: float
    effective: WeightAnswer | None = Field(
        default=None, description="What the votes weigh in `quality_score`, once a key has voted: one a principal."
    )


class FullEvaluationAnswer(EvaluationAnswer):
    helpful_history: list[dict[str, Any]] = Field(description="The last 50; the log has all.")
    harmful_history: list[dict[str, Any]]


class KnowledgeRecord(Answer):
    """A record, whole."""

    id: str = Field(examples=["knowledge-20260305-a1b2"])
    message_id: str | None
    types: list[str]
    type: str
    task: str
    content: str
    tags: dict[str, str | list[str]]
    scopes: list[str]
    owner: str
    visibility: str
    resource_ids: list[str]
    source: SourceAnswer
    valid_from: str | None
    valid_to: str | None
    supersedes: str | None
    merged_into: str | None = Field(default=None, description="The record that this one became part of, if it did.")
    eval: FullEvaluationAnswer
    version: int
    created_at: str
    updated_at: str


class SimilarRecord(Answer):
    id: str
    similarity: float = Field(description="The share of pairs of words that both have, 0.8 to 1.")


class ReadRecord(KnowledgeRecord):
    """A record, read by its id."""

    similar: list[SimilarRecord] = Field(
        description="Live records that nearly say the same, as far as the caller sees them, the first ten."
    )


class SavedRecord(KnowledgeRecord, OperationAnswer):
    """A record after a write; `duplicate_of` when it stood there already."""

    duplicate_of: str | None = None
    missing_resource_ids: list[str] | None = Field(
        default=None, description="Resources that it refers to and that are not there, or that the caller does not see."
    )


class SavedRecords(OperationAnswer):
    results: list[SavedRecord]
    count: int


class KnowledgeList(Answer):
    results: list[KnowledgeRecord]
    count: int
    next_cursor: str | None


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
    shown: bool | None = Field(default=None, description="With `session_id` or `goal_id`: it was shown there before.")
    truncated: bool | None = Field(default=None, description="With `budget_tokens`: its text was cut to fit.")
    why: dict[str, Any] | None = Field(default=None, description="With `explain=true`.")


class SearchAnswer(Answer):
    results: list[FoundRecord]
    count: int
    degraded: list[str] = Field(description="Each configured part that was needed and failed.")
    index_lag: int = Field(description="Records that were scanned instead of looked up, or had no vector yet.")
    explanation: dict[str, Any] | None = Field(
        default=None, description="With `explain=true`: what was left out, and why."
    )
    tokens: int | None = Field(default=None, description="With `budget_tokens`: what the texts cost, by estimate.")


class FeedbackStatus(Answer):
    knowledge_id: str
    status: str = Field(examples=["applied", "unknown", "counted_before"])


class BatchFeedbackAnswer(OperationAnswer):
    results: list[FeedbackStatus]
    count: int


class OutcomeAnswer(OperationAnswer):
    results: list[FeedbackStatus]
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


class HistoryAnswer(Answer):
    results: list[HistoryEntry]
    count: int
    next_cursor: str | None


class ImportAnswer(OperationAnswer):
    imported: int
    replaced: int
    skipped: int
    import_id: str | None = Field(description="Undo this to undo the whole import.")
    operation_ids: list[str]


class OperationSummary(Answer):
    operation_id: str
    seq: int
    op: str
    actor: str
    timestamp: str
    subjects: list[str]
    undo_of: str | None
    undone_by: str | None
    undoable: bool


class ChangeAnswer(Answer):
    collection: str
    id: str
    before: dict[str, Any] | None
    after: dict[str, Any]


class OperationDetail(OperationSummary):
    account: str
    group_id: str | None
    changes: list[ChangeAnswer]
    agent_io: list[dict[str, Any]] | None = Field(
        description="What a language model was asked and said on the way; shown to who made the operation."
    )


class OperationList(Answer):
    results: list[OperationSummary]
    count: int
    next_cursor: str | None


class UndoAnswer(OperationAnswer):
    operation_ids: list[str]
    undone: list[str]
    dry_run: bool
    changes: list[ChangeAnswer]


class JobAnswer(Answer):
    job_id: str
    kind: str
    status: str = Field(examples=["running", "done", "failed", "cancelled"])
    stage: str
    progress: dict[str, int]
    started_at: str
    finished_at: str | None
    result: dict[str, Any] | None
    error: str | None


class JobStarted(Answer):
    job_id: str


class ReindexAnswer(Answer):
    records: int


class HealthAnswer(Answer):
    status: str = Field(examples=["ok"])


class ReadyAnswer(Answer):
    status: str = Field(examples=["ready", "read_only"])
    writable: bool
    reason: str | None
    degraded: list[str]
    failures: dict[str, str] = Field(examples=[{"snapshots": "[Errno 5] Input/output error"}])
    keeper: bool
    index_lag: int | None = Field(description="Like all that follows null to callers without the root key.")
    records_lag: int | None
    maps_lag: int | None
    directories_lag: int | None
    last_seq: int | None
    damage: list[str] | None
    quarantined: list[str] | None


class VersionAnswer(Answer):
    name: str
    version: str
