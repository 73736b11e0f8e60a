"""What is told of an operation without its rows, and what an undo would do."""

from collections.abc import Sequence
from dataclasses import dataclass

from knowhub.core.operation import Change, Operation


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Which operations to list: after a sequence number or a time (seconds), by kind, actor or row id."""

    after_seq: int | None = None
    after_time: float | None = None
    op: str | None = None
    actor: str | None = None
    subject: str | None = None
    before_seq: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """An operation, with what has become of it."""

    operation: Operation
    undone_by: str | None
    undoable: bool


@dataclass(frozen=True, slots=True)
class OperationPage:
    entries: Sequence[OperationEntry]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo did, or in a dry run would do."""

    operation_ids: Sequence[str]
    undone: Sequence[str]
    changes: Sequence[Change]
    dry_run: bool
