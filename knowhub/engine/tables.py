"""The rows of one collection in one account, in memory: texts, summaries, and the indexes over them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import TableSchema
from knowhub.engine.disk_rows import LogLine
from knowhub.engine.indexes import PostingIndex, RunningTotals, SortedIndex


class InMemoryTable:
    """A table whose row texts are in memory. Rows are numbered from 0 in the order of their creation."""

    def __init__(self, schema: TableSchema[Any]) -> None:
        self.summarize = schema.summarize
        self._add_defaults = schema.add_defaults
        self._numbers: dict[str, int] = {}
        self._texts: list[bytes] = []
        self._summaries: list[Any] = []
        self._indexes: dict[str, PostingIndex | SortedIndex] = {
            index.name: PostingIndex(index) if index.order is None else SortedIndex(index) for index in schema.indexes
        }
        self._totals = {totals.name: RunningTotals(totals) for totals in schema.totals}
        self._followers: Sequence[Any] = (*self._indexes.values(), *self._totals.values())

    def load(self, ids: Sequence[str], texts: Sequence[bytes], numbers: Sequence[int], _line: LogLine) -> None:
        """Take in rows of one operation that was read back; `numbers` are their change numbers."""
        for row_id, text, number in zip(ids, texts, numbers, strict=True):
            self.put(row_id, text, orjson.loads(text), number)

    def move(self, _ids: Sequence[str], _texts: Sequence[bytes], _line: LogLine) -> None:
        """Do nothing: row texts are in memory."""

    def put(self, row_id: str, text: bytes, row: Row, change_number: int) -> None:
        """Take in the new content of a row. Raises KeyError, TypeError or ValueError for a row of another shape."""
        summary = None
        if self.summarize is not None:
            known = self._numbers.get(row_id)
            ordinal, earlier = (len(self._texts), None) if known is None else (known, self._summaries[known])
            summary = self.summarize(row, ordinal, change_number, earlier)
        self.put_summary(row_id, text, summary)

    def put_summary(self, row_id: str, text: bytes, summary: Any) -> None:  # noqa: ANN401 -- of the table's schema
        """Take in the new content of a row, with its summary."""
        number = self._numbers.get(row_id)
        old = None
        if number is None:
            number = self._numbers[row_id] = len(self._texts)
            self._texts.append(text)
            self._summaries.append(summary)
        else:
            old, self._summaries[number] = self._summaries[number], summary
            self._texts[number] = text
        for follower in self._followers:
            follower.update(number, old, summary)

    def __len__(self) -> int:
        """Return how many rows there are, deleted ones too."""
        return len(self._texts)

    def texts(self) -> list[tuple[str, bytes]]:
        """Return the id and the text of every row, deleted ones too, oldest first."""
        return list(zip(self._numbers, self._texts, strict=True))

    def number(self, row_id: str) -> int | None:
        """Return the number of a row; None if the id was never used."""
        return self._numbers.get(row_id)

    def text(self, row_id: str) -> bytes | None:
        """Return a row's text; None if there is none. Raises Unavailable if it does not read back from the log."""
        number = self._numbers.get(row_id)
        return None if number is None else self._add_defaults(self._texts[number])

    def summary(self, row_id: str) -> Any:  # noqa: ANN401 -- of the table's schema
        """Return a row's summary; None if the id was never used."""
        number = self._numbers.get(row_id)
        return None if number is None else self._summaries[number]

    def rows(self) -> Iterator[Any]:
        """Yield the summaries of all live rows, oldest first."""
        return (summary for summary in self._summaries if summary.live)

    def rows_desc(self, below: int | None, *, of_deleted: bool) -> Iterator[Any]:
        """Yield the summaries of the rows below a number, newest first."""
        end = len(self._texts) if below is None else min(below, len(self._texts))
        found = (self._summaries[number] for number in range(end - 1, -1, -1))
        return found if of_deleted else (summary for summary in found if summary.live)

    def lookup(self, index: str, key: Hashable) -> list[Any]:
        """Return the summaries of the rows that have a key, in the order of the index."""
        summaries = self._summaries
        return [summaries[number] for number in self._indexes[index].numbers(key)]

    def find(self, index: str, key: Hashable) -> Any:  # noqa: ANN401 -- of the table's schema
        """Return the summary of the first row that has a key; None if there is none."""
        numbers = self._indexes[index].numbers(key)
        return self._summaries[numbers[0]] if numbers else None

    def count(self, index: str, key: Hashable) -> int:
        """Return how many rows have a key."""
        return len(self._indexes[index].numbers(key))

    def scan(self, index: str, key: Hashable, at_least: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        """Yield the rows that have a key, in the order of the index, from a place on."""
        return map(self._summaries.__getitem__, self._indexes[index].scan(key, at_least))

    def scan_desc(self, index: str, keys: Iterable[Hashable], below: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        """Yield the rows that have any of some keys, each once, last first, below a place."""
        return map(self._summaries.__getitem__, self._indexes[index].scan_desc(keys, below))

    def totals(self, name: str, group: Hashable) -> Mapping[Hashable, int]:
        """Return the sums of a group."""
        return self._totals[name].of(group)
