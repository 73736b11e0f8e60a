"""Requests and answers about health, jobs, indexes, snapshots, compaction and the audit."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from knowhub.audit.model import (
    DEFAULT_LIMIT,
    DEFAULT_STALE_DAYS,
    MAX_LIMIT,
    MAX_STALE_DAYS,
    AuditQuery,
    AuditSeverity,
    FindingKind,
)
from knowhub.web.schemas.parts import Answer, CallerIds, CommaSeparated, OperationAnswer


class WaitParams(BaseModel):
    """Whether to wait for long work, beside a body."""

    model_config = ConfigDict(extra="forbid")

    wait: bool = Field(default=True, description="With false the answer is a job id, at once.")


class LongWorkParams(WaitParams, CallerIds):
    """Whether to wait for long work."""


class CompactParams(LongWorkParams):
    """How far back operations are kept, for once."""

    undo_retention_days: float | None = Field(
        default=None,
        ge=0,
        le=36_500,
        allow_inf_nan=False,
        description="Replaces KNOWHUB_UNDO_RETENTION_DAYS for this run.",
    )


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


class EmbedderReport(Answer):
    source: str = Field(examples=["packaged", "directory", "server", "none"])
    model: str | None = Field(examples=["all-MiniLM-L6-v2-int8-8199be6f699a"])
    reads: list[str] = Field(examples=[["latin"]], description="The scripts in which searches use meaning.")
    left_to_words: dict[str, str] = Field(description="The scripts in which searches use words only, and why.")
    not_measured: list[str] = Field(description="The scripts that no text was written in yet.")
    decided_by: str | None = Field(
        examples=["measurement", "KNOWHUB_EMBEDDING_SCRIPTS"], description="What decided which scripts are read."
    )
    problems: list[str]


class ReadyAnswer(Answer):
    status: str = Field(examples=["ready", "read_only"])
    writable: bool
    reason: str | None
    degraded: list[str]
    failures: dict[str, str] = Field(examples=[{"snapshots": "[Errno 5] Input/output error"}])
    embedder: EmbedderReport | None = Field(description="The embedder in use; null unless the root key asks.")
    keeper: bool
    index_lag: int | None = Field(description="This and the fields below are null unless the root key asks.")
    extraction_lag: int | None = Field(description="Messages that the language model has not read yet; 0 without one.")
    records_lag: int | None
    maps_lag: int | None
    directories_lag: int | None
    last_seq: int | None
    damage: list[str] | None
    quarantined: list[str] | None


class VersionAnswer(Answer):
    name: str
    version: str


class CompactAnswer(Answer):
    operations: int = Field(description="The number of operations that were removed.")
    rows: int = Field(description="The number of rows in the new base segment; 0 if none was written.")
    bytes_before: int
    bytes_after: int
    held_by_others: bool = Field(description="Another process still reads older segments; a later run can free more.")


class SnapshotAnswer(Answer):
    ts: str = Field(
        examples=["20261120T154500Z"], description="Its name. A second snapshot in the same second ends in -2."
    )
    path: str
    bytes: int
    created_at: str | None
    last_seq: int | None = Field(description="The newest operation in it.")
    reason: str | None = Field(examples=["periodic", "demand", "before_restore"])
    problem: str | None = Field(description="Why it cannot be opened; null if it can.")


class SnapshotList(Answer):
    results: list[SnapshotAnswer]
    count: int


class SnapshotDeleted(Answer):
    ts: str
    deleted: bool


class RowName(Answer):
    collection: str
    id: str


class RestoreAnswer(OperationAnswer):
    ts: str
    restored: int
    removed: int
    erased: list[RowName] = Field(description="Rows of the snapshot that were erased after it, and stay erased.")
    safety_snapshot: str | None = Field(description="The snapshot of the state before the restore.")
    restore_id: str | None = Field(description="Undo this to undo the restore; null when nothing was written.")
    operation_ids: list[str]


# Written out: the description of a parameter has no components to refer to.
KindName = Annotated[FindingKind, WithJsonSchema({"type": "string", "enum": [kind.value for kind in FindingKind]})]


class AuditParams(CallerIds):
    """Which findings, and from when on a row is old."""

    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    kinds: Annotated[list[KindName], CommaSeparated] = Field(
        default_factory=list, description="Only these kinds, separated by commas; all when left out."
    )
    stale_days: int = Field(
        default=DEFAULT_STALE_DAYS, ge=1, le=MAX_STALE_DAYS, description="Days after which a record is old."
    )

    def to_query(self) -> AuditQuery:
        """Return the parsed question."""
        return AuditQuery(self.limit, frozenset(self.kinds or FindingKind), self.stale_days)


class AuditFinding(Answer):
    kind: FindingKind
    severity: AuditSeverity
    collection: str = Field(examples=["knowledge", "infos", "keywords"])
    id: str = Field(description="In a group of copies the oldest, which to keep.")
    related: list[str] = Field(description="Up to 50 related rows.")
    evidence: dict[str, Any]
    suggestion: str


class AuditAnswer(Answer):
    account: str
    records: int = Field(description="Live knowledge records that were looked at.")
    infos: int = Field(description="Live infos that were looked at.")
    junk: int = Field(description="Records and infos that are copies, near copies, copied search results, or expired.")
    junk_rate: float = Field(ge=0, le=1, description="`junk` over `records` and `infos`.")
    summary: dict[str, int] = Field(
        description="The number of findings of each kind, including those that are not shown."
    )
    findings: list[AuditFinding]
    count: int = Field(description="The number of findings that are shown.")
    truncated: bool
