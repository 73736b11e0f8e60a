"""The rows of one account, as a search index reads them."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Generic

import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import Index, SummaryT
from knowhub.engine.account import Account, change_number
from knowhub.engine.disk_tables import DiskTable
from knowhub.engine.tables import InMemoryTable


class SearchableRows(Generic[SummaryT]):
    """Rows found by the change number of their indexed text, through the given `indexes`.

    Only the newest text of a row has an entry: an older number finds no row. With `limit`, only the first so many rows
    of each collection are there.
    """

    def __init__(self, account: Account, indexes: Sequence[Index[Any]], limit: int | None = None) -> None:
        self._tables: list[tuple[InMemoryTable | DiskTable, str]] = [
            (_get_table(account, index.collection), index.name) for index in indexes
        ]
        self._limit = limit

    def head(self, row_id: str) -> SummaryT | None:
        for table, _ in self._tables:
            summary: SummaryT | None = table.summary(row_id)
            if summary is not None:
                return summary if self._is_within(summary) else None
        return None

    def by_text_num(self, text_num: int) -> SummaryT | None:
        for table, index in self._tables:
            summary: SummaryT | None = table.find(index, text_num)
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

    def heads(self) -> Iterator[SummaryT]:
        for table, _ in self._tables:
            yield from takewhile(self._is_within, table.rows())

    def numbers_after(self, seq: int) -> list[int]:
        """Return the numbers of the texts of live rows that operations after `seq` wrote, ascending."""
        least, numbers = change_number(seq + 1, 0), list[int]()
        for table, _ in self._tables:
            if isinstance(table, DiskTable):
                numbers += table.changes_after(least - 1)
            else:
                numbers += [summary.text_num for summary in table.rows() if summary.text_num >= least]
        return sorted(numbers)

    def _is_within(self, summary: Any) -> bool:  # noqa: ANN401 -- of the collection's schema
        return self._limit is None or summary.ordinal < self._limit


def _get_table(account: Account, name: str) -> InMemoryTable | DiskTable:
    table = account.table(name)
    if isinstance(table, InMemoryTable | DiskTable):
        return table
    raise TypeError(f"the rows of {name!r} cannot be searched")
