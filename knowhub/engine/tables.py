"""The rows of one collection in one account, in memory: texts, summaries, and the indexes over them."""

from array import array
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any

import orjson

from knowhub.core.operation import Row
from knowhub.core.table_schema import Index, TableSchema, Totals
from knowhub.engine.disk_rows import LogLine

_NOTHING: Mapping[Hashable, int] = {}


class PostingIndex:
    """Lists rows in the order of their creation.

    Most keys have one row, and cost no object of their own: their posting is a plain number. Others have an array.
    """

    def __init__(self, schema: Index[Any]) -> None:
        self._keys_of = schema.keys
        self._of_deleted = schema.of_deleted
        self._postings: dict[Hashable, int | array[int]] = {}

    def update(self, number: int, old: Any, new: Any) -> None:  # noqa: ANN401 -- summaries of the table
        """Take in that row `number` changed from one summary to another; None before the first."""
        before: Collection[Hashable] = () if old is None or not (old.live or self._of_deleted) else self._keys_of(old)
        after: Collection[Hashable] = self._keys_of(new) if new.live or self._of_deleted else ()
        if before == after:
            return
        for key in before:
            if key not in after:
                self._remove(key, number)
        for key in after:
            if key not in before:
                self._add(key, number)

    def numbers(self, key: Hashable) -> Sequence[int]:
        """Return the numbers of the rows that have a key, ascending."""
        posting = self._postings.get(key, ())
        return (posting,) if isinstance(posting, int) else posting

    def scan(self, key: Hashable, at_least: int | None) -> Iterator[int]:
        """Yield the numbers of the rows that have a key, from `at_least` on."""
        numbers = self.numbers(key)
        start = 0 if at_least is None else bisect_left(numbers, at_least)
        return (numbers[index] for index in range(start, len(numbers)))

    def scan_desc(self, keys: Iterable[Hashable], below: int | None) -> Iterator[int]:
        """Yield the numbers of the rows that have any of some keys, each once, newest first."""
        return _distinct(merge(*(self._scan_desc(key, below) for key in keys), reverse=True))

    def _scan_desc(self, key: Hashable, below: int | None) -> Iterator[int]:
        numbers = self.numbers(key)
        end = len(numbers) if below is None else bisect_left(numbers, below)
        return (numbers[index] for index in range(end - 1, -1, -1))

    def _add(self, key: Hashable, number: int) -> None:
        posting = self._postings.get(key, number)
        if isinstance(posting, int):
            self._postings[key] = number if posting == number else array("I", sorted((posting, number)))
        elif posting[-1] < number:
            posting.append(number)
        else:
            index = bisect_left(posting, number)
            if posting[index] != number:
                posting.insert(index, number)

    def _remove(self, key: Hashable, number: int) -> None:
        posting = self._postings.get(key)
        if posting is None:
            return
        if isinstance(posting, int):
            if posting == number:
                del self._postings[key]
            return
        index = bisect_left(posting, number)
        if index < len(posting) and posting[index] == number:
            del posting[index]
        if not posting:
            del self._postings[key]


class SortedIndex:
    """Lists rows by an order of their own. The rows of a key are sorted when they are next read."""

    def __init__(self, schema: Index[Any]) -> None:
        if schema.order is None:
            raise ValueError(f"index {schema.name!r} of {schema.collection!r} has no order")
        self._keys_of = schema.keys
        self._order = schema.order
        self._of_deleted = schema.of_deleted
        self._places: dict[Hashable, list[tuple[Any, int]]] = {}
        self._unsorted: set[Hashable] = set()

    def update(self, number: int, old: Any, new: Any) -> None:  # noqa: ANN401 -- summaries of the table
        """Take in that row `number` changed from one summary to another; None before the first."""
        before = self._entries(number, old)
        after = self._entries(number, new)
        if before == after:
            return
        for key, place in before:
            self._remove(key, place)
        for key, place in after:
            places = self._places.setdefault(key, [])
            if places and places[-1] > place:
                self._unsorted.add(key)
            places.append(place)

    def numbers(self, key: Hashable) -> Sequence[int]:
        """Return the numbers of the rows that have a key, in order."""
        return [number for _, number in self._sort(key)]

    def scan(self, key: Hashable, at_least: Any) -> Iterator[int]:  # noqa: ANN401 -- what `order` returns
        """Yield the numbers of the rows that have a key, in order, from `at_least` on."""
        places = self._sort(key)
        start = 0 if at_least is None else bisect_left(places, (at_least,))
        return (places[index][1] for index in range(start, len(places)))

    def scan_desc(self, keys: Iterable[Hashable], below: Any) -> Iterator[int]:  # noqa: ANN401 -- what `order` returns
        """Yield the numbers of the rows that have any of some keys, each once, last first."""
        found = merge(*(self._scan_desc(key, below) for key in keys), reverse=True)
        return _distinct(number for _, number in found)

    def _scan_desc(self, key: Hashable, below: Any) -> Iterator[tuple[Any, int]]:  # noqa: ANN401 -- what `order` returns
        places = self._sort(key)
        end = len(places) if below is None else bisect_left(places, (below,))
        return (places[index] for index in range(end - 1, -1, -1))

    def _entries(self, number: int, summary: Any) -> list[tuple[Hashable, tuple[Any, int]]]:  # noqa: ANN401 -- any JSON
        if summary is None or not (summary.live or self._of_deleted):
            return []
        place = (self._order(summary), number)
        return [(key, place) for key in self._keys_of(summary)]

    def _remove(self, key: Hashable, place: tuple[Any, int]) -> None:
        places = self._sort(key)
        del places[bisect_left(places, place)]
        if not places:
            del self._places[key]

    def _sort(self, key: Hashable) -> list[tuple[Any, int]]:
        places = self._places.get(key, [])
        if key in self._unsorted:
            # A new list: a long decision reads in a thread of its own, and a list is empty while it is sorted.
            places = self._places[key] = sorted(places)
            self._unsorted.discard(key)
        return places


class RunningTotals:
    """Sums by group and key, kept up with each change. A key whose sum is 0 is not there."""

    def __init__(self, schema: Totals[Any]) -> None:
        self._amounts = schema.amounts
        self._of_deleted = schema.of_deleted
        self._sums: dict[Hashable, dict[Hashable, int]] = {}

    def update(self, _number: int, old: Any, new: Any) -> None:  # noqa: ANN401 -- summaries of the table
        """Take in that a row changed from one summary to another; None before the first."""
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


def _distinct(numbers: Iterable[int]) -> Iterator[int]:
    last = -1
    for number in numbers:
        if number != last:
            yield number
        last = number


class InMemoryTable:
    """A table whose row texts are in memory. Rows are numbered from 0 in the order of their creation."""

    def __init__(self, schema: TableSchema[Any]) -> None:
        self.summarize = schema.summarize
        self._add_defaults = schema.add_defaults if schema.defaults else None
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
        if number is None:
            return None
        return self._texts[number] if self._add_defaults is None else self._add_defaults(self._texts[number])

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
