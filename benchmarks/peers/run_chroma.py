"""Chroma on disk, one collection for each scope."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import chromadb
from chromadb.config import Settings

from benchmarks.peers.measure import TOP_K, Document, Embeddings, measure

_BATCH = 1_000


class ChromaPeer:
    """A persistent client."""

    note = ""

    def __init__(self, folder: Path, embeddings: Embeddings) -> None:
        settings = Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(path=str(folder / "chroma"), settings=settings)
        self._embeddings = embeddings
        self._collections: dict[str, chromadb.Collection] = {}

    def load(self, documents: Sequence[Document]) -> None:
        """See `Peer.load`."""
        by_scope: defaultdict[str, list[Document]] = defaultdict(list)
        for document in documents:
            by_scope[document.scope].append(document)
        for scope, found in by_scope.items():
            collection = self._client.create_collection(f"scope-{scope}", embedding_function=None)
            self._collections[scope] = collection
            for start in range(0, len(found), _BATCH):
                batch = found[start : start + _BATCH]
                texts = [item.text for item in batch]
                vectors = self._embeddings.embed(texts)
                collection.add(ids=[item.id for item in batch], documents=texts, embeddings=vectors)

    def search(self, query: str, scope: str) -> list[str]:
        """See `Peer.search`."""
        vectors = self._embeddings.embed([query])
        found = self._collections[scope].query(query_embeddings=vectors, n_results=TOP_K)
        return [str(item) for item in found["ids"][0]]


if __name__ == "__main__":
    measure(ChromaPeer)
