"""What layered memories need from outside."""

from collections.abc import Callable, Sequence
from typing import Protocol

from knowhub.context.model import ContextSummary
from knowhub.core.operation import Operation
from knowhub.core.recall import SearchHits


class ContextIndex(Protocol):
    """Finds nodes and parts by their L0 text. It has no content: a search opens no L2."""

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[ContextSummary], bool],
        limit: int,
    ) -> SearchHits[ContextSummary]:
        """Return the `limit` best that have one facet of each group and are accepted, best first.

        Relevances are comparable within one answer only.
        """

    def matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of a query that occur in any of `fields`."""


class ContextDirectories(Protocol):
    """The directories of the nodes: derived from the log, for people and tools to read."""

    async def project(self, account: str, operation: Operation) -> bool:
        """Bring the directories of the nodes that an operation wrote up to it; False where that has to wait.

        Never raises for a disk that fails: the leader repairs what is missing.
        """
