"""Rows that are decided and not yet acknowledged, over the rows below them: the same queries, with the same answers."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, Protocol

from knowhub.core.table_schema import EdgeBodies, Index, TableSchemas, Totals
from knowhub.engine.indexes import RunningTotals


class RowSource(Protocol):
    """What a view and an overlay ask: an `Account`, or another overlay."""

    @property
    def schemas(self) -> TableSchemas: ...
    def size(self, collection: str) -> int: ...
    def text(self, collection: str, row_id: str) -> bytes | None: ...
    def number(self, collection: str, row_id: str) -> int | None: ...
    def summary(self, collection: str, row_id: str) -> Any: ...  # noqa: ANN401 -- of the collection's schema
    def rows(self, collection: str) -> Iterator[Any]: ...
    def rows_desc(self, collection: str, below: int | None, *, of_deleted: bool) -> Iterator[Any]: ...
    def lookup(self, index: Index[Any], key: Hashable) -> list[Any]: ...
    def count(self, index: Index[Any], key: Hashable) -> int: ...
    def scan(self, index: Index[Any], key: Hashable, at_least: Any) -> Iterator[Any]: ...  # noqa: ANN401 -- any JSON
    def scan_desc(self, index: Index[Any], keys: Iterable[Hashable], below: Any) -> Iterator[Any]: ...  # noqa: ANN401 -- any JSON
    def totals(self, totals: Totals[Any], group: Hashable) -> Mapping[Hashable, int]: ...
    def undo_of(self, operation_id: str) -> str | None: ...


@dataclass(slots=True)
class _Changed:
    """The changed rows of one collection. An index over them is made when it is first asked, and kept up from then on.

    An entry of an index may be outdated: whoever reads it looks at the row's newest summary.
    """

    first_number: int
    summaries: dict[str, Any] = field(default_factory=dict)
    new_numbers: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    indexes: dict[str, dict[Hashable, dict[str, None]]] = field(default_factory=dict)
    indexed: dict[str, int] = field(default_factory=dict)

    def find(self, index: Index[Any], key: Hashable) -> list[Any]:
        """Return the summaries of the changed rows that have a key."""
        entries = self.indexes.setdefault(index.name, {})
        for row_id in self.log[self.indexed.get(index.name, 0) :]:
            for row_key in index.keys(self.summaries[row_id]):
                entries.setdefault(row_key, {})[row_id] = None
        self.indexed[index.name] = len(self.log)
        found = (self.summaries[row_id] for row_id in entries.get(key, ()))
        return [row for row in found if (row.live or index.of_deleted) and key in index.keys(row)]


class Overlay:
    """What a batch has decided for one account, or what a plan would change, over the rows as they are."""

    def __init__(self, below: RowSource) -> None:
        self._below = below
        self._texts: dict[tuple[str, str], bytes] = {}
        self._changed: dict[str, _Changed] = {}
        self._undos: dict[str, str] = {}

    @property
    def schemas(self) -> TableSchemas:
        return self._below.schemas

    @property
    def below(self) -> RowSource:
        """The rows without the changes of this overlay."""
        return self._below

    @property
    def changed_keys(self) -> Sequence[tuple[str, str]]:
        """The collection and the id of every row that is changed here."""
        return list(self._texts)

    def put(self, collection: str, row_id: str, row: Mapping[str, Any], text: bytes, change_number: int) -> None:
        """Take in the new content of a row. Raises KeyError, TypeError or ValueError for a row of another shape."""
        schema = self.schemas.get(collection)
        if schema is not None and schema.summarize is not None:
            changed = self._changed.get(collection)
            if changed is None:
                changed = self._changed[collection] = _Changed(self._below.size(collection))
            earlier = changed.summaries.get(row_id) or self._below.summary(collection, row_id)
            number = self.number(collection, row_id)
            if number is None:
                number = changed.first_number + len(changed.new_numbers)
            summary = schema.summarize(row, number, change_number, earlier)
            if number >= changed.first_number:
                changed.new_numbers[row_id] = number
            changed.summaries[row_id] = summary
            changed.log.append(row_id)
        self._texts[collection, row_id] = text if schema is None else schema.add_defaults(text)

    def note_undo(self, undo_of: str | None, operation_id: str) -> None:
        """Remember which operation undid which."""
        if undo_of is not None:
            self._undos[undo_of] = operation_id

    def find_decided(self, collection: str, row_id: str) -> Any:  # noqa: ANN401 -- of the collection's schema
        """Return the summary of a row that is changed here; None for any other."""
        changed = self._changed.get(collection)
        return None if changed is None else changed.summaries.get(row_id)

    def size(self, collection: str) -> int:
        changed = self._changed.get(collection)
        return self._below.size(collection) if changed is None else changed.first_number + len(changed.new_numbers)

    def text(self, collection: str, row_id: str) -> bytes | None:
        text = self._texts.get((collection, row_id))
        return self._below.text(collection, row_id) if text is None else text

    def number(self, collection: str, row_id: str) -> int | None:
        changed = self._changed.get(collection)
        number = None if changed is None else changed.new_numbers.get(row_id)
        return self._below.number(collection, row_id) if number is None else number

    def summary(self, collection: str, row_id: str) -> Any:  # noqa: ANN401 -- of the collection's schema
        decided = self.find_decided(collection, row_id)
        return self._below.summary(collection, row_id) if decided is None else decided

    def rows(self, collection: str) -> Iterator[Any]:
        changed = self._changed.get(collection)
        below = self._below.rows(collection)
        if changed is None:
            return below
        live = [row for row in changed.summaries.values() if row.live]
        live.sort(key=lambda row: self._age(collection, row))
        kept = (row for row in below if row.id not in changed.summaries)
        return merge(kept, live, key=lambda row: self._age(collection, row))

    def rows_desc(self, collection: str, below: int | None, *, of_deleted: bool) -> Iterator[Any]:
        changed = self._changed.get(collection)
        found = self._below.rows_desc(collection, below, of_deleted=of_deleted)
        if changed is None:
            return found
        here = [row for row in changed.summaries.values() if row.live or of_deleted]
        if below is not None:
            here = [row for row in here if self._age(collection, row) < below]
        here.sort(key=lambda row: self._age(collection, row), reverse=True)
        kept = (row for row in found if row.id not in changed.summaries)
        return merge(kept, here, key=lambda row: self._age(collection, row), reverse=True)

    def lookup(self, index: Index[Any], key: Hashable) -> list[Any]:
        found = self._below.lookup(index, key)
        changed = self._changed.get(index.collection)
        if changed is None:
            return found
        kept = [row for row in found if row.id not in changed.summaries]
        here = changed.find(index, key)
        return sorted([*kept, *here], key=lambda row: self._sort_key(index, row)) if here else kept

    def count(self, index: Index[Any], key: Hashable) -> int:
        if index.collection not in self._changed:
            return self._below.count(index, key)
        return len(self.lookup(index, key))

    def scan(self, index: Index[Any], key: Hashable, at_least: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        found = self._below.scan(index, key, at_least)
        changed = self._changed.get(index.collection)
        if changed is None:
            return found
        here = [row for row in changed.find(index, key) if at_least is None or self._sort_key(index, row) >= at_least]
        here.sort(key=lambda row: self._sort_key(index, row))
        kept = (row for row in found if row.id not in changed.summaries)
        return merge(kept, here, key=lambda row: self._sort_key(index, row))

    def scan_desc(self, index: Index[Any], keys: Iterable[Hashable], below: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        keys = list(keys)
        found = self._below.scan_desc(index, keys, below)
        changed = self._changed.get(index.collection)
        if changed is None:
            return found
        rows = {row.id: row for key in keys for row in changed.find(index, key)}
        here = [row for row in rows.values() if below is None or self._sort_key(index, row) < below]
        here.sort(key=lambda row: self._sort_key(index, row), reverse=True)
        kept = (row for row in found if row.id not in changed.summaries)
        return merge(kept, here, key=lambda row: self._sort_key(index, row), reverse=True)

    def totals(self, totals: Totals[Any], group: Hashable) -> Mapping[Hashable, int]:
        found = self._below.totals(totals, group)
        changed = self._changed.get(totals.collection)
        if changed is None:
            return found
        sums, running = dict(found), RunningTotals(totals)
        for row_id, row in changed.summaries.items():
            earlier = self._below.summary(totals.collection, row_id)
            for (changed_group, key), amount in running.difference(earlier, row).items():
                if changed_group == group:
                    sums[key] = sums.get(key, 0) + amount
        return {key: total for key, total in sums.items() if total}

    def undo_of(self, operation_id: str) -> str | None:
        return self._undos.get(operation_id) or self._below.undo_of(operation_id)

    def _sort_key(self, index: Index[Any], row: Any) -> Any:  # noqa: ANN401 -- what the index is sorted by
        if index.order is not None:
            return index.order(row)
        return self._age(index.collection, row)

    def _age(self, collection: str, row: Any) -> int:  # noqa: ANN401 -- of the collection's schema
        schema = self.schemas[collection]
        if isinstance(schema.bodies, EdgeBodies):
            (source_id,) = schema.bodies.by_source.keys(row)
            collection, row_id = schema.bodies.source, str(source_id)
        else:
            row_id = row.id
        number = self.number(collection, row_id)
        return -1 if number is None else number
