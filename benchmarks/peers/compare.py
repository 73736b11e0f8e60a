"""KnowHub beside mem0, LangGraph's store, Chroma and basic-memory: the same texts, questions and vectors, in one table.

    python -m benchmarks.peers.compare --environments DIR FOLDER [FOLDER ...] [--queries N] [--scopes N]

Each FOLDER holds `docs.jsonl` (id, text; with scope, session and date it is a dialogue), `queries.jsonl` (id, text,
scope) and `qrels.jsonl` (query_id, doc_id, relevance). A peer runs in a virtual environment of its own below
DIR, which is made with pip if it is missing. KnowHub has nothing configured; it is measured over HTTP, dialogues as
sessions.

The vectors of all are those of KnowHub's packaged model. The peers take them from a server of this benchmark, which
embeds each text once beforehand: their times do not include it, and those of KnowHub do. basic-memory divides
texts into parts and has these embedded while it loads.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Self

import httpx

from benchmarks.bench_retrieval import lines, relevance, scores
from benchmarks.peers.measure import TOP_K, Document
from benchmarks.servers import PACKAGED, knowhub, running
from knowhub.providers.local_embedder import LocalEmbedder, find_packaged_model

PEERS = {
    "mem0": ("run_mem0", "python3", ["mem0ai==2.2.1"]),
    "LangGraph": ("run_langgraph", "python3", ["langgraph==1.2.22", "numpy"]),
    "Chroma": ("run_chroma", "python3", ["chromadb==1.5.9"]),
    "basic-memory": ("run_basic_memory", "python3.12", ["basic-memory==0.23.2"]),
}
OURS: Mapping[str, Mapping[str, str]] = {"KnowHub": PACKAGED, "KnowHub, words only": {"KNOWHUB_EMBEDDING": "off"}}
BATCH = 500
_ALL = "all"
_TIMEOUT_S = 3_600
_DATES = ("%Y-%m-%d", "%I:%M %p on %d %B, %Y")


@dataclass(frozen=True, slots=True)
class TestSet:
    """Texts and questions; `documents` are the rows of the file, as they are."""

    name: str
    documents: Sequence[Mapping[str, Any]]
    queries: Sequence[Mapping[str, Any]]
    relevant: Mapping[str, Mapping[str, float]]

    @property
    def is_dialogue(self) -> bool:
        """Whether the texts were said in sessions."""
        return "session" in self.documents[0]


@dataclass(frozen=True, slots=True)
class Measured:
    """The ranking of each question, and times in seconds."""

    ranked: Mapping[str, list[str]]
    load_s: float
    search_s: Sequence[float]
    note: str = ""


async def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=400, help="so many questions of each set at most, evenly taken")
    parser.add_argument("--scopes", type=int, help="the texts and questions of the first N scopes only")
    parser.add_argument("--only", nargs="*", default=[*OURS, *PEERS])
    arguments = parser.parse_args()
    for folder in arguments.folders:
        await _compare(_read(folder, arguments.queries, arguments.scopes), arguments.environments, arguments.only)


async def _compare(test_set: TestSet, environments: Path, names: Sequence[str]) -> None:
    with VectorServer() as vectors:
        texts_s, query_s = await vectors.prepare(test_set)
        print(
            f"\n{test_set.name}: {len(test_set.documents)} texts, {len(test_set.queries)} questions. Embedding took "
            f"{texts_s:.1f} s for the texts and {query_s * 1e3:.1f} ms for a question.\n"
        )
        print("| | recall@10 | nDCG@10 | load | search p50 |\n|---|---|---|---|---|", flush=True)
        for name in names:
            try:
                measured = await (
                    _measure_ours(test_set, OURS[name])
                    if name in OURS
                    else _measure_peer(test_set, environments, name, vectors)
                )
            except RuntimeError as problem:
                print(f"| {name} | not measured: {problem} | | | |", flush=True)
                continue
            found = scores(measured.ranked, test_set.relevant)
            print(
                f"| {name}{measured.note} | {found['recall@10']:.3f} | {found['ndcg@10']:.3f} | "
                f"{measured.load_s:.1f} s | {median(measured.search_s) * 1e3:.1f} ms |",
                flush=True,
            )


def _read(folder: Path, limit: int, scope_limit: int | None) -> TestSet:
    relevant = relevance(folder)
    documents = [row for row in lines(folder / "docs.jsonl") if row["text"].strip()]
    scopes = list(dict.fromkeys(row.get("scope", _ALL) for row in documents))[:scope_limit]
    documents = [row for row in documents if row.get("scope", _ALL) in scopes]
    queries = [query for query in lines(folder / "queries.jsonl") if query["id"] in relevant]
    queries = [query for query in queries if query.get("scope", _ALL) in scopes]
    step = max(1, len(queries) / limit)
    queries = [queries[int(number * step)] for number in range(min(limit, len(queries)))]
    return TestSet(folder.name, documents, queries, {query["id"]: relevant[query["id"]] for query in queries})


class VectorServer:
    """Serves vectors of the packaged model by the protocol of OpenAI. White space makes no difference."""

    def __init__(self) -> None:
        files = find_packaged_model()
        if files is None:
            raise RuntimeError("the extra `local` is not installed")
        self._embedder = LocalEmbedder(files)
        self._vectors: dict[str, list[float]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self.dimensions = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._embedder.close()

    async def prepare(self, test_set: TestSet) -> tuple[float, float]:
        """Embed everything; return the seconds for all texts, and for a question."""
        loop = asyncio.get_running_loop()
        texts = [str(row["text"]) for row in test_set.documents]
        started = loop.time()
        for start in range(0, len(texts), BATCH):
            await self.embed(texts[start : start + BATCH])
        texts_s = loop.time() - started
        for query in test_set.queries:
            await self.embed([query["text"]])
        return texts_s, (loop.time() - started - texts_s) / len(test_set.queries)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        keys = [" ".join(text.split()) for text in texts]
        missing = list(dict.fromkeys(key for key in keys if key not in self._vectors))
        # As a query: its thread has the priority of the peers.
        found = await self._embedder.embed(missing, _TIMEOUT_S, query=True)
        self._vectors |= {key: [float(item) for item in vector] for key, vector in zip(missing, found, strict=True)}
        self.dimensions = len(next(iter(self._vectors.values())))
        return [self._vectors[key] for key in keys]

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        vectors, loop = self, asyncio.get_running_loop()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                texts = [sent["input"]] if isinstance(sent["input"], str) else sent["input"]
                found = asyncio.run_coroutine_threadsafe(vectors.embed(texts), loop).result(_TIMEOUT_S)
                data = [{"object": "embedding", "index": at, "embedding": item} for at, item in enumerate(found)]
                usage = {"prompt_tokens": 0, "total_tokens": 0}
                body = json.dumps({"object": "list", "model": "shared", "data": data, "usage": usage}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Print nothing."""

        return Handler


