"""What is told of an operation without its rows, what an undo would do, and what is told of a snapshot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from knowhub.core.operation import Change, Operation, Row


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
class Discretion:
    """What of the log nobody is told: `withheld` are fields of rows, by collection.

    Operations in `quiet` are notes of the hub on itself, and listed where they are asked for by name. A row of a
    collection in `leans` is a note on another, whose (collection, id) is told there: who does not see that one does not
    see the note, whatever its scopes were when it was made.
    """

    withheld: Mapping[str, frozenset[str]] = field(default_factory=dict)
    quiet: frozenset[str] = frozenset()
    leans: Mapping[str, Callable[[Row], tuple[str, str]]] = field(default_factory=dict)

    def told(self, change: Change) -> Change:
        """Return a change without the fields that are withheld."""
        hidden = self.withheld.get(change.collection)
        if hidden is None:
            return change
        before = None if change.before is None else _without(change.before, hidden)
        return replace(change, before=before, after=_without(change.after, hidden))


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
    """What an undo did, or in a dry run would do."""

    operation_ids: Sequence[str]
    undone: Sequence[str]
    changes: Sequence[Change]
    dry_run: bool


class SnapshotReason(StrEnum):
    """Why a snapshot was made: by itself, as somebody asked for it, or before another one was restored."""

    PERIODIC = "periodic"
    DEMAND = "demand"
    BEFORE_RESTORE = "before_restore"


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A snapshot in its folder. Where it does not open, `problem` says why, and what it would say is None.

    `ts` names it; `created_at` is in ISO 8601, `last_seq` the newest operation in it, `size` in bytes.
    """

    ts: str
    path: str
    size: int
    created_at: str | None = None
    last_seq: int | None = None
    reason: SnapshotReason | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Restored:
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


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did. Sizes are those of the log in bytes; `held_by_others` is what kept it from doing more."""

    operations: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    held_by_others: bool = False


def _without(row: Row, hidden: frozenset[str]) -> Row:
    return {name: value for name, value in row.items() if name not in hidden}
