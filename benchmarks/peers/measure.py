"""What each peer's program does: load the texts, answer the questions, and note how long it took.

It runs in the environment of the peer, so it needs the standard library only. Argument: the folder in which
`benchmarks.peers.compare` has put `task.json`. It answers `result.json` there.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

TOP_K = 10
_EMBEDDED_TOGETHER = 64
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and the user or project that it belongs to."""

    id: str
    text: str
    scope: str


class Peer(Protocol):
    """A program that stores texts and finds them. `note` follows its name in the table."""

    note: str

    def load(self, documents: Sequence[Document]) -> None:
        """Store the texts; return when they can be found."""

    def search(self, query: str, scope: str) -> list[str]:
        """Return the ids of the best ten texts of a scope, best first."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The server of the vectors that all peers share. It speaks the protocol of OpenAI."""

    url: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _EMBEDDED_TOGETHER):
            body = json.dumps({"model": "shared", "input": list(texts[start : start + _EMBEDDED_TOGETHER])}).encode()
            request = urllib.request.Request(  # noqa: S310 -- the address of the benchmark's own server
                f"{self.url}/embeddings", data=body, headers={"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 -- as above
                vectors += [item["embedding"] for item in json.load(answer)["data"]]
        return vectors


def measure(open_peer: Callable[[Path, Embeddings], Peer]) -> None:
    """Run the task that the first argument names with a peer, which may keep files in the folder."""
    folder = Path(sys.argv[1])
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    peer = open_peer(folder, Embeddings(task["url"], task["dimensions"]))
    documents = [Document(**item) for item in task["documents"]]
    started = time.perf_counter()
    peer.load(documents)
    load_s = time.perf_counter() - started
    ranked: dict[str, list[str]] = {}
    search_s: list[float] = []
    for query in task["queries"]:
        started = time.perf_counter()
        ranked[query["id"]] = peer.search(query["text"], query["scope"])
        search_s.append(time.perf_counter() - started)
    result = {"ranked": ranked, "load_s": load_s, "search_s": search_s, "note": peer.note}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
