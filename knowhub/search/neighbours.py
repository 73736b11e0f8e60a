"""A graph of near vectors, for accounts with so many that comparing a query with each would be felt.

It is kept in memory only: building it needs no embedder, and until it stands the exact comparison answers.
"""

from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

_CONNECTIONS: Final = 24
_EXPANSION_ADD: Final = 128
_EXPANSION_SEARCH: Final = 256


class Neighbours:
    """The first `rows` rows of an account's vectors, each linked to some that are like it."""

    def __init__(self, dimensions: int) -> None:
        self.rows = 0
        self._lock = Lock()
        self._graph = Index(
            ndim=dimensions,
            metric="ip",
            dtype="f16",
            connectivity=_CONNECTIONS,
            expansion_add=_EXPANSION_ADD,
            expansion_search=_EXPANSION_SEARCH,
        )

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Take in the rows that come next. Meant for a thread: it is busy for a millisecond a row."""
        keys = np.arange(self.rows, self.rows + len(vectors), dtype=np.uint64)
        with self._lock:
            self._graph.add(keys, vectors, threads=1)
        self.rows += len(vectors)

    def nearest(self, query: NDArray[np.float32], many: int) -> NDArray[np.int64]:
        """Return which rows are near to a query, nearly always the nearest, in the order in which they lie."""
        with self._lock:
            found = self._graph.search(query, min(many, self.rows), threads=1)
        return np.sort(found.keys.astype(np.int64))
