"""basic-memory: one note for each text, one project for each scope, its search through the tool of its MCP server.

It embeds the parts of notes that it makes itself, with the shared embedder. It has vectors only where Python can load
extensions of SQLite; elsewhere it is measured by words, and the table says so.
"""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.measure import TOP_K, Document, Embeddings, measure


class BasicMemoryPeer:
    """Projects of notes in the folder."""

    note = "" if hasattr(sqlite3.Connection, "enable_load_extension") else ", words only"

    def __init__(self, folder: Path, embeddings: Embeddings) -> None:
        self._notes = folder / "notes"
        os.environ |= {
            "HOME": str(folder),
            "BASIC_MEMORY_CONFIG_DIR": str(folder / "config"),
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_PROVIDER": "openai",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": "shared",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_DIMENSIONS": str(embeddings.dimensions),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": str(not self.note).lower(),
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "BASIC_MEMORY_LOG_LEVEL": "ERROR",
            "OPENAI_BASE_URL": embeddings.url,
            "OPENAI_API_KEY": "unused",
        }
        self._ids: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()

    def load(self, documents: Sequence[Document]) -> None:
        """See `Peer.load`."""
        for number, document in enumerate(documents):
            name = f"note-{number}"
            self._ids[name] = document.id
            path = self._notes / document.scope / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"---\ntitle: {name}\n---\n\n{document.text}\n", encoding="utf-8")
        program = str(Path(sys.executable).with_name("basic-memory"))
        for folder in sorted(self._notes.iterdir()):
            subprocess.run([program, "project", "add", folder.name, str(folder)], check=True, capture_output=True)
        subprocess.run([program, "reindex"], check=True, capture_output=True)

    def search(self, query: str, scope: str) -> list[str]:
        """See `Peer.search`."""
        from basic_memory.mcp.tools import search_notes  # noqa: PLC0415 -- it reads the environment

        work = search_notes(
            query, project=scope, search_type="text" if self.note else "hybrid", page_size=TOP_K, output_format="json"
        )
        found = self._loop.run_until_complete(work)
        if isinstance(found, str):
            raise TypeError(found)
        names = [Path(str(item["file_path"])).stem for item in found["results"]]
        return [self._ids[name] for name in dict.fromkeys(names)]


if __name__ == "__main__":
    measure(BasicMemoryPeer)
    # Threads of its database would keep the process alive.
    os._exit(0)
