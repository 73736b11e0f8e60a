"""The rows of one collection in one account, in memory: texts, summaries, and the indexes over them."""

from array import array
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from typing import Any

from knowhub.core.operation import Row
from knowhub.core.table_schema import Index, TableSchema, Totals

_NOTHING: Mapping[Hashable, int] = {}
_NO_ENTRIES: Sequence[Any] = []
_SINGLE_ENTRY = (int, tuple)


class RowIndex:
    """Lists rows by their keys, in the order of their creation or by an order of their own.

    The entry of a row is its number, or what `order` returns with its number. Most keys have one row, and cost no
    object of their own: their posting is its entry. Others have an ascending array or list.
    """

    def __init__(self, schema: Index[Any]) -> None:
        self._keys_of = schema.keys
        self._order = schema.order
        self._of_deleted = schema.of_deleted
        self._postings: dict[Hashable, Any] = {}

    def update(self, number: int, old: Any, new: Any) -> None:  # noqa: ANN401 -- summaries of the table
        """Update the index after row `number` changed from the summary `old`, None for a new row, to `new`."""
        before: Collection[Hashable] = () if old is None or not (old.live or self._of_deleted) else self._keys_of(old)
        after: Collection[Hashable] = self._keys_of(new) if new.live or self._of_deleted else ()
        earlier: Any = number
        entry: Any = number
        if self._order is not None:
            entry = (self._order(new), number)
            earlier = entry if old is None else (self._order(old), number)
        is_moved = earlier != entry
        if before == after and not is_moved:
            return
        for key in before:
            if is_moved or key not in after:
                self._remove(key, earlier)
        for key in after:
            if is_moved or key not in before:
                self._add(key, entry)

    def numbers(self, key: Hashable) -> Sequence[int]:
        """Return the numbers of the rows that have a key, in order."""
        entries = self._entries_of(key)
        return entries if self._order is None else [number for _, number in entries]

    def scan(self, key: Hashable, at_least: Any) -> Iterator[int]:  # noqa: ANN401 -- a number, or what `order` returns
        """Yield the numbers of the rows that have a key, in order, from `at_least` on."""
        entries = self._entries_of(key)
        start = 0 if at_least is None else self._find(entries, at_least)
        return self._to_numbers(entries[index] for index in range(start, len(entries)))

    def scan_desc(self, keys: Iterable[Hashable], below: Any) -> Iterator[int]:  # noqa: ANN401 -- as `scan`
        """Yield the numbers of the rows that have any of some keys, each once, last first."""
        found = merge(*(self._scan_desc(key, below) for key in keys), reverse=True)
        return self._to_numbers(entry for entry, _ in groupby(found))

    def _scan_desc(self, key: Hashable, below: Any) -> Iterator[Any]:  # noqa: ANN401 -- as `scan`
        entries = self._entries_of(key)
        end = len(entries) if below is None else self._find(entries, below)
        return (entries[index] for index in range(end - 1, -1, -1))

    def _find(self, entries: Sequence[Any], bound: Any) -> int:  # noqa: ANN401 -- as `scan`
        return bisect_left(entries, bound if self._order is None else (bound,))

    def _to_numbers(self, entries: Iterator[Any]) -> Iterator[int]:
        return entries if self._order is None else (number for _, number in entries)

    def _entries_of(self, key: Hashable) -> Sequence[Any]:
        posting = self._postings.get(key, _NO_ENTRIES)
        return (posting,) if isinstance(posting, _SINGLE_ENTRY) else posting

    def _add(self, key: Hashable, entry: Any) -> None:  # noqa: ANN401 -- as `update`
        posting = self._postings.setdefault(key, entry)
        if isinstance(posting, _SINGLE_ENTRY):
            if posting != entry:
                pair = sorted((posting, entry))
                self._postings[key] = array("I", pair) if self._order is None else pair
        elif posting[-1] < entry:
            posting.append(entry)
        else:
            index = bisect_left(posting, entry)
            if posting[index] != entry:
                posting.insert(index, entry)

    def _remove(self, key: Hashable, entry: Any) -> None:  # noqa: ANN401 -- as `update`
        posting = self._postings.get(key, _NO_ENTRIES)
        if isinstance(posting, _SINGLE_ENTRY):
            if posting == entry:
                del self._postings[key]
            return
        index = bisect_left(posting, entry)
        if index < len(posting) and posting[index] == entry:
            del posting[index]
            if not posting:
                del self._postings[key]


