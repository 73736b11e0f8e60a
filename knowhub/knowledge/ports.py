"""What knowledge needs from outside."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Protocol

from knowhub.core.operation import Commits, Operation, View
from knowhub.core.recall import Recalled
from knowhub.knowledge.model import Head, ListQuery


class KnowledgeView(View, Protocol):
    """The newest state of one account, as a decision sees it."""

    def head(self, knowledge_id: str) -> Head | None:
        """Return the head of a record, a deleted one too (`live` is False)."""

    def duplicates(self, duplicate_key: bytes) -> Sequence[Head]:
        """Return the live records with this key, oldest first."""

    def superseders(self, knowledge_id: str) -> Sequence[Head]:
        """Return the live records that say they supersede this one."""

    def page(self, query: ListQuery) -> Sequence[Head]:
        """Return up to `limit` heads, live or deleted, below ordinal `before` that pass every filter, newest first."""

    def live_heads(self) -> Iterator[Head]:
        """Yield every live head, oldest first."""

    def raw(self, collection: str, row_id: str) -> bytes | None:
        """Return the row as JSON text, a tombstone too; None when the id was never used."""


class KnowledgeStore(Commits[KnowledgeView], Protocol):
    """Where records live: durable decisions, and reads that see every acknowledged write."""

    async def refresh(self) -> None:
        """Take in what other processes have acknowledged; costs one memory read when there is nothing."""

    def view(self, account: str) -> KnowledgeView:
        """Return the acknowledged state of one account."""

    async def group(self, account: str, group_id: str) -> Sequence[Operation]:
        """Return the operations of a group, in order."""

    def operations_on(self, account: str, collection: str, row_id: str) -> AsyncIterator[Operation]:
        """Yield the operations that touched a row, newest first."""


class KnowledgeIndex(Protocol):
    """Recall by meaning of words. It knows only text; visibility and rules come in with the call."""

    async def search(
        self,
        account: str,
        text: str,
        groups: Sequence[frozenset[str]],
        accept: Callable[[Head], bool],
        limit: int,
    ) -> Recalled[Head]:
        """Return the `limit` most relevant records that pass, always so many when they exist.

        A record passes when it has one facet of each of `groups` and `accept` lets it through.
        """

    def matched_terms(self, text: str, *fields: str) -> list[str]:
        """Return the terms of the query that stand in any of `fields`, for explanations."""
