"""Rows that have an owner and scopes: their standard fields, and the verbs that they all have."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Final, Generic, Protocol, TypeGuard, TypeVar

from knowhub.core import permissions, scopes
from knowhub.core.collection import Collection, differences
from knowhub.core.errors import Forbidden, NotFound, VersionConflict
from knowhub.core.operation import (
    Change,
    Draft,
    HistoryStore,
    IdempotencyKey,
    Operation,
    Outcome,
    Reads,
    Row,
    Unchanged,
    View,
    Write,
    add_version,
    get_operation,
    is_live,
    make_tombstone,
    next_of,
)
from knowhub.core.request_context import RequestContext
from knowhub.core.table_schema import Summary, TableSchema

HISTORY_PAGE: Final = 100
SUMMARIES_A_TURN: Final = 5_000


class VisibleSummary(Summary, Protocol):
    """A summary that tells who may see the row."""

    @property
    def audience(self) -> frozenset[str]:
        """Who may see the row."""


class NumberedSummary(VisibleSummary, Protocol):
    """A summary that also tells the place of the row in the order of creation."""

    @property
    def ordinal(self) -> int:
        """How many rows are older."""


SummaryT = TypeVar("SummaryT", bound=VisibleSummary)
NumberedT = TypeVar("NumberedT", bound=NumberedSummary)


@dataclass(frozen=True, slots=True)
class OwnedSummary:
    """What memory holds of a row beside its text. `ordinal` counts rows in the order of their creation."""

    id: str
    ordinal: int
    owner: str
    audience: frozenset[str]
    live: bool


def summarize_owned(row: Row, ordinal: int, _change: int, _earlier: OwnedSummary | None) -> OwnedSummary:
    """Return the summary of a row, for its `TableSchema`."""
    owner, _, audience = scopes.intern_access(row["owner"], tuple(row["scopes"]))
    return OwnedSummary(row["id"], ordinal, owner, audience, is_live(row))


def make_owned_fields(
    ctx: RequestContext, wanted: Sequence[str] | None, owner: str | None, noun: str, now: float
) -> dict[str, Any]:
    """Return the fields that every new row has: scopes, owner, version and times; None takes the caller's.

    Raises Forbidden for scopes that the caller may not give, and for somebody else as the owner.
    """
    own_scopes = list(dict.fromkeys(ctx.default_record_scopes if wanted is None else wanted))
    permissions.check_scopes(ctx, own_scopes)
    return add_version({"scopes": own_scopes, "owner": permissions.owner_for(ctx, owner, noun)}, None, now)


@dataclass(frozen=True, slots=True)
class Scan(Generic[SummaryT]):
    """An order of the rows of a table: `rows(view, last)` yields the summaries that follow `last`, or all."""

    table: TableSchema[SummaryT]
    rows: Callable[[View, SummaryT | None], Iterator[SummaryT]]


def scan_newest(table: TableSchema[NumberedT], before: int | None) -> Scan[NumberedT]:
    """Return a scan of the rows with an ordinal below `before`, or of all, newest first."""
    return Scan(table, lambda view, last: view.newest(table, before if last is None else last.ordinal))


def check_can_edit(ctx: RequestContext, row: Row, noun: str, expected: int | None) -> None:
    """Raise Forbidden unless the caller may change a row, and VersionConflict if the caller read another version."""
    if not ctx.can_edit(row["owner"]):
        raise Forbidden(f"only the owner of this {noun} may change or delete it")
    if expected is not None and expected != row["version"]:
        raise VersionConflict(row["version"])


async def list_visible(
    store: Reads,
    ctx: RequestContext,
    scan: Scan[SummaryT],
    limit: int,
    accept: Callable[[View, SummaryT], bool] = lambda _view, _summary: True,
) -> list[SummaryT]:
    """Return the first `limit` summaries of a scan that the caller sees and that `accept` takes.

    Millions of rows may be hidden from the caller, so other requests run meanwhile. What is returned is there in the
    view that the caller of this function takes next.
    """
    found: list[SummaryT] = []
    last: SummaryT | None = None

    while True:
        view, looked = store.view(ctx.account), 0

        def passes(summary: SummaryT | None, view: View = view) -> TypeGuard[SummaryT]:
            return summary is not None and summary.live and ctx.sees(summary.audience) and accept(view, summary)

        # A row of an earlier turn may have been deleted or hidden since.
        found = [summary for summary in (view.summary(scan.table, item.id) for item in found) if passes(summary)]
        for summary in islice(scan.rows(view, last), SUMMARIES_A_TURN):
            looked, last = looked + 1, summary
            if passes(summary):
                found.append(summary)
            if len(found) == limit:
                return found
        if looked < SUMMARIES_A_TURN:
            return found
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class RowText:
    """A row as JSON text, with its version: parsing it to write it again would cost more than everything else."""

    json: bytes
    version: int


@dataclass(frozen=True, slots=True)
class RowTextPage:
    """A page of rows as JSON text. The next page begins after the ordinal `next_position`; None on the last."""

    records: Sequence[bytes]
    next_position: int | None


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class SavedRow:
    """A row after a write, as the caller may read it; `operation_id` is None if nothing changed.

    `duplicate_of` names the row that says the same already, if there is one; then it is that row, which `is_restored`
    if what the caller said against it no longer counts. `decided` has the decisions of a model, such as
    `{"dedup": "alias_of"}`, and `degraded` what failed on the way. `dropped` counts what of its answer was left out.
    """

    record: Mapping[str, Any]
    operation_id: str | None
    is_new: bool = False
    duplicate_of: str | None = None
    is_restored: bool = False
    degraded: Sequence[str] = ()
    decided: Mapping[str, Any] = field(default_factory=dict)
    dropped: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class SavedBatch:
    """Rows after one operation, in the order of the request."""

    records: Sequence[SavedRow]
    operation_id: str | None


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """One version of a row. `changes` maps the path of a field to its old and new value; `timestamp` in seconds."""

    version: int
    operation_id: str
    op: str
    actor: str
    timestamp: float
    changes: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of a history, newest first. The next page is below the version `next_before`; None on the last page."""

    entries: Sequence[VersionEntry]
    next_before: int | None