class RunningTotals:
    """Sums by group and key, kept up with each change. A key whose sum is 0 is not there."""

    def __init__(self, schema: Totals[Any]) -> None:
        self._amounts = schema.amounts
        self._of_deleted = schema.of_deleted
        self._sums: dict[Hashable, dict[Hashable, int]] = {}

    def update(self, _number: int, old: Any, new: Any) -> None:  # noqa: ANN401 -- summaries of the table
        """Adjust the sums to a row whose summary changed; None before the first."""
        for (group, key), amount in self.difference(old, new).items():
            sums = self._sums.setdefault(group, {})
            total = sums.get(key, 0) + amount
            if total:
                sums[key] = total
            else:
                sums.pop(key, None)
                if not sums:
                    del self._sums[group]

    def difference(self, old: Any, new: Any) -> Mapping[tuple[Hashable, Hashable], int]:  # noqa: ANN401 -- any JSON
        """Return by how much each sum changes when a row changes."""
        found: defaultdict[tuple[Hashable, Hashable], int] = defaultdict(int)
        for summary, sign in ((old, -1), (new, 1)):
            if summary is not None and (summary.live or self._of_deleted):
                for group, key, amount in self._amounts(summary):
                    found[group, key] += sign * amount
        return found

    def of(self, group: Hashable) -> Mapping[Hashable, int]:
        """Return the sums of a group."""
        return self._sums.get(group, _NOTHING)


def insert_sorted(numbers: "array[int]", number: int) -> None:
    """Put a number into an ascending array; the end, where most belong, is tried first."""
    if not numbers or numbers[-1] < number:
        numbers.append(number)
    else:
        insort(numbers, number)


class InMemoryTable:
    """A table whose row texts are in memory. Rows are numbered from 0 in the order of their creation."""

    def __init__(self, schema: TableSchema[Any]) -> None:
        self.summarize = schema.summarize
        self._add_defaults = schema.add_defaults
        self._numbers: dict[str, int] = {}
        self._texts: list[bytes] = []
        self._summaries: list[Any] = []
        self._indexes = {index.name: RowIndex(index) for index in schema.indexes}
        self._totals = {totals.name: RunningTotals(totals) for totals in schema.totals}
        self._followers: Sequence[Any] = (*self._indexes.values(), *self._totals.values())

    def put(self, row_id: str, text: bytes, row: Row, change_number: int) -> None:
        """Store the new content of a row. Raises KeyError, TypeError or ValueError for a row of another shape."""
        summary = None
        if self.summarize is not None:
            known = self._numbers.get(row_id)
            ordinal, earlier = (len(self._texts), None) if known is None else (known, self._summaries[known])
            summary = self.summarize(row, ordinal, change_number, earlier)
        self.put_summary(row_id, text, row, summary)

    def put_summary(self, row_id: str, text: bytes, row: Row, summary: Any) -> None:  # noqa: ANN401 -- of the table's schema
        """Store the new content of a row, with its summary."""
        text = self._add_defaults(text, row)
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
        return None if number is None else self._texts[number]

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
        """Yield the rows that have a key, in the order of the index, from an entry on."""
        return map(self._summaries.__getitem__, self._indexes[index].scan(key, at_least))

    def scan_desc(self, index: str, keys: Iterable[Hashable], below: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        """Yield the rows that have any of some keys, each once, last first, below an entry."""
        return map(self._summaries.__getitem__, self._indexes[index].scan_desc(keys, below))

    def totals(self, name: str, group: Hashable) -> Mapping[Hashable, int]:
        """Return the sums of a group."""
        return self._totals[name].of(group)
