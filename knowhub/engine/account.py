"""All acknowledged rows of one account: a table for each collection, made from the schema that a domain declares."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic

import msgspec
import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import DiskStorage, EdgeStorage, Index, SummaryT, TableSchema, TableSchemas
from knowhub.engine.disk_rows import LogLine, ReadText
from knowhub.engine.disk_tables import DiskTable
from knowhub.engine.edge_tables import EdgeTable, Table
from knowhub.engine.tables import InMemoryTable

_CHANGES_PER_OPERATION_BITS = 20
_ROWS_A_STEP = 100


class LoadedChange(msgspec.Struct, frozen=True):
    """A row that was read back from the log; `after` is its text. Only a row of a base may have a change `number`."""

    collection: str
    id: str
    after: msgspec.Raw
    number: int | None = None


# Not frozen, as many are made for each request or row: to make a frozen one takes several times as long.
@dataclass(slots=True)
class WrittenChange:
    """A change that this process decided: its rows as JSON text and parsed, and the summary made with the decision."""

    collection: str
    id: str
    before: bytes | None
    after: bytes
    row: Row
    before_row: Row | None
    number: None = None
    summary: Any = None


class Account:
    """The tables of one account. Tables of collections without a schema find rows by their ids only."""

    def __init__(self, schemas: TableSchemas, read: ReadText) -> None:
        self.schemas = schemas
        self._read = read
        self._tables: dict[str, Table] = {}
        self._undos: dict[str, str] = {}
        self._base_numbers = BaseNumbers()

    def load(self, seq: int, changes: Sequence[LoadedChange | WrittenChange], line: LogLine) -> None:
        """Load an operation from its line of the log. `seq` is 0 for the rows of a base."""
        for _ in self.load_in_steps(seq, changes, line):
            pass

    def load_in_steps(self, seq: int, changes: Sequence[LoadedChange | WrittenChange], line: LogLine) -> Iterator[None]:
        """Like `load`, but yield after every few rows. Until it ends, only a part of the operation is applied."""
        numbers = [change_number(seq, n) for n in range(len(changes))] if seq else self._base_numbers.list(changes)
        names = {change.collection for change in changes}
        for name in self._in_order(names):
            table, mine, of_mine = self.table(name), changes, numbers
            if len(names) > 1:
                positions = [position for position, change in enumerate(changes) if change.collection == name]
                mine = [changes[position] for position in positions]
                of_mine = [numbers[position] for position in positions]
            texts = [bytes(change.after) for change in mine]
            if not isinstance(table, InMemoryTable):
                table.load(texts, of_mine, line)
                continue
            for done, (change, text, number) in enumerate(zip(mine, texts, of_mine, strict=True)):
                if done and done % _ROWS_A_STEP == 0:
                    yield
                if isinstance(change, LoadedChange):
                    table.put(change.id, text, orjson.loads(text), number)
                elif change.summary is None:
                    table.put(change.id, text, change.row, number)
                else:
                    table.put_summary(change.id, text, change.row, change.summary)

    def move(self, changes: Sequence[LoadedChange], line: LogLine) -> None:
        """Read rows that stay on disk from another line from now on, where they are still the same."""
        for name in {change.collection for change in changes}:
            table, mine = self.table(name), [change for change in changes if change.collection == name]
            if not isinstance(table, InMemoryTable):
                table.move([change.id for change in mine], [bytes(change.after) for change in mine], line)

    def record_undo(self, undo_of: str, operation_id: str) -> None:
        """Remember which operation undid which."""
        self._undos[undo_of] = operation_id

    def table(self, name: str) -> Table:
        """Return the table of a collection."""
        table = self._tables.get(name)
        if table is None:
            # A decision that runs in a thread may make it at the same moment.
            table = self._tables.setdefault(name, self._make_table(name))
        return table

    def read_rows(self, name: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the id and the row of everything in a collection whose texts are in memory, deleted rows too."""
        return [(row_id, orjson.loads(text)) for row_id, text in self.memory_table(name).texts()]

    def memory_table(self, name: str) -> InMemoryTable:
        """Return the table of a collection whose texts are in memory."""
        table = self.table(name)
        if not isinstance(table, InMemoryTable):
            raise TypeError(f"the texts of {name!r} are not in memory")
        return table

    def find_undo(self, operation_id: str) -> str | None:
        """Return the newest operation that undid this one; None if there is none."""
        return self._undos.get(operation_id)

    def _in_order(self, names: set[str]) -> Iterable[str]:
        # Sources before the edges that need their numbers: as the schemas are declared.
        return names if len(names) == 1 else sorted(names, key=[*self.schemas, *sorted(names)].index)

    def _make_table(self, name: str) -> Table:
        schema = self.schemas.get(name) or TableSchema[Any](name)
        if isinstance(schema.storage, DiskStorage):
            return DiskTable(schema, schema.storage, self._read)
        if isinstance(schema.storage, EdgeStorage):
            sources = self.table(schema.storage.source)
            if not isinstance(sources, DiskTable):
                raise TypeError(f"the sources of {name!r} are not on disk")
            return EdgeTable(schema, schema.storage, sources, self._read)
        return InMemoryTable(schema)


