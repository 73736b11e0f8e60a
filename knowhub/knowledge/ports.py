"""The ports of knowledge."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from knowhub.core.recall import SearchHits
from knowhub.knowledge.model import KnowledgeSummary

FindLike: TypeAlias = Callable[
    [str, KnowledgeSummary, str, Sequence[frozenset[str]], Callable[[KnowledgeSummary], bool], int],
    Awaitable[Sequence[tuple[float, KnowledgeSummary]]],
]
"""Takes (account, record, its text, groups, accept, limit); returns the nearest records by meaning with a likeness.

Likeness is 0 between unrelated texts and 1 for the same.
"""


class KnowledgeIndex(Protocol):
    """A search index over texts. The caller supplies visibility and filters."""

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[KnowledgeSummary], bool],
        limit: int,
    ) -> SearchHits[KnowledgeSummary]:
        """Return the `limit` most relevant records that pass; fewer only if fewer pass.

        A record passes if it has one facet of each group, and `accept` returns True.
        """

    def matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of the query that occur in `fields`, for explanations."""
