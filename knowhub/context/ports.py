"""What layered memories need from outside."""

from typing import Protocol, TypeAlias

from knowhub.context.model import ContextSummary
from knowhub.core.operation import Operation
from knowhub.core.recall import SearchIndex

ContextIndex: TypeAlias = SearchIndex[ContextSummary]
"""Finds nodes and parts by their L0 text. It has no content: a search opens no L2."""


class ContextDirectories(Protocol):
    """The directories of the nodes: derived from the log, for people and tools to read."""

    async def project(self, account: str, operation: Operation) -> bool:
        """Bring the directories of the nodes that an operation wrote up to it; False where that has to wait.

        Never raises for a disk that fails: the leader repairs what is missing.
        """
