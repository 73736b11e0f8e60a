"""Entries and filters of the history, and the results of undo and restore."""

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
    """An operation, with what has become of it; `undoable` where this caller may undo it, as far as rights go."""

    operation: Operation
    undone_by: str | None
    undoable: bool


@dataclass(frozen=True, slots=True)
class OperationPage:
    entries: Sequence[OperationEntry]
    next_before: int | None


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo did, or in a dry run would do. `changes_total` counts them where `changes` has only the first."""

    operation_ids: Sequence[str]
    undone: Sequence[str]
    changes: list[Change]
    dry_run: bool
    changes_total: int | None = None


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore did. `restore_id` names its operations, which are undone together; None when it wrote nothing.

    `erased` names rows of the snapshot, as collection and id, that were erased since and stay erased, the first
    thousand of them.
    """

    ts: str
    restored: int = 0
    removed: int = 0
    erased: Sequence[tuple[str, str]] = ()
    safety_snapshot: str | None = None
    restore_id: str | None = None
    operation_ids: Sequence[str] = ()
