"""The shapes of answers about compaction and snapshots."""

from pydantic import Field

from knowhub.web.schemas.answers import Answer
from knowhub.web.schemas.parts import OperationAnswer


class CompactAnswer(Answer):
    operations: int = Field(description="How many are forgotten.")
    rows: int = Field(description="How many stand in the new base; 0 when none was written.")
    bytes_before: int
    bytes_after: int
    held_by_others: bool = Field(description="Another process has yet to read on; more would go later.")


class SnapshotAnswer(Answer):
    ts: str = Field(examples=["20261120T154500Z"], description="Names it; a second one in the same second ends in -2.")
    path: str
    bytes: int
    created_at: str | None
    last_seq: int | None = Field(description="The newest operation in it.")
    reason: str | None = Field(examples=["periodic", "demand", "before_restore"])
    problem: str | None = Field(description="Why it does not open; null where it does.")


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
    erased: list[RowName] = Field(description="Rows of the snapshot that were erased since, and stay erased.")
    safety_snapshot: str | None = Field(description="What stood before.")
    restore_id: str | None = Field(description="Undo this to undo the restore; null when nothing was written.")
    operation_ids: list[str]