class OwnedRows:
    """The verbs on the rows of a collection. A subclass replaces what is special about its rows.

    `edit_verb` begins the name of the operation that changes a row.
    """

    edit_verb: ClassVar[str] = "edit"

    def __init__(self, store: HistoryStore, collection: Collection) -> None:
        self._store = store
        self._collection = collection
        self._noun = collection.erase_rules.noun

    def find(self, view: View, ctx: RequestContext, row_id: str) -> Row:
        """Return a live row that the caller sees. Raises NotFound."""
        row = view.get(self._collection.name, row_id)
        if row is None or not is_live(row) or not ctx.sees_row(row):
            raise NotFound.of(self._noun, row_id)
        return row

    def show(self, view: View, ctx: RequestContext, row: Row) -> Mapping[str, Any]:  # noqa: ARG002 -- a subclass may need them
        """Return a row as the caller may read it."""
        return row

    def edit(self, view: View, row: Row, patch: Mapping[str, Any]) -> Row | None:
        """Return the next version of a row, with the fields of a patch; None if that changes nothing."""
        changed = {**row, **patch}
        return None if changed == row else next_of(changed, row, view.now)

    def cascade(self, view: View, row: Row) -> Sequence[Write]:  # noqa: ARG002 -- a subclass may need them
        """Return what is deleted together with a row, such as its links."""
        return ()

    async def read(self, ctx: RequestContext, row_id: str) -> Mapping[str, Any]:
        """Return a row. Raises NotFound."""
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        return self.show(view, ctx, self.find(view, ctx, row_id))

    async def patch(
        self,
        ctx: RequestContext,
        row_id: str,
        patch: Mapping[str, Any],
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> SavedRow:
        """Change fields of a row. Raises NotFound, Forbidden, VersionConflict, InvalidInput and Conflict."""
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft | Unchanged:
            row = self.find_for_edit(view, ctx, row_id, expected)
            after = self.edit(view, row, patch)
            permissions.check_scopes(ctx, (after or row)["scopes"], current=row["scopes"])
            return Unchanged(row) if after is None else Draft(f"{self.edit_verb}_{self._noun}", [self.write(after)])

        return self.make_saved(ctx, await self._store.commit(ctx.account, ctx.actor, decide, key))

    async def delete(
        self, ctx: RequestContext, row_id: str, expected: int | None = None, key: IdempotencyKey | None = None
    ) -> str:
        """Delete a row; return the operation, which can be undone. Raises NotFound, Forbidden, VersionConflict."""
        permissions.check_can_write(ctx)

        def decide(view: View) -> Draft:
            row = self.find_for_edit(view, ctx, row_id, expected)
            deleted = self.write(make_tombstone(row, view.now))
            return Draft(f"delete_{self._noun}", [deleted, *self.cascade(view, row)])

        return get_operation(await self._store.commit(ctx.account, ctx.actor, decide, key)).operation_id

    async def history(
        self, ctx: RequestContext, row_id: str, limit: int = HISTORY_PAGE, before: int | None = None
    ) -> HistoryPage:
        """Return the versions of a row below `before`, newest first, even if it was deleted. Raises NotFound.

        Versions that the caller could not see at the time are left out.
        """
        await self._store.refresh(ctx.account)
        name, view = self._collection.name, self._store.view(ctx.account)
        current = view.get(name, row_id)
        if current is None or not ctx.sees_row(current):
            raise NotFound.of(self._noun, row_id)
        entries: list[VersionEntry] = []
        async for operation in self._store.operations_on(ctx.account, name, row_id):
            change = next(item for item in operation.changes if (item.collection, item.id) == (name, row_id))
            versions = [row for row in (change.before, change.after) if row is not None]
            is_newer = before is not None and change.after["version"] >= before
            if is_newer or not all(map(ctx.sees_row, versions)):
                continue
            if len(entries) == limit:
                return HistoryPage(entries, entries[-1].version)
            entries.append(self._make_entry(view, ctx, operation, change))
        return HistoryPage(entries, None)

    def find_for_edit(self, view: View, ctx: RequestContext, row_id: str, expected: int | None) -> Row:
        """Return a row that the caller may change. Raises NotFound, Forbidden and VersionConflict."""
        row = self.find(view, ctx, row_id)
        check_can_edit(ctx, row, self._noun, expected)
        return row

    def write(self, row: Row) -> Write:
        """Return the write of a row."""
        return Write(self._collection.name, row["id"], row)

    def make_saved(self, ctx: RequestContext, outcome: Outcome) -> SavedRow:
        """Return the row that a decision wrote first, or that it answered with and left unchanged."""
        view = self._store.view(ctx.account)
        if isinstance(outcome, Unchanged):
            return SavedRow(self.show(view, ctx, outcome.answer), None)
        change = outcome.operation.changes[0]
        return SavedRow(self.show(view, ctx, change.after), outcome.operation.operation_id, not is_live(change.before))

    def _make_entry(self, view: View, ctx: RequestContext, operation: Operation, change: Change) -> VersionEntry:
        before = None if change.before is None else self.show(view, ctx, change.before)
        return VersionEntry(
            version=change.after["version"],
            operation_id=operation.operation_id,
            op=operation.op,
            actor=operation.actor,
            timestamp=operation.timestamp,
            changes=differences(before, self.show(view, ctx, change.after)),
        )
