"""Tables of links between rows: the texts stay in the log, and a link takes a few bytes of memory."""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from knowhub.core.table_schema import EdgeStorage, TableSchema
from knowhub.engine.disk_rows import DiskRows, LineRows, LogLine, ReadText
from knowhub.engine.disk_tables import DiskTable
from knowhub.engine.tables import InMemoryTable, insert_sorted

_LABEL_BITS: Final = 2
_LABEL_MASK: Final = (1 << _LABEL_BITS) - 1
_LIVE: Final = 0x80
_IS_LIVE: Final = True
_NO_TOTALS: Mapping[Hashable, int] = {}


@lru_cache(maxsize=64)
def _edge_decoder(source_field: str, target_field: str, label_field: str) -> "msgspec.json.Decoder[Any]":
    fields: list[tuple[str, Any] | tuple[str, Any, Any]]
    fields = [("source", str), ("target", str), ("label", str), ("deleted", bool, False)]
    names = {"source": source_field, "target": target_field, "label": label_field}
    return msgspec.json.Decoder(msgspec.defstruct("EdgeRow", fields, frozen=True, rename=names))


class EdgeTable:
    """Rows that link a row of another disk table to something that has an id.

    Each target has an ascending array of `source number << 2 | label`. The edges of a source are chained through
    `_next`, an entry an edge: most sources have one or two, and a list for each would cost more than the edge. Edges
    are numbered from 1 in the chains; 0 is the end.
    """

    def __init__(self, schema: TableSchema[Any], storage: EdgeStorage[Any], sources: DiskTable, read: ReadText) -> None:
        if len(storage.labels) > _LABEL_MASK + 1:
            raise ValueError(f"{schema.name!r} has {len(storage.labels)} labels; {_LABEL_MASK + 1} are possible")
        self._storage = storage
        self._decode = _edge_decoder(storage.source_field, storage.target_field, storage.label_field).decode
        self._codes = {label: code for code, label in enumerate(storage.labels)}
        self._sources = sources
        self._texts = DiskRows(read)
        self._first = array("I")
        self._next = array("I")
        self._target = array("I")
        self._state = bytearray()
        self._target_numbers: dict[str, int] = {}
        self._target_ids: list[str] = []
        self._entries: list[array[int]] = []

    def load(self, texts: Sequence[bytes], _numbers: Sequence[int], line: LogLine) -> None:
        """Store edges with their new content. New edges, the most frequent case, cost least."""
        batch = LineRows.locate(self._decode, texts, line)
        added = self._add_new(batch)
        self._texts.extend(batch.part(0, added))
        for index in range(added, len(batch.rows)):
            single = batch.part(index, index + 1)
            if self._add_new(single):
                self._texts.extend(single)
            else:
                self._replace(single)

    def move(self, ids: Sequence[str], texts: Sequence[bytes], line: LogLine) -> None:
        for row_id, text, offset in zip(ids, texts, line.offsets_of(texts), strict=True):
            self._texts.move(self._edge(row_id) - 1, line.segment, offset, text)

    def __len__(self) -> int:
        return len(self._state)

    def number(self, row_id: str) -> int | None:
        edge = self._edge(row_id)
        return edge - 1 if edge else None

    def text(self, row_id: str) -> bytes | None:
        edge = self._edge(row_id)
        return self._texts.text(edge - 1) if edge else None

    def summary(self, row_id: str) -> Any:  # noqa: ANN401 -- of the table's schema
        edge = self._edge(row_id)
        if not edge:
            return None
        state = self._state[edge - 1]
        return self._storage.summarize(
            *self._storage.ends(row_id), self._storage.labels[state & _LABEL_MASK], bool(state & _LIVE)
        )

    def rows(self) -> Iterator[Any]:
        summarize, labels, id_at = self._storage.summarize, self._storage.labels, self._sources.id_at
        for target, entries in zip(self._target_ids, self._entries, strict=True):
            for entry in entries:
                yield summarize(id_at(entry >> _LABEL_BITS), target, labels[entry & _LABEL_MASK], _IS_LIVE)

    def rows_desc(self, _below: int | None, *, of_deleted: bool) -> Iterator[Any]:  # noqa: ARG002 -- as in `Table`
        raise TypeError("edges are not listed by their age")

    def lookup(self, index: str, key: Hashable) -> list[Any]:
        if index == self._storage.by_source.name:
            return list(self._of_source(str(key)))
        return list(self.scan(index, key, None))

    def count(self, index: str, key: Hashable) -> int:
        if index == self._storage.by_target.name:
            return len(self._entries_of(str(key)))
        return len(self.lookup(index, key))

    def scan(self, index: str, key: Hashable, at_least: int | None) -> Iterator[Any]:
        if index == self._storage.by_source.name:
            return self._of_source(str(key))
        target, entries, code = self._split_key(index, key)
        start = 0 if at_least is None else bisect_left(entries, at_least << _LABEL_BITS)
        return self._summaries(target, entries, range(start, len(entries)), code)

    def scan_desc(self, index: str, keys: Iterable[Hashable], below: int | None) -> Iterator[Any]:
        for key in keys:
            target, entries, code = self._split_key(index, key)
            end = len(entries) if below is None else bisect_left(entries, below << _LABEL_BITS)
            yield from self._summaries(target, entries, range(end - 1, -1, -1), code)

    def totals(self, _name: str, _group: Hashable) -> Mapping[Hashable, int]:
        return _NO_TOTALS

    def _split_key(self, index: str, key: Any) -> "tuple[str, Sequence[int], int | None]":  # noqa: ANN401 -- any key
        """Return the target in a key of an index, its entries, and the code of the label, if the key has one."""
        target, code = (key, None) if index == self._storage.by_target.name else (key[0], self._codes[key[1]])
        return target, self._entries_of(target), code

    def _summaries(
        self, target: str, entries: "Sequence[int]", order: Iterable[int], code: int | None
    ) -> Iterator[Any]:
        summarize, labels, id_at = self._storage.summarize, self._storage.labels, self._sources.id_at
        for index in order:
            entry = entries[index]
            if code is None or entry & _LABEL_MASK == code:
                yield summarize(id_at(entry >> _LABEL_BITS), target, labels[entry & _LABEL_MASK], _IS_LIVE)

    def _of_source(self, source_id: str) -> Iterator[Any]:
        source = self._sources.number(source_id)
        edge = self._first_edge(source) if source is not None else 0
        while edge:
            state = self._state[edge - 1]
            if state & _LIVE:
                target = self._target_ids[self._target[edge - 1]]
                yield self._storage.summarize(source_id, target, self._storage.labels[state & _LABEL_MASK], _IS_LIVE)
            edge = self._next[edge - 1]

    def _add_new(self, batch: LineRows[Any]) -> int:
        """Add edges, but not their texts, up to the first edge that is known; return how many were added."""
        # A hub of a million edges is opened by this loop.
        number_of, target_numbers = self._sources.number, self._target_numbers
        self._extend_first()
        first_edges = self._first
        for index, row in enumerate(batch.rows):
            source = number_of(row.source)
            if source is None:
                source = self._sources.add_missing(row.source)
                self._extend_first()
            target = target_numbers.get(row.target)
            if target is None:
                target = self._add_target(row.target)
            first = first_edges[source]
            if first and self._find(source, target):
                return index
            state = self._codes[row.label] | (0 if row.deleted else _LIVE)
            self._next.append(first)
            self._target.append(target)
            self._state.append(state)
            first_edges[source] = len(self._next)
            entries, entry = self._entries[target], source << _LABEL_BITS | state & _LABEL_MASK
            if state & _LIVE and (not entries or entries[-1] < entry):
                entries.append(entry)
            else:
                self._update_entries(target, source, 0, state)
        return len(batch.rows)

    def _replace(self, batch: LineRows[Any]) -> None:
        row = batch.rows[0]
        source, target = self._sources.number(row.source), self._target_numbers[row.target]
        if source is None:
            raise KeyError(row.source)
        edge, state = self._find(source, target), self._codes[row.label] | (0 if row.deleted else _LIVE)
        self._update_entries(target, source, self._state[edge - 1], state)
        self._state[edge - 1] = state
        self._texts.replace(edge - 1, batch.segment, batch.offsets[0], batch.texts[0])

    def _extend_first(self) -> None:
        missing = len(self._sources) - len(self._first)
        self._first.frombytes(bytes(self._first.itemsize * missing))

    def _add_target(self, target_id: str) -> int:
        number = self._target_numbers[target_id] = len(self._target_ids)
        self._target_ids.append(target_id)
        self._entries.append(array("Q"))
        return number

    def _edge(self, row_id: str) -> int:
        source_id, target_id = self._storage.ends(row_id)
        source, target = self._sources.number(source_id), self._target_numbers.get(target_id)
        return 0 if source is None or target is None else self._find(source, target)

    def _find(self, source: int, target: int) -> int:
        edge = self._first_edge(source)
        while edge and self._target[edge - 1] != target:
            edge = self._next[edge - 1]
        return edge

    def _first_edge(self, source: int) -> int:
        # Sources that came since the last edge have none.
        return self._first[source] if source < len(self._first) else 0

    def _update_entries(self, target: int, source: int, old: int, new: int) -> None:
        if old == new:
            return
        entries = self._entries[target]
        if old & _LIVE:
            del entries[bisect_left(entries, source << _LABEL_BITS | old & _LABEL_MASK)]
        if new & _LIVE:
            insert_sorted(entries, source << _LABEL_BITS | new & _LABEL_MASK)

    def _entries_of(self, target_id: str) -> "Sequence[int]":
        number = self._target_numbers.get(target_id)
        return () if number is None else self._entries[number]


Table: TypeAlias = InMemoryTable | DiskTable | EdgeTable
"""A table of acknowledged rows."""
