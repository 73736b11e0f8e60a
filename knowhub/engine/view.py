"""One account at one moment, as reads and decisions see it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import Index, SummaryT, TableSchema, Totals
from knowhub.engine.overlay import Overlay, RowSource

_NOT_WRITTEN = 0


@dataclass(slots=True)
class AccountView:
    """Implements `core.operation.View` on the rows of an account, or on an overlay over them."""

    source: RowSource
    now: float
    earlier_notes: Sequence[Any] = ()

    @property
    def is_acknowledged(self) -> bool:
        return not self.changed_keys

    @property
    def changed_keys(self) -> Sequence[tuple[str, str]]:
        return self.source.changed_keys if isinstance(self.source, Overlay) else ()

    def raw(self, collection: str, row_id: str) -> bytes | None:
        return self.source.table(collection).text(row_id)

    def get(self, collection: str, row_id: str) -> Row | None:
        text = self.source.table(collection).text(row_id)
        return None if text is None else orjson.loads(text)

    def get_acknowledged(self, collection: str, row_id: str) -> Row | None:
        source = self.source.below if isinstance(self.source, Overlay) else self.source
        text = source.table(collection).text(row_id)
        return None if text is None else orjson.loads(text)

    def summary(self, schema: TableSchema[SummaryT], row_id: str) -> SummaryT | None:
        found: SummaryT | None = self.source.table(schema.name).summary(row_id)
        return found

    def rows(self, schema: TableSchema[SummaryT]) -> Iterator[SummaryT]:
        return self.source.table(schema.name).rows()

    def newest(
        self, schema: TableSchema[SummaryT], below: int | None = None, *, of_deleted: bool = False
    ) -> Iterator[SummaryT]:
        return self.source.table(schema.name).rows_desc(below, of_deleted=of_deleted)

    def lookup(self, index: Index[SummaryT], key: Hashable) -> list[SummaryT]:
        return self.source.table(index.collection).lookup(index.name, key)

    def count(self, index: Index[Any], key: Hashable) -> int:
        return self.source.table(index.collection).count(index.name, key)

    def scan(self, index: Index[SummaryT], key: Hashable, at_least: Any = None) -> Iterator[SummaryT]:  # noqa: ANN401 -- any JSON
        return self.source.table(index.collection).scan(index.name, key, at_least)

    def scan_desc(
        self,
        index: Index[SummaryT],
        keys: Iterable[Hashable],
        below: Any = None,  # noqa: ANN401 -- what the index is sorted by
    ) -> Iterator[SummaryT]:
        return self.source.table(index.collection).scan_desc(index.name, keys, below)

    def totals(self, totals: Totals[Any], group: Hashable) -> Mapping[Hashable, int]:
        return self.source.table(totals.collection).totals(totals.name, group)

    def referrers(self, collection: str, row_id: str) -> Sequence[tuple[str, str]]:
        return [
            (schema.name, row.id)
            for schema in self.source.schemas.values()
            for index in schema.indexes
            if index.target == collection
            for row in self.source.table(schema.name).lookup(index.name, row_id)
        ]

    def undone_by(self, operation_id: str) -> str | None:
        undo = self.source.undo_of(operation_id)
        # An undo that was itself undone does not count: of a chain of undos every second one does.
        counts, last = False, operation_id
        while (newer := self.source.undo_of(last)) is not None:
            counts, last = not counts, newer
        return undo if counts else None

    def plan(self) -> "PlanView":
        return PlanView(Overlay(self.source), self.now)


@dataclass(slots=True)
class PlanView(AccountView):
    """A view of rows as they would be. What is put into it is seen by this view only, and is not written."""

    def put(self, collection: str, row_id: str, row: Row) -> None:
        if not isinstance(self.source, Overlay):
            raise TypeError("a plan needs an overlay")
        self.source.put(collection, row_id, row, orjson.dumps(row), _NOT_WRITTEN)
