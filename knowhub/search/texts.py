"""What each family of rows is found by: records of knowledge, and layered memories."""

from functools import lru_cache
from typing import Final

from knowhub.context import l0
from knowhub.context.model import NODES, PARTS
from knowhub.core.operation import Row
from knowhub.knowledge.heads import tag_facets
from knowhub.knowledge.model import COLLECTION
from knowhub.search.analysis import index_terms

_TASK_WEIGHT: Final = 3
# More than most embedders read of a text, and about what one page holds.
_EMBEDDED_CHARS: Final = 2_000


class KnowledgeTexts:
    """A record is found by its task, which counts most, by its content and by its tags."""

    collections = frozenset({COLLECTION})

    def terms(self, row: Row) -> list[str]:
        """Return the terms of a record, each as often as it counts."""
        terms = index_terms(row["task"]) * _TASK_WEIGHT + index_terms(row["content"])
        for name in tag_facets(row["tags"]):
            terms += _tag_terms(name)
        return terms

    def embedded(self, row: Row) -> str:
        """Return what of a record is embedded."""
        return shortened(f"{row['task']}\n{row['content']}")


class ContextTexts:
    """A node is found by its L0 text, and a part of a session is its own: no other level is looked at.

    Beside its words stand those of its days, of which what is embedded has none.
    """

    collections = frozenset({NODES, PARTS})

    def terms(self, row: Row) -> list[str]:
        """Return the terms of a node or a part."""
        collection = collection_of(row)
        return index_terms(l0.searched_text(collection, row)) + l0.searched_days(collection, row)

    def embedded(self, row: Row) -> str:
        """Return what of a node or a part is embedded."""
        return shortened(l0.searched_text(collection_of(row), row))


def shortened(text: str) -> str:
    """Return what of a text is embedded."""
    return text.strip()[:_EMBEDDED_CHARS]


def collection_of(row: Row) -> str:
    """Tell parts from nodes: what was said stands in a session."""
    return PARTS if "session_uri" in row else NODES


@lru_cache(maxsize=4096)
def _tag_terms(facet: str) -> tuple[str, ...]:
    # The same few tags stand on most records.
    return tuple(index_terms(facet.removeprefix("tag.")))