async def _measure_peer(test_set: TestSet, environments: Path, name: str, vectors: VectorServer) -> Measured:
    program, interpreter, packages = PEERS[name]
    python = environments / program.removeprefix("run_").replace("_", "-") / "bin" / "python"
    if not python.exists():
        await _run(interpreter, "-m", "venv", str(python.parent.parent))
        await _run(str(python), "-m", "pip", "install", "--quiet", *packages)
    documents = [Document(row["id"], row["text"], row.get("scope", _ALL)) for row in test_set.documents]
    queries = [{"id": row["id"], "text": row["text"], "scope": row.get("scope", _ALL)} for row in test_set.queries]
    task = {
        "documents": [asdict(item) for item in documents],
        "queries": queries,
        "url": vectors.url,
        "dimensions": vectors.dimensions,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "task.json").write_text(json.dumps(task), encoding="utf-8")
        await _run(str(python.absolute()), "-m", f"benchmarks.peers.{program}", folder)
        return Measured(**json.loads((path / "result.json").read_text(encoding="utf-8")))


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(
            f"{' '.join(command)}: {(errors.decode('utf-8', 'replace').strip() or '?').splitlines()[-1]}"
        )


async def _measure_ours(test_set: TestSet, settings: Mapping[str, str]) -> Measured:
    with tempfile.TemporaryDirectory() as data_dir:
        arguments, environment = knowhub(Path(data_dir))
        async with (
            running(arguments, {**environment, **settings}) as hub,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}", timeout=300) as client,
        ):
            started = time.perf_counter()
            ids = await (_commit(client, test_set) if test_set.is_dialogue else _save(client, test_set))
            while not _is_settled((await client.get("/ready")).json()):  # noqa: ASYNC110 -- the server has no event of ours
                await asyncio.sleep(0.1)
            load_s = time.perf_counter() - started
            ranked: dict[str, list[str]] = {}
            search_s = []
            for query in test_set.queries:
                started = time.perf_counter()
                ranked[query["id"]] = await (
                    _recall(client, query) if test_set.is_dialogue else _search(client, query, ids)
                )
                search_s.append(time.perf_counter() - started)
    return Measured(ranked, load_s, search_s)


def _is_settled(ready: Mapping[str, Any]) -> bool:
    return not ready["index_lag"] and not ready["extraction_lag"]


async def _save(client: httpx.AsyncClient, test_set: TestSet) -> Mapping[str, str]:
    """Save every text as a record; return which text each record is."""
    ids: dict[str, str] = {}
    for start in range(0, len(test_set.documents), BATCH):
        rows = test_set.documents[start : start + BATCH]
        items = [{"task": row.get("title") or "", "content": row["text"], "dedup": False} for row in rows]
        answer = await client.post("/api/knowledge/batch", json={"items": items})
        answer.raise_for_status()
        ids |= {saved["id"]: row["id"] for saved, row in zip(answer.json()["results"], rows, strict=True)}
    return ids


async def _commit(client: httpx.AsyncClient, test_set: TestSet) -> Mapping[str, str]:
    """Commit every session of every scope; memories name their messages themselves."""
    sessions: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in test_set.documents:
        sessions[row["scope"], str(row["session"])].append(row)
    for (scope, session), rows in sessions.items():
        messages = [
            {
                "role": row.get("role", "user"),
                "content": row["text"],
                "message_id": row["id"],
                "timestamp": _read_date(row["date"]),
            }
            for row in rows
        ]
        sent = {"session_id": f"{scope}-{session}", "user_id": scope, "messages": messages}
        (await client.post("/api/context/sessions/commit", json=sent)).raise_for_status()
    return {}


def _read_date(text: str) -> str:
    for form in _DATES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    raise ValueError(f"no date: {text}")


async def _search(client: httpx.AsyncClient, query: Mapping[str, Any], ids: Mapping[str, str]) -> list[str]:
    answer = await client.get("/api/knowledge/search", params={"q": query["text"], "top_k": TOP_K})
    answer.raise_for_status()
    return [ids[record["id"]] for record in answer.json()["results"]]


async def _recall(client: httpx.AsyncClient, query: Mapping[str, Any]) -> list[str]:
    asked = {"q": query["text"], "categories": "sessions", "top_k": TOP_K, "user_id": query["scope"]}
    answer = await client.get("/api/context/search", params=asked)
    answer.raise_for_status()
    found = [item for block in answer.json()["blocks"] for item in block.get("message_ids") or []]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
