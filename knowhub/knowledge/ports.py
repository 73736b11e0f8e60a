"""The ports of knowledge."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from knowhub.core.operation import Commits, Operation, View
from knowhub.core.recall import SearchHits
from knowhub.knowledge.model import KnowledgeSummary


class KnowledgeStore(Commits[View], Protocol):
    """The store: durable decisions, and reads that see every acknowledged write."""

    async def refresh(self) -> None:
        """Apply the writes of other processes. Without any, this costs one memory read."""

    def view(self, account: str) -> View:
        """Return the acknowledged state of one account."""

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        """Return the operations of a group, in order."""

    def operations_on(self, account: str, collection: str, row_id: str) -> AsyncIterator[Operation]:
        """Yield the operations that touched a row, newest first."""


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
