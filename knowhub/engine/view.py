"""One account at one moment, as reads and decisions see it: its rows, and over them those not yet acknowledged."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, TypeAlias

import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import EdgeStorage, Index, SummaryT, TableSchema, TableSchemas, Totals
from knowhub.engine.account import Account
from knowhub.engine.edge_tables import Table
from knowhub.engine.tables import RunningTotals


class Overlay:
    """What a batch has decided for one account, or what a plan would change, over the rows as they are."""

    def __init__(self, underlying: "RowSource") -> None:
        self._tables: dict[str, OverlayTable] = {}
        self._undos: dict[str, str] = {}
        self.underlying = underlying
        self.schemas: TableSchemas = underlying.schemas

    @property
    def changed_keys(self) -> Sequence[tuple[str, str]]:
        """The collection and the id of every row that is changed here."""
        return [(name, row_id) for name, table in self._tables.items() for row_id in table.texts]

    def put(self, collection: str, row_id: str, row: Mapping[str, Any], text: bytes, change_number: int) -> Any:  # noqa: ANN401 -- of the collection's schema
        """Store the new content of a row, and return its summary.

        Raises KeyError, TypeError or ValueError for a row of another shape.
        """
        table = self._tables.get(collection)
        if table is None:
            schema = self.schemas.get(collection) or TableSchema[Any](collection)
            table = OverlayTable(self.underlying.table(collection), schema, self)
        summary = table.put(row_id, row, text, change_number)
        self._tables[collection] = table
        return summary

    def record_undo(self, undo_of: str, operation_id: str) -> None:
        """Remember which operation undid which."""
        self._undos[undo_of] = operation_id

    def table(self, name: str) -> "Table | OverlayTable":
        """Return the rows of a collection."""
        changed = self._tables.get(name)
        return self.underlying.table(name) if changed is None else changed

    def find_undo(self, operation_id: str) -> str | None:
        """Return the newest operation that undid this one; None if there is none."""
        return self._undos.get(operation_id) or self.underlying.find_undo(operation_id)


class OverlayTable:
    """The rows of one collection, with those that are changed here.

    An index over the changed rows is made when it is first asked, and kept up from then on. An entry may be outdated:
    whoever reads it looks at the row's newest summary.
    """

    def __init__(self, underlying: "Table | OverlayTable", schema: TableSchema[Any], overlay: Overlay) -> None:
        self.texts: dict[str, bytes] = {}
        self.summaries: dict[str, Any] = {}
        self._underlying = underlying
        self._schema = schema
        self._overlay = overlay
        self._first_number = len(underlying)
        self._new_numbers: dict[str, int] = {}
        self._changed_ids: list[str] = []
        self._indexes: dict[str, dict[Hashable, dict[str, None]]] = {}
        self._indexed: dict[str, int] = {}

    def put(self, row_id: str, row: Mapping[str, Any], text: bytes, change_number: int) -> Any:  # noqa: ANN401 -- of the table's schema
        """Store the new content of a row, and return its summary.

        Raises KeyError, TypeError or ValueError for a row of another shape.
        """
        schema = self._schema
        summary = None
        if schema.summarize is not None:
            earlier = self.summary(row_id)
            number = None if earlier is None else self.number(row_id)
            if number is None:
                number = self._first_number + len(self._new_numbers)
            summary = self.summaries[row_id] = schema.summarize(row, number, change_number, earlier)
            if number >= self._first_number:
                self._new_numbers[row_id] = number
            self._changed_ids.append(row_id)
        self.texts[row_id] = schema.add_defaults(text, row)
        return summary

    def __len__(self) -> int:
        return self._first_number + len(self._new_numbers)

    def number(self, row_id: str) -> int | None:
        number = self._new_numbers.get(row_id)
        return self._underlying.number(row_id) if number is None else number

    def text(self, row_id: str) -> bytes | None:
        text = self.texts.get(row_id)
        return self._underlying.text(row_id) if text is None else text

    def summary(self, row_id: str) -> Any:  # noqa: ANN401 -- of the table's schema
        summary = self.summaries.get(row_id)
        return self._underlying.summary(row_id) if summary is None else summary

    def rows(self) -> Iterator[Any]:
        live = sorted((row for row in self.summaries.values() if row.live), key=self._age)
        return merge(self._unchanged(self._underlying.rows()), live, key=self._age)

    def rows_desc(self, below: int | None, *, of_deleted: bool) -> Iterator[Any]:
        here = [row for row in self.summaries.values() if row.live or of_deleted]
        if below is not None:
            here = [row for row in here if self._age(row) < below]
        here.sort(key=self._age, reverse=True)
        found = self._unchanged(self._underlying.rows_desc(below, of_deleted=of_deleted))
        return merge(found, here, key=self._age, reverse=True)

    def lookup(self, index: str, key: Hashable) -> list[Any]:
        declared = self._schema.index(index)
        unchanged = list(self._unchanged(self._underlying.lookup(index, key)))
        here = self._find(declared, key)
        return sorted([*unchanged, *here], key=declared.order or self._age) if here else unchanged

    def count(self, index: str, key: Hashable) -> int:
        return len(self.lookup(index, key))

    def scan(self, index: str, key: Hashable, at_least: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        declared = self._schema.index(index)
        order = declared.order or self._age
        here = [row for row in self._find(declared, key) if at_least is None or order(row) >= at_least]
        return merge(self._unchanged(self._underlying.scan(index, key, at_least)), sorted(here, key=order), key=order)

    def scan_desc(self, index: str, keys: Iterable[Hashable], below: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        declared, keys = self._schema.index(index), list(keys)
        order = declared.order or self._age
        rows = {row.id: row for key in keys for row in self._find(declared, key)}
        here = [row for row in rows.values() if below is None or order(row) < below]
        here.sort(key=order, reverse=True)
        return merge(self._unchanged(self._underlying.scan_desc(index, keys, below)), here, key=order, reverse=True)

    def totals(self, name: str, group: Hashable) -> Mapping[Hashable, int]:
        declared = next(totals for totals in self._schema.totals if totals.name == name)
        sums, running = dict(self._underlying.totals(name, group)), RunningTotals(declared)
        for row_id, row in self.summaries.items():
            for (changed_group, key), amount in running.difference(self._underlying.summary(row_id), row).items():
                if changed_group == group:
                    sums[key] = sums.get(key, 0) + amount
        return {key: total for key, total in sums.items() if total}

    def _find(self, index: Index[Any], key: Hashable) -> list[Any]:
        """Return the summaries of the changed rows that have a key."""
        entries = self._indexes.setdefault(index.name, {})
        for row_id in self._changed_ids[self._indexed.get(index.name, 0) :]:
            for row_key in index.keys(self.summaries[row_id]):
                entries.setdefault(row_key, {})[row_id] = None
        self._indexed[index.name] = len(self._changed_ids)
        found = (self.summaries[row_id] for row_id in entries.get(key, ()))
        return [row for row in found if (row.live or index.of_deleted) and key in index.keys(row)]

    def _unchanged(self, rows: Iterable[Any]) -> Iterator[Any]:
        return (row for row in rows if row.id not in self.summaries)

    def _age(self, row: Any) -> int:  # noqa: ANN401 -- of the table's schema
        storage = self._schema.storage
        if isinstance(storage, EdgeStorage):
            # Edges are as old as their sources.
            (source_id,) = storage.by_source.keys(row)
            number = self._overlay.table(storage.source).number(str(source_id))
        else:
            number = self.number(row.id)
        return -1 if number is None else number


RowSource: TypeAlias = Account | Overlay
"""What a view reads."""


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
        source = self.source.underlying if isinstance(self.source, Overlay) else self.source
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
        undo = self.source.find_undo(operation_id)
        # An undo that was itself undone does not count: of a chain of undos every second one does.
        counts, last = False, operation_id
        while (newer := self.source.find_undo(last)) is not None:
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
