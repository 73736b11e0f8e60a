"""What each kind of row is searched by: knowledge records, memories, keywords and infos."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol, TypeVar

from knowhub.context import texts
from knowhub.context.model import NODES, PARTS, MemoryCategory
from knowhub.context.queries import SEARCHED_TEXTS as MEMORY_TEXTS
from knowhub.context.queries import make_facet
from knowhub.core.operation import Row
from knowhub.core.recall import tag_facets
from knowhub.core.table_schema import Index
from knowhub.keywords.tree import SEARCHED_TEXTS as TREE_TEXTS
from knowhub.knowledge.table import SEARCHED_TEXTS as RECORD_TEXTS
from knowhub.search.analysis import index_terms, iterate_terms

_TASK_WEIGHT: Final = 3
_NAME_WEIGHT: Final = 2
# About one page, and more than most embedders read.
_EMBEDDED_CHARS: Final = 2_000
_WORDS_OF_A_MEMORY: Final = 0.2
MAX_MEMORY_ATTEMPTS: Final = 5
"""A memory that the embedder rejected so often is a dead letter of the outbox."""
_OF_SESSIONS: Final = make_facet("category", MemoryCategory.SESSIONS.value)


class Searchable(Protocol):
    """The summary of a row, without its text.

    `text_change` is the number of the change that last wrote the text: an entry with an older number is outdated.
    `facets` are the values by which a search can be filtered. A row `is_rewritten` if there was an earlier version.
    """

    @property
    def id(self) -> str: ...
    @property
    def text_change(self) -> int: ...
    @property
    def live(self) -> bool: ...
    @property
    def is_rewritten(self) -> bool: ...
    @property
    def facets(self) -> frozenset[str]: ...


SearchableT = TypeVar("SearchableT", bound=Searchable)


class Texts(ABC):
    """What a kind of row is searched by. `indexes` find its rows by the number of their text, one a collection.

    A search analyses rows that are not in the index yet for `search_wait_s`. Of each collection `max_embedded` rows
    have a vector, the oldest first; others are found by words. A text that the embedder rejects is tried
    `max_attempts` times. None is no limit.
    """

    indexes: ClassVar[Sequence[Index[Any]]]
    search_wait_s: ClassVar[float] = 2.0
    max_embedded: ClassVar[int | None] = None
    max_attempts: ClassVar[int | None] = None

    @abstractmethod
    def terms(self, row: Row) -> Iterator[Sequence[str]]:
        """Yield the terms of a row in parts of bounded length; repeats add weight."""

    @abstractmethod
    def embedding_text(self, row: Row) -> str:
        """Return the text of a row that is embedded."""

    def get_vector_weight(self, summary: Searchable, weight: float) -> float:  # noqa: ARG002 -- for those that depend on it
        """Return the share of the vector in the score of a row, where `weight` is the share that is configured."""
        return weight


class KnowledgeTexts(Texts):
    """A record is searched by its task, which counts most, its content and its tags."""

    indexes = RECORD_TEXTS

    def terms(self, row: Row) -> Iterator[Sequence[str]]:
        for part in iterate_terms(row["task"]):
            yield part * _TASK_WEIGHT
        yield from iterate_terms(row["content"])
        for name in tag_facets(row["tags"]):
            yield _tag_terms(name)

    def embedding_text(self, row: Row) -> str:
        return _truncate(f"{row['task']}\n{row['content']}")


class ContextTexts(Texts):
    """A node is searched by its L0 text, a part of a session by its own text, both also by their days."""

    indexes = MEMORY_TEXTS
    max_attempts = MAX_MEMORY_ATTEMPTS

    def terms(self, row: Row) -> Iterator[Sequence[str]]:
        collection = _get_collection(row)
        yield from iterate_terms(texts.get_indexed_text(collection, row))
        yield texts.get_indexed_dates(collection, row)

    def embedding_text(self, row: Row) -> str:
        return _truncate(texts.get_indexed_text(_get_collection(row), row))

    def get_vector_weight(self, summary: Searchable, weight: float) -> float:
        """Return the share of the vector in the score of a node or a part.

        The words of an extracted memory are seldom those of who asks, so they have a fifth of their usual share.
        """
        return weight if not weight or _OF_SESSIONS in summary.facets else 1 - _WORDS_OF_A_MEMORY * (1 - weight)


class TreeTexts(Texts):
    """A keyword is searched by its names, which count most, and its description; an info by its content."""

    indexes = TREE_TEXTS
    # After an import there may be millions of rows that are not indexed.
    search_wait_s = 0.2
    max_embedded = 100_000

    def terms(self, row: Row) -> Iterator[Sequence[str]]:
        if not _is_keyword(row):
            yield from iterate_terms(row["content"])
            return
        for name in (row["name"], *row["aliases"]):
            for part in iterate_terms(name):
                yield part * _NAME_WEIGHT
        yield from iterate_terms(row["description"])

    def embedding_text(self, row: Row) -> str:
        if not _is_keyword(row):
            return _truncate(row["content"])
        return _truncate("\n".join(filter(None, (", ".join((row["name"], *row["aliases"])), row["description"]))))


def _is_keyword(row: Row) -> bool:
    return "normalized" in row


def _truncate(text: str) -> str:
    """Return the beginning of a text that is embedded."""
    return text.strip()[:_EMBEDDED_CHARS]


def _get_collection(row: Row) -> str:
    """Return the collection of a row: a part has a session."""
    return PARTS if "session_uri" in row else NODES


@lru_cache(maxsize=4096)
def _tag_terms(facet: str) -> tuple[str, ...]:
    # Most records have the same few tags.
    return tuple(index_terms(facet.removeprefix("tag.")))
