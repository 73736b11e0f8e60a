"""The one shape of every write: who did what, when, and each row it touched before and after.

A service hands a store a decision; the store runs it on the newest state, fills in what was there before,
makes the operation durable as one record, and only then acknowledges it (`docs/explanation/durability.md`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from knowhub.core import clock

Row: TypeAlias = Mapping[str, Any]
"""A row as the log holds it: JSON values only, `version` from 1, `deleted: true` on a tombstone."""

ViewT = TypeVar("ViewT", bound="View", covariant=True)


@dataclass(frozen=True, slots=True)
class Write:
    """A row as it shall be: the complete new content under its key."""

    collection: str
    id: str
    after: Row


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that are decided, logged and undone together: this one is number `index` of `of`."""

    id: str
    index: int
    of: int


@dataclass(frozen=True, slots=True)
class Draft:
    """What a decision wants written. `reply` is what an answer needs beyond the rows, kept for retries.

    `agent_io` is what a language model was asked and said on the way, one object a call (KT-251).
    """

    op: str
    writes: Sequence[Write]
    reply: Row | None = None
    undo_of: str | None = None
    group: Group | None = None
    agent_io: Sequence[Row] | None = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A decision that writes nothing; `answer` is for the service that made it."""

    answer: Any = None


@dataclass(frozen=True, slots=True)
class Change:
    """One row of an operation: `before` is None on create; a delete's `after` says `deleted: true`."""

    collection: str
    id: str
    before: Row | None
    after: Row


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The retry key of a request, and the hash of the body that it stands for."""

    principal: str
    method: str
    path: str
    key: str
    body: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One acknowledged operation, as it stands in the log; `timestamp` in seconds since the epoch."""

    seq: int
    operation_id: str
    op: str
    account: str
    actor: str
    timestamp: float
    changes: Sequence[Change]
    reply: Row | None = None
    undo_of: str | None = None
    group: Group | None = None
    idempotency: IdempotencyKey | None = None
    agent_io: Sequence[Row] | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The operation is durable. `replayed` says that an earlier request with the same key wrote it."""

    operation: Operation
    replayed: bool = False


class View(Protocol):
    """The newest state of one account, including what stands before this decision in its batch."""

    @property
    def now(self) -> float:
        """The time of the decision, in seconds since the epoch."""

    def get(self, collection: str, row_id: str) -> Row | None:
        """Return the row as it stands, a tombstone too; None when the id was never used."""


Decide: TypeAlias = Callable[[ViewT], "Draft | Unchanged"]
Outcome: TypeAlias = Committed | Unchanged


class Commits(Protocol, Generic[ViewT]):
    """A store that makes decisions durable."""

    async def commit(
        self, account: str, actor: str, decide: Decide[ViewT], idempotency: IdempotencyKey | None = None
    ) -> Outcome:
        """Run `decide` on the newest state and make its draft durable.

        Raises whatever `decide` raises, with nothing written; InvalidInput when the idempotency key was used
        for another body; ReadOnly or StorageFull when the log cannot be written; TooLarge over 64 MiB.
        """

    async def commit_group(
        self, account: str, actor: str, decides: Sequence[Decide[ViewT]], idempotency: IdempotencyKey | None = None
    ) -> Sequence[Outcome]:
        """Run several decisions with nothing between them: all are durable, or none is."""

    async def replayed(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        """Return what a request with this key wrote, so that a retry need not be thought about again; None if none did.

        A commit answers a retry anyway: this is for what goes before one. Raises InvalidInput when the key was used
        for another body.
        """


def is_live(row: Row | None) -> bool:
    """Tell whether the row exists for a reader: made, and not deleted since."""
    return row is not None and not row.get("deleted")


def next_version(before: Row | None) -> int:
    """Return the version that the next content of a row carries; versions never fall."""
    return 1 if before is None else int(before["version"]) + 1


def next_of(changed: Row, before: Row, now: float) -> dict[str, Any]:
    """Return what a row now says as the version after `before`, changed at `now` (Unix time, in seconds)."""
    return {**changed, "version": next_version(before), "updated_at": clock.iso(now)}
