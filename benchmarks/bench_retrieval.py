"""How well search finds, over HTTP: recall@10 and nDCG@10 on test sets named by path, by words and by meaning.

    python -m benchmarks.bench_retrieval FOLDER [SET ...]

FOLDER holds `<set>/docs.jsonl`, `queries.jsonl` and `qrels.jsonl`; each document is one record: `task` its title
or empty, `content` its text; documents without text are left out. Without a folder it says so and measures nothing.
Each set is measured twice: by words, and with the packaged embedder.
"""

import argparse
import asyncio
import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.servers import PACKAGED, knowhub, running

TOP_K = 10
CLIENTS = 8
BATCH = 500
GOALS = {
    "metatool": ("recall@10", 0.765),
    "squad_dev": ("ndcg@10", 0.900),
    "cmrc2018_dev": ("ndcg@10", 0.981),
    "drcd_zh": ("ndcg@10", 0.962),
    "cranfield": ("ndcg@10", 0.363),
}
HYBRID_GOALS = {
    "metatool": ("recall@10", 0.85),
    "squad_dev": ("ndcg@10", 0.915),
    "cranfield": ("ndcg@10", 0.40),
}


async def main() -> None:
    """Measure each set on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.environ.get("BENCH_RETRIEVAL"), type=Path)
    parser.add_argument("sets", nargs="*", default=list(GOALS))
    arguments = parser.parse_args()
    if arguments.folder is None:
        print("retrieval: no test sets named (make bench BENCH_RETRIEVAL=FOLDER); nothing was measured")
        return
    for name in arguments.sets:
        by_words = await _measure(arguments.folder / name, {})
        measure, goal = GOALS.get(name, ("ndcg@10", 0.0))
        _print(name, by_words, measure, goal)
        measure, goal = HYBRID_GOALS.get(name, (measure, by_words[measure]))
        _print(f"{name} with the embedder", await _measure(arguments.folder / name, PACKAGED), measure, goal)


def _print(name: str, scores: Mapping[str, float], measure: str, goal: float) -> None:
    figures = ", ".join(f"{what} {value:.4f}" for what, value in scores.items())
    print(f"{name}: {figures} (goal: {measure} >= {goal:.4g})", flush=True)


async def _measure(folder: Path, settings: Mapping[str, str]) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as data_dir:
        arguments, environment = knowhub(Path(data_dir))
        environment = {**environment, **settings}
        async with (
            running(arguments, environment) as hub,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}", timeout=60) as client,
        ):
            documents = await _load(client, folder)
            while (await client.get("/ready")).json()["index_lag"]:  # noqa: ASYNC110 -- the server has no event of ours
                await asyncio.sleep(0.1)
            ranked = await _search_all(client, list(lines(folder / "queries.jsonl")), documents)
    return scores(ranked, relevance(folder))


async def _load(client: httpx.AsyncClient, folder: Path) -> Mapping[str, str]:
    """Save every document; return which document each record is."""
    rows = [row for row in lines(folder / "docs.jsonl") if (row.get("title") or row["text"]).strip()]
    documents: dict[str, str] = {}
    for start in range(0, len(rows), BATCH):
        chunk = rows[start : start + BATCH]
        items = [{"task": row.get("title") or "", "content": row["text"], "dedup": False} for row in chunk]
        answer = await client.post("/api/knowledge/batch", json={"items": items})
        answer.raise_for_status()
        saved = answer.json()["results"]
        documents |= {record["id"]: row["id"] for record, row in zip(saved, chunk, strict=True)}
    return documents


async def _search_all(
    client: httpx.AsyncClient, queries: list[dict[str, Any]], documents: Mapping[str, str]
) -> Mapping[str, list[str]]:
    ranked: dict[str, list[str]] = {}
    waiting = iter(queries)

    async def work() -> None:
        for query in waiting:
            answer = await client.get("/api/knowledge/search", params={"q": query["text"], "top_k": TOP_K})
            answer.raise_for_status()
            ranked[query["id"]] = [documents[record["id"]] for record in answer.json()["results"]]

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return ranked


def relevance(folder: Path) -> Mapping[str, Mapping[str, float]]:
    relevant: dict[str, dict[str, float]] = defaultdict(dict)
    for row in lines(folder / "qrels.jsonl"):
        if row.get("relevance", 1) > 0:
            relevant[row["query_id"]][row["doc_id"]] = float(row.get("relevance", 1))
    return relevant


def scores(ranked: Mapping[str, list[str]], relevance: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    recalls, gains = [], []
    for query, relevant in relevance.items():
        found = ranked.get(query, [])[:TOP_K]
        recalls.append(sum(document in relevant for document in found) / len(relevant))
        gain = sum(relevant.get(document, 0.0) / math.log2(rank + 2) for rank, document in enumerate(found))
        best = sorted(relevant.values(), reverse=True)[:TOP_K]
        gains.append(gain / sum(value / math.log2(rank + 2) for rank, value in enumerate(best)))
    return {"recall@10": sum(recalls) / len(recalls), "ndcg@10": sum(gains) / len(gains)}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


if __name__ == "__main__":
    asyncio.run(main())
