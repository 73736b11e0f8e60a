"""The rows of one account, as a search index reads them."""

from collections.abc import Iterator, Sequence
from typing import Generic

import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import Index, SummaryT
from knowhub.engine.account import Account, seq_of_change
from knowhub.engine.tables import MemoryTable


class SearchableRows(Generic[SummaryT]):
    """Rows found by the change number of their indexed text, through the given `indexes`.

    Only the newest text of a row has an entry: an older number finds no row.
    """

    def __init__(self, account: Account, indexes: Sequence[Index[SummaryT]]) -> None:
        self._tables: list[tuple[MemoryTable, str]] = [
            (account.memory_table(index.collection), index.name) for index in indexes
        ]

    def head(self, row_id: str) -> SummaryT | None:
        for table, _ in self._tables:
            summary: SummaryT | None = table.summary(row_id)
            if summary is not None:
                return summary
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
            yield from table.rows()

    def seq_of(self, text_num: int) -> int:
        return seq_of_change(text_num)
