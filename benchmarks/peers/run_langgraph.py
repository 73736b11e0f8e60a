"""LangGraph's InMemoryStore with an index of vectors, one namespace for each scope."""

from collections.abc import Sequence
from pathlib import Path

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from benchmarks.peers.measure import TOP_K, Document, Embeddings, measure

_BATCH = 64


class LangGraphPeer:
    """A store in memory."""

    note = ""

    def __init__(self, _folder: Path, embeddings: Embeddings) -> None:
        self._store = InMemoryStore(
            index={"dims": embeddings.dimensions, "embed": embeddings.embed, "fields": ["text"]}
        )

    def load(self, documents: Sequence[Document]) -> None:
        """See `Peer.load`."""
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            self._store.batch([PutOp((item.scope,), item.id, {"text": item.text}) for item in batch])

    def search(self, query: str, scope: str) -> list[str]:
        """See `Peer.search`."""
        return [item.key for item in self._store.search((scope,), query=query, limit=TOP_K)]


if __name__ == "__main__":
    measure(LangGraphPeer)
