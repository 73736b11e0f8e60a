"""A graph of near vectors, for accounts that are too large for exact comparison.

It is in memory only. Until it is built, vectors are compared exactly.
"""

from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

_CONNECTIONS: Final = 24
_EXPANSION_ADD: Final = 128
_EXPANSION_SEARCH: Final = 256


class VectorGraph:
    """The first `rows` vectors of an account, each linked to similar ones."""

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
        """Add the next rows. Meant for a thread: it takes a millisecond per row."""
        keys = np.arange(self.rows, self.rows + len(vectors), dtype=np.uint64)
        with self._lock:
            self._graph.add(keys, vectors, threads=1)
        self.rows += len(vectors)

    def search(self, query: NDArray[np.float32], many: int) -> NDArray[np.int64]:
        """Return rows that are near to a query, in the order of the rows."""
        with self._lock:
            found = self._graph.search(query, min(many, self.rows), threads=1)
        return np.sort(found.keys.astype(np.int64))
