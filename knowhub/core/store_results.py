"""What a store reports of a compaction and of its snapshots, and what a restore compares."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from knowhub.core.collection import BOOKKEEPING, Key
from knowhub.core.operation import Row, is_live

_BOOKKEEPING_FIELDS = frozenset(path[0] for path in BOOKKEEPING)


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did. Sizes are those of the log in bytes; `held_by_others` is what kept it from doing more."""

    operations: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    held_by_others: bool = False


class SnapshotReason(StrEnum):
    """Why a snapshot was made: by itself, as somebody asked for it, or before another one was restored."""

    PERIODIC = "periodic"
    DEMAND = "demand"
    BEFORE_RESTORE = "before_restore"


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A snapshot in its folder. If it cannot be read, `problem` says why, and the fields of its manifest are None.

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
class SnapshotRow:
    """A row as a snapshot has it; `row` is None where it has none, or a deleted one."""

    collection: str
    id: str
    row: Row | None

    @property
    def key(self) -> Key:
        """Collection and id."""
        return self.collection, self.id


def differs(then: Row | None, now: Row | None) -> bool:
    """Return whether two versions of a row differ in more than version and time; two deleted ones do not."""
    if is_live(then) != is_live(now):
        return True
    return is_live(now) and _content(then) != _content(now)


def _content(row: Row | None) -> dict[str, Any]:
    return {name: value for name, value in (row or {}).items() if name not in _BOOKKEEPING_FIELDS}
