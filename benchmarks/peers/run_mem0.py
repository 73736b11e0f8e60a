"""mem0 as a library, with its default store, Qdrant on disk. `infer=False` keeps texts as they are, without a model."""

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.measure import TOP_K, Document, Embeddings, measure


class Mem0Peer:
    """A memory with one user for each scope."""

    note = ""

    def __init__(self, folder: Path, embeddings: Embeddings) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
        from mem0 import Memory  # noqa: PLC0415 -- it reads the environment when it is imported

        vectors = {"path": str(folder / "qdrant"), "embedding_model_dims": embeddings.dimensions, "on_disk": True}
        embedder = {"openai_base_url": embeddings.url, "api_key": "unused", "embedding_dims": embeddings.dimensions}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": vectors},
                "embedder": {"provider": "openai", "config": embedder},
                "llm": {"provider": "openai", "config": {"api_key": "unused"}},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def load(self, documents: Sequence[Document]) -> None:
        """See `Peer.load`."""
        for document in documents:
            self._memory.add(document.text, user_id=document.scope, metadata={"document": document.id}, infer=False)

    def search(self, query: str, scope: str) -> list[str]:
        """See `Peer.search`."""
        found = self._memory.search(query, filters={"user_id": scope}, top_k=TOP_K)
        return [str(item["metadata"]["document"]) for item in found["results"]]


if __name__ == "__main__":
    measure(Mem0Peer)
