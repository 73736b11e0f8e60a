"""What an index that follows the log reads: the log's own mark, the rows of an account, and what they are found by."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from knowhub.core.operation import Row


class Searchable(Protocol):
    """What an index knows of a row without its text.

    `text_num` names the change that last wrote what is searched, so that an entry that carries an older number is
    known to be stale. A row has one facet for each thing by which a search can be narrowed.
    """

    @property
    def id(self) -> str: ...
    @property
    def text_num(self) -> int: ...
    @property
    def live(self) -> bool: ...
    @property
    def version(self) -> int: ...
    @property
    def facets(self) -> frozenset[str]: ...


HeadT = TypeVar("HeadT", bound=Searchable)
_HeadT_co = TypeVar("_HeadT_co", bound=Searchable, covariant=True)


class Records(Protocol[_HeadT_co]):
    """What an index reads of the store: heads, and text by id."""

    def head(self, row_id: str) -> _HeadT_co | None: ...
    def by_text_num(self, text_num: int) -> _HeadT_co | None: ...
    def row(self, row_id: str) -> Row: ...
    def heads(self) -> Iterator[_HeadT_co]: ...
    def seq_of(self, text_num: int) -> int: ...


class Texts(Protocol):
    """What the rows of one family are found by."""

    @property
    def collections(self) -> frozenset[str]:
        """The collections that the family's rows stand in."""

    def terms(self, row: Row) -> list[str]:
        """Return the terms of a row, each as often as it counts."""

    def embedded(self, row: Row) -> str:
        """Return what of a row is embedded."""


class LogMark(Protocol):
    """Where the log stands, for an index that must fit it."""

    @property
    def log_id(self) -> str: ...
    @property
    def last_seq(self) -> int: ...
    @property
    def erases(self) -> int: ...
    @property
    def is_erasing(self) -> bool: ...
    def checksum(self, seq: int) -> str: ...


def touches(changes: Sequence[Any], collections: frozenset[str]) -> bool:
    """Tell whether an operation has changed a row of one of `collections`."""
    return any(change.collection in collections for change in changes)
