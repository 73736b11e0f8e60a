"""How the rows of a collection are held in memory: the summary of each row, and the keys by which rows are found.

A domain declares one schema for each of its collections. The engine builds tables and indexes from it, and the
views of a store answer their queries with them.
"""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar


class Summary(Protocol):
    """What memory holds of a row beside its JSON text: what filters, lists and indexes need."""

    @property
    def id(self) -> str:
        """The id of the row."""

    @property
    def live(self) -> bool:
        """Whether queries return the row; a deleted row is not live."""


SummaryT = TypeVar("SummaryT", bound=Summary)


@dataclass(frozen=True, eq=False)
class Index(Generic[SummaryT]):
    """Finds rows of a collection by keys that are computed from their summaries.

    Rows with the same key are listed in the order of their creation, or by `order` where that is given. Rows that are
    not live have no keys, unless `of_deleted`. `target` is set where the index follows a reference: each key is then
    the id of a row of that collection.
    """

    collection: str
    name: str
    keys: Callable[[SummaryT], Collection[Hashable]]
    order: Callable[[SummaryT], Any] | None = None
    of_deleted: bool = False
    target: str | None = None


@dataclass(frozen=True, eq=False)
class Totals(Generic[SummaryT]):
    """Adds up numbers over rows: `amounts` returns (group, key, amount) for each number that a row adds.

    Rows that are not live add nothing, unless `of_deleted`.
    """

    collection: str
    name: str
    amounts: Callable[[SummaryT], Iterable[tuple[Hashable, Hashable, int]]]
    of_deleted: bool = False


@dataclass(frozen=True, eq=False)
class DiskStorage(Generic[SummaryT]):
    """Row texts stay in the log. Memory holds the id of each row, whether it is live, its owner, audience and text key.

    `summarize` makes a summary of (id, ordinal, owner, audience, live, text key, number of the last change, whether the
    row was rewritten). The text key is what `text_key` makes of the row's `content`, a 64-bit number; `by_text` finds
    rows by it.
    """

    summarize: Callable[[str, int, str, frozenset[str], bool, int, int, bool], SummaryT]
    text_key: Callable[[str], int]
    by_text: Index[SummaryT]


@dataclass(frozen=True, eq=False)
class EdgeStorage(Generic[SummaryT]):
    """Each row links a row of the collection `source` to another row, with one of a few labels; texts stay in the log.

    The fields of a row hold the two ids and the label. `ends` splits a row's id into the ids of its source and its
    target. `summarize` makes a summary of (source id, target id, label, live). Rows are found by their source, by
    their target, and by (target, label); those of a target are listed by the age of their sources.
    """

    source: str
    source_field: str
    target_field: str
    label_field: str
    labels: Sequence[str]
    ends: Callable[[str], tuple[str, str]]
    summarize: Callable[[str, str, str, bool], SummaryT]
    by_source: Index[SummaryT]
    by_target: Index[SummaryT]


@dataclass(frozen=True, eq=False)
class TableSchema(Generic[SummaryT]):
    """How the rows of one collection are held.

    `summarize(row, ordinal, change_number, earlier)` makes the summary of a row. `ordinal` counts the rows of the
    collection in the order of their creation. `change_number` names this version of the row, and is the same in every
    process. `earlier` is the summary of the version before. It raises KeyError, TypeError or ValueError for a row of
    another shape. Without it, rows are only found by their ids.

    Row texts are in memory, unless `storage` says that they stay in the log.

    `searched_value(row)` returns what search looks at. While it stays the same, a row keeps its change number, also
    when a compaction forgets the change. It is a function of a module: a child process imports it by its name.

    `defaults` are the fields that older rows lack, with the values that they are read with; `storage` has none.
    `summarize` and `searched_value` are given rows without them.
    """

    name: str
    summarize: Callable[[Mapping[str, Any], int, int, SummaryT | None], SummaryT] | None = None
    indexes: Sequence[Index[SummaryT]] = ()
    totals: Sequence[Totals[SummaryT]] = ()
    storage: DiskStorage[SummaryT] | EdgeStorage[SummaryT] | None = None
    searched_value: Callable[[Mapping[str, Any]], Hashable] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def index(self, name: str) -> Index[SummaryT]:
        """Return an index by its name. Raises KeyError."""
        for index in self.indexes:
            if index.name == name:
                return index
        raise KeyError(name)

    def add_defaults(self, text: bytes, row: Mapping[str, Any]) -> bytes:
        """Return the text of a row with the fields that the row lacks, at its end."""
        if not self.defaults:
            return text
        missing = {name: value for name, value in self.defaults.items() if name not in row}
        if not missing:
            return text
        return json.dumps({**row, **missing}, ensure_ascii=False, separators=(",", ":")).encode()


TableSchemas: TypeAlias = Mapping[str, TableSchema[Any]]
"""Schemas by the names of their collections, in the order of their declaration."""