class BaseNumbers:
    """The change numbers of the rows of a base: the same in every process.

    A base of an earlier version lacks some. Those rows are numbered in their order, before all other changes.
    """

    def __init__(self) -> None:
        self._last = change_number(1, -1)

    def list(self, changes: Sequence[LoadedChange | WrittenChange]) -> "list[int]":
        """Return the numbers of the next rows of the account."""
        return [self._make_next() if change.number is None else change.number for change in changes]

    def _make_next(self) -> int:
        self._last += 1
        return self._last


class SearchableRows(Generic[SummaryT]):
    """The rows of an account as a search index reads them: by the number of their text, through the given `indexes`.

    Only the newest text of a row has an entry: an older number finds no row. With `limit`, only the first so many rows
    of each collection are there.
    """

    def __init__(self, account: Account, indexes: Sequence[Index[Any]], limit: int | None = None) -> None:
        self._tables: list[tuple[InMemoryTable | DiskTable, str]] = [
            (_get_table(account, index.collection), index.name) for index in indexes
        ]
        self._limit = limit

    def find_changed(self, row_id: str, seq: int) -> SummaryT | None:
        """Return the summary of a row; None where the operation `seq` has not written its newest text."""
        for table, _ in self._tables:
            summary = table.summary(row_id)
            if summary is not None:
                is_within = self._limit is None or summary.ordinal < self._limit
                found: SummaryT | None = summary if is_within and seq_of_change(summary.text_change) == seq else None
                return found
        return None

    def find_by_text_change(self, text_change: int) -> SummaryT | None:
        """Return the row whose newest text this change wrote; None if there is a newer text, or no row any more."""
        for table, index in self._tables:
            summary: SummaryT | None = table.find(index, text_change)
            if summary is not None:
                return summary
        return None

    def row(self, row_id: str) -> Row:
        for table, _ in self._tables:
            text = table.text(row_id)
            if text is not None:
                row: Row = orjson.loads(text)
                return row
        raise KeyError(row_id)

    def summaries(self) -> Iterator[SummaryT]:
        for table, _ in self._tables:
            yield from takewhile(self._is_within, table.rows())

    def numbers_after(self, seq: int) -> list[int]:
        """Return the numbers of the texts of live rows that operations after `seq` wrote, ascending."""
        least, numbers = change_number(seq + 1, 0), list[int]()
        for table, _ in self._tables:
            if isinstance(table, DiskTable):
                numbers += table.changes_after(least - 1)
            else:
                numbers += [summary.text_change for summary in table.rows() if summary.text_change >= least]
        return sorted(numbers)

    def _is_within(self, summary: Any) -> bool:  # noqa: ANN401 -- of the collection's schema
        return self._limit is None or summary.ordinal < self._limit


def change_number(seq: int, position: int) -> int:
    """Return a number for a change of an operation: the same in every process, and rising."""
    return (seq << _CHANGES_PER_OPERATION_BITS) | position


def seq_of_change(number: int) -> int:
    """Return the sequence number of the operation that a change number belongs to."""
    return number >> _CHANGES_PER_OPERATION_BITS


def _get_table(account: Account, name: str) -> InMemoryTable | DiskTable:
    table = account.table(name)
    if isinstance(table, InMemoryTable | DiskTable):
        return table
    raise TypeError(f"the rows of {name!r} cannot be searched")
