"""What a search index needs of rows: their summaries, and the texts by which they are searched."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from knowhub.core.operation import Row
from knowhub.core.table_schema import Index


class Searchable(Protocol):
    """The summary of a row, without its text.

    `text_num` is the number of the change that last wrote the text: an entry with an older number is outdated. `facets`
    are the values by which a search can be filtered. A row `is_rewritten` if there was an earlier version.
    """

    @property
    def id(self) -> str: ...
    @property
    def text_num(self) -> int: ...
    @property
    def live(self) -> bool: ...
    @property
    def is_rewritten(self) -> bool: ...
    @property
    def facets(self) -> frozenset[str]: ...


HeadT = TypeVar("HeadT", bound=Searchable)


class Texts(Protocol):
    """What a kind of row is searched by."""

    @property
    def indexes(self) -> Sequence[Index[Any]]:
        """The indexes that find these rows by the number of their text, one for each of their collections."""

    def terms(self, row: Row) -> Iterator[Sequence[str]]:
        """Yield the terms of a row in parts of bounded length; repeats add weight."""

    def size(self, row: Row) -> int:
        """Return about how many characters `terms` reads."""

    def embedding_text(self, row: Row) -> str:
        """Return the text of a row that is embedded."""

    def weigh_vector(self, head: Searchable, weight: float) -> float:
        """Return the share of the vector in the score of a row, where `weight` is the share that is configured."""
