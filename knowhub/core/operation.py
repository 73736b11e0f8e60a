"""The one shape of every write: who did what, when, and each row it touched before and after.

A service hands a store a decision; the store runs it on the newest state, fills in what was there before,
makes the operation durable as one record, and only then acknowledges it (`docs/explanation/durability.md`).
"""

from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from knowhub.core import clock
from knowhub.core.table_schema import Index, SummaryT, TableSchema, Totals

Row: TypeAlias = Mapping[str, Any]
"""A row as the log holds it: JSON values only, `version` from 1, `deleted: true` on a tombstone."""

ViewT = TypeVar("ViewT", bound="View", covariant=True)
DecidedViewT = TypeVar("DecidedViewT", bound="View", contravariant=True)


@dataclass(frozen=True, slots=True)
class Write:
    """A row as it shall be: the complete new content under its key."""

    collection: str
    id: str
    after: Row


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that are undone together: this one is number `index` of `of`.

    Those of one commit are all in the log, or none is. A group that grows with each commit counts in `of` those so far.
    """

    id: str
    index: int
    of: int


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class Draft:
    """What a decision wants written. `reply` is what an answer needs beyond the rows, kept for retries.

    `agent_io` is what a language model was asked and said on the way, one object a call. `note` is not written: the
    later decisions of its group may read it. The store does not check the rows of a draft that `is_checked` against
    the rules of their collections: a save or an undo has done that, and a restored row was checked when it was new.
    """

    op: str
    writes: Sequence[Write]
    reply: Row | None = None
    undo_of: str | None = None
    group: Group | None = None
    agent_io: Sequence[Row] | None = None
    note: Any = None
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A decision that writes nothing; `answer` is for the service that made it, and for the rest of its group."""

    answer: Any = None


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class Change:
    """One row of an operation: `before` is None on create; a delete's `after` says `deleted: true`."""

    collection: str
    id: str
    before: Row | None
    after: Row

    @property
    def key(self) -> tuple[str, str]:
        """The collection and the id of the row."""
        return self.collection, self.id


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The idempotency key of a request, and the hash of its body."""

    principal: str
    method: str
    path: str
    key: str
    body: str


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class Operation:
    """One acknowledged operation, as the log holds it; `timestamp` in seconds since the epoch."""

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
    """The newest state of one account, including what the decisions before this one in its batch have written.

    It knows no caller: whoever asks leaves out what the caller may not see.
    """

    @property
    def now(self) -> float:
        """The time of the decision, in seconds since the epoch."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether all that it sees is acknowledged: no decision before this one in its batch has written anything."""

    @property
    def changed_keys(self) -> Sequence[tuple[str, str]]:
        """The collection and the id of every row that it sees and that is not acknowledged."""

    @property
    def earlier_notes(self) -> Sequence[Any]:
        """What the decisions before this one in its group noted for it, in their order."""

    def get(self, collection: str, row_id: str) -> Row | None:
        """Return the row, a deleted one too; None if the id was never used."""

    def raw(self, collection: str, row_id: str) -> bytes | None:
        """Return the row as JSON text, a deleted one too; None if the id was never used."""

    def get_acknowledged(self, collection: str, row_id: str) -> Row | None:
        """Return the row as it is acknowledged, whatever was decided since."""

    def summary(self, schema: TableSchema[SummaryT], row_id: str) -> SummaryT | None:
        """Return the summary of a row, of a deleted one too; None if the id was never used."""

    def rows(self, schema: TableSchema[SummaryT]) -> Iterator[SummaryT]:
        """Yield every live row, oldest first."""

    def newest(
        self, schema: TableSchema[SummaryT], below: int | None = None, *, of_deleted: bool = False
    ) -> Iterator[SummaryT]:
        """Yield the live rows with an ordinal below `below`, newest first; deleted ones too if `of_deleted`."""

    def lookup(self, index: Index[SummaryT], key: Hashable) -> Sequence[SummaryT]:
        """Return the rows that have a key, in the order of the index."""

    def count(self, index: Index[Any], key: Hashable) -> int:
        """Return how many rows have a key; takes no longer for many."""

    def scan(self, index: Index[SummaryT], key: Hashable, at_least: Any = None) -> Iterator[SummaryT]:  # noqa: ANN401 -- any JSON
        """Yield the rows that have a key, in the order of the index, from the place `at_least` on."""

    def scan_desc(
        self,
        index: Index[SummaryT],
        keys: Iterable[Hashable],
        below: Any = None,  # noqa: ANN401 -- what the index is sorted by
    ) -> Iterator[SummaryT]:
        """Yield the rows that have any of some keys, each once, in reverse order, from before the place `below`."""

    def totals(self, totals: Totals[Any], group: Hashable) -> Mapping[Hashable, int]:
        """Return the sums of a group by their keys."""

    def referrers(self, collection: str, row_id: str) -> Sequence[tuple[str, str]]:
        """Return the collection and the id of every live row that refers to this one."""

    def undone_by(self, operation_id: str) -> str | None:
        """Return the operation that undid this one, unless that was itself undone since."""

    def plan(self) -> "Plan":
        """Return a view of the same rows into which changes can be put to see what follows from them."""


