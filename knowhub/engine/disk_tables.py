"""Tables whose row texts stay in the log: millions of rows, with a few bytes of memory for each."""

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from knowhub.core import scopes
from knowhub.core.table_schema import DiskStorage, TableSchema
from knowhub.engine.disk_rows import ChangeNumbers, DiskRows, LineRows, LogLine, ReadText

_LIVE = 1
_REWRITTEN = 2
# Rows with the same last bits of their text keys are listed together: a list for each key would cost more than the row.
_BUCKET_MASK = 0xFFFF
_NO_TOTALS: Mapping[Hashable, int] = {}


class _AccessRow(msgspec.Struct, frozen=True):
    """What a disk table reads of a row."""

    id: str
    owner: str
    scopes: list[str]
    content: str = ""
    deleted: bool = False
    version: int = 1


_decode_access: Final = msgspec.json.Decoder(_AccessRow).decode


class KeyedRow(NamedTuple):
    """What a disk table keeps of a row."""

    id: str
    owner: str
    scopes: list[str]
    state: int
    text_key: int


class DiskTable:
    """Rows with an owner and scopes. They are found by the keys of their texts, and by the numbers of their changes."""

    def __init__(self, schema: TableSchema[Any], storage: DiskStorage[Any], read: ReadText) -> None:
        if list(schema.indexes) != [storage.by_text] or schema.totals:
            raise ValueError(f"{schema.name!r} is on disk: it can have no index but that of its texts")
        self._summarize = storage.summarize
        self._text_key = storage.text_key
        self._by_text = storage.by_text.name
        self._texts = DiskRows(read)
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._accesses: list[tuple[str, frozenset[str]]] = []
        self._access_numbers: dict[tuple[str, ...], int] = {}
        self._access = array("I")
        self._states = bytearray()
        self._changes = ChangeNumbers()
        self._text_keys = array("q")
        self._buckets: dict[int, array[int]] = {}

    def load(self, texts: Sequence[bytes], numbers: Sequence[int], line: LogLine) -> None:
        """Store rows with their new content. A thousand new rows in one call cost little each."""
        self._put(LineRows.locate(self._read_row, texts, line), numbers)

    def _put(self, batch: LineRows[KeyedRow], changes: Sequence[int]) -> None:
        """Store the rows of a line; `changes` has the change number of each."""
        first = len(self._ids)
        numbers = list(map(self._numbers.setdefault, [row.id for row in batch.rows], count(first)))
        if numbers == list(range(first, first + len(numbers))):
            self._add(batch, changes)
            return
        for index, row in enumerate(batch.rows):
            number = self._numbers[row.id]
            if number >= len(self._ids):
                self._numbers[row.id] = len(self._ids)
                self._add(batch.part(index, index + 1), changes[index : index + 1])
            else:
                self._access[number] = self._access_number(row.owner, row.scopes)
                self._states[number] = row.state
                self._changes.replace(number, changes[index])
                self._put_text_key(number, row.text_key)
                self._texts.replace(number, batch.segment, batch.offsets[index], batch.texts[index])

    def move(self, ids: Sequence[str], texts: Sequence[bytes], line: LogLine) -> None:
        for row_id, text, offset in zip(ids, texts, line.offsets_of(texts), strict=True):
            self._texts.move(self._numbers[row_id], line.segment, offset, text)

    def add_missing(self, row_id: str) -> int:
        """Add a row whose own line is damaged, and return its number: what refers to it can still be read."""
        row = KeyedRow(row_id, "", [], state=0, text_key=self._text_key(""))
        self._put(LineRows(0, [row], [b""], [-1], [0]), [0])
        return len(self._ids) - 1

    def __len__(self) -> int:
        return len(self._ids)

    def id_at(self, number: int) -> str:
        """Return the id of a row."""
        return self._ids[number]

    def number(self, row_id: str) -> int | None:
        return self._numbers.get(row_id)

    def text(self, row_id: str) -> bytes | None:
        number = self._numbers.get(row_id)
        return None if number is None else self._texts.text(number) or None

    def summary(self, row_id: str) -> Any:  # noqa: ANN401 -- of the table's schema
        number = self._numbers.get(row_id)
        return None if number is None else self._summary(number)

    def rows(self) -> Iterator[Any]:
        return (self._summary(number) for number in range(len(self._ids)) if self._states[number] & _LIVE)

    def rows_desc(self, below: int | None, *, of_deleted: bool) -> Iterator[Any]:
        end = len(self._ids) if below is None else min(below, len(self._ids))
        return (
            self._summary(number) for number in range(end - 1, -1, -1) if of_deleted or self._states[number] & _LIVE
        )

    def find(self, _index: str, change: int) -> Any:  # noqa: ANN401 -- of the table's schema
        """Return the summary of the row that a change wrote last; None if another has rewritten it since."""
        number = self._changes.find(change)
        return None if number is None else self._summary(number)

    def changes_after(self, change: int) -> list[int]:
        """Return the numbers of the changes after this one that wrote a live row last, ascending."""
        return [found for found, number in self._changes.iter_after(change) if self._states[number] & _LIVE]

    def lookup(self, index: str, key: Any) -> list[Any]:  # noqa: ANN401 -- a text key, and any key to the type checker
        if index != self._by_text:
            raise KeyError(index)
        numbers = sorted(set(self._buckets.get(key & _BUCKET_MASK, ())))
        found = (number for number in numbers if self._text_keys[number] == key and self._states[number] & _LIVE)
        return [self._summary(number) for number in found]

    def count(self, index: str, key: Hashable) -> int:
        return len(self.lookup(index, key))

    def scan(self, index: str, _key: Hashable, _at_least: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        raise KeyError(index)

    def scan_desc(self, index: str, _keys: Iterable[Hashable], _below: Any) -> Iterator[Any]:  # noqa: ANN401 -- any JSON
        raise KeyError(index)

    def totals(self, _name: str, _group: Hashable) -> Mapping[Hashable, int]:
        return _NO_TOTALS

    def _add(self, batch: LineRows[KeyedRow], changes: Sequence[int]) -> None:
        """Add new rows, which have their numbers."""
        self._ids.extend([row.id for row in batch.rows])
        self._access.extend([self._access_number(row.owner, row.scopes) for row in batch.rows])
        self._states.extend([row.state for row in batch.rows])
        self._changes.extend(changes)
        self._text_keys.extend([0] * len(batch.rows))
        for number, row in enumerate(batch.rows, len(self._ids) - len(batch.rows)):
            self._put_text_key(number, row.text_key)
        self._texts.extend(batch)

    def _read_row(self, text: bytes) -> KeyedRow:
        row = _decode_access(text)
        state = (0 if row.deleted else _LIVE) | (_REWRITTEN if row.version > 1 else 0)
        return KeyedRow(row.id, row.owner, row.scopes, state, self._text_key(row.content))

    def _put_text_key(self, number: int, key: int) -> None:
        self._text_keys[number] = key
        # An entry of an earlier text stays: a lookup compares the keys.
        self._buckets.setdefault(key & _BUCKET_MASK, array("I")).append(number)

    def _access_number(self, owner: str, own_scopes: Sequence[str]) -> int:
        key = (owner, *own_scopes)
        number = self._access_numbers.get(key)
        if number is None:
            number = self._access_numbers[key] = len(self._accesses)
            self._accesses.append((owner, scopes.audience(tuple(own_scopes), owner)))
        return number

    def _summary(self, number: int) -> Any:  # noqa: ANN401 -- of the table's schema
        owner, audience = self._accesses[self._access[number]]
        state = self._states[number]
        return self._summarize(
            self._ids[number],
            number,
            owner,
            audience,
            bool(state & _LIVE),
            self._text_keys[number],
            self._changes.of(number),
            bool(state & _REWRITTEN),
        )
