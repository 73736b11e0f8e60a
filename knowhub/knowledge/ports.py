"""The ports of knowledge."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from knowhub.core.recall import SearchIndex
from knowhub.knowledge.model import KnowledgeSummary

FindSimilar: TypeAlias = Callable[
    [str, KnowledgeSummary, str, Sequence[frozenset[str]], Callable[[KnowledgeSummary], bool], int],
    Awaitable[Sequence[tuple[float, KnowledgeSummary]]],
]
"""Takes (account, record, its text, groups, accept, limit); returns the nearest records by meaning.

Each has its similarity. It is 0 between unrelated texts and 1 for the same.
"""

KnowledgeIndex: TypeAlias = SearchIndex[KnowledgeSummary]
"""Finds records by their texts."""