class Plan(View, Protocol):
    """A view of rows as they would be. What is put into it is seen by this view only, and is not written."""

    def put(self, collection: str, row_id: str, row: Row) -> None:
        """Store the new content of a row. Raises KeyError, TypeError or ValueError for a row of another shape."""


Decide: TypeAlias = Callable[[ViewT], "Draft | Unchanged"]
"""A decision. It is pure: a store may run it again on another state, and only the last result counts."""
RunDecision: TypeAlias = Callable[[Decide[Any], Any], "Draft | Unchanged"]
"""How a store runs a decision on a view."""
Outcome: TypeAlias = Committed | Unchanged


@dataclass(frozen=True, slots=True)
class LongDecision(Generic[DecidedViewT]):
    """A decision over many rows or long texts. A store runs it in a thread, so that others are answered meanwhile."""

    decide: Callable[[DecidedViewT], Draft | Unchanged]

    def __call__(self, view: DecidedViewT) -> Draft | Unchanged:
        """Decide."""
        return self.decide(view)


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

    async def find_replay(self, account: str, idempotency: IdempotencyKey | None) -> Committed | None:
        """Return what a request with this key wrote, so that a retry need not be thought about again; None if none did.

        A commit answers a retry anyway: this is for what goes before one. Raises InvalidInput when the key was used
        for another body.
        """


class Reads(Protocol):
    """A store that can be read."""

    async def refresh(self, account: str | None = None) -> None:
        """Apply what other processes have acknowledged in an account, or in all.

        Costs one memory read when there is nothing.
        """

    def view(self, account: str) -> View:
        """Return the acknowledged state of one account."""


class Store(Reads, Commits[View], Protocol):
    """A store that is read and written."""


class HistoryStore(Store, Protocol):
    """A store that is also asked for its operations."""

    @property
    def last_seq(self) -> int:
        """The number of the newest acknowledged operation, of any account."""

    @property
    def base_seq(self) -> int:
        """The number up to which operations are forgotten; 0 where none is."""

    def last_seq_of(self, account: str) -> int:
        """Return the number of the newest acknowledged operation of an account."""

    async def operation(self, account: str, operation_id: str) -> Operation | None:
        """Return an acknowledged operation of this account; None when there is none."""

    def operations(self, account: str, before_seq: int | None = None) -> AsyncIterator[Operation]:
        """Yield the operations of this account, newest first, below `before_seq`."""

    def undone_by(self, account: str, operation_id: str) -> str | None:
        """Return the operation that undid this one."""

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        """Return the operations of a group in their order; empty when there is none."""

    def operations_on(self, account: str, collection: str | None, row_id: str) -> AsyncIterator[Operation]:
        """Yield the operations that touched a row (of any collection when None), newest first."""


def get_operation(outcome: Outcome) -> Operation:
    """Return the operation of a decision that always writes. Raises TypeError if it wrote nothing."""
    if isinstance(outcome, Unchanged):
        # Only a store that breaks its contract comes here.
        raise TypeError("a decision that writes was answered with nothing written")
    return outcome.operation


def is_live(row: Row | None) -> bool:
    """Return whether the row exists for a reader: made, and not deleted since."""
    return row is not None and not row.get("deleted")


def next_version(before: Row | None) -> int:
    """Return the version that the next content of a row carries; versions never fall."""
    return 1 if before is None else int(before["version"]) + 1


def make_tombstone(row: Row, now: float) -> dict[str, Any]:
    """Return a row as deleted. Its content stays, so that the delete can be undone."""
    return next_of({**row, "deleted": True}, row, now)


def next_of(changed: Row, before: Row, now: float) -> dict[str, Any]:
    """Return a changed row as the version after `before`, changed at `now` (Unix time, in seconds)."""
    return {**changed, "version": next_version(before), "updated_at": clock.iso(now)}


def add_version(fields: Row, before: Row | None, now: float) -> dict[str, Any]:
    """Return a row of these fields, with its version and its times; `before` is the row that it replaces.

    The time of creation of a live row stays. If the row was deleted, it is created again. The version rises in both
    cases.
    """
    moment = clock.iso(now)
    created_at = before["created_at"] if before is not None and is_live(before) else moment
    return {**fields, "version": next_version(before), "created_at": created_at, "updated_at": moment}
