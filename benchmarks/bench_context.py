"""Layered memories: how well a question finds what was said, over HTTP, and what mixing costs beside the bare index.

    python -m benchmarks.bench_context [--data FOLDER]

FOLDER holds `docs.jsonl` (id, text, scope, session, date), `queries.jsonl` (id, text, scope) and `qrels.jsonl` of
dialogues: each scope is a user of its own, each of its sessions is committed with its turns' ids and its date, and each
question is searched among the sessions. Without a folder only the speed is measured. The
questions are asked twice: by words, and with the packaged embedder.
"""

import argparse
import asyncio
import gc
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.bench_retrieval import TOP_K, lines, relevance, scores
from benchmarks.servers import PACKAGED, knowhub, running
from knowhub.context import uri
from knowhub.context.model import PARTS, ContextSummary, MemoryCategory
from knowhub.context.retrieval.blocks import make_blocks
from knowhub.context.retrieval.ranking import ScoredHit
from knowhub.context.retrieval.search import MemorySearch
from knowhub.context.search_model import TypedQuery
from knowhub.core import clock
from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.core.operation import Draft, Write
from knowhub.core.request_context import RequestContext, caller_context
from knowhub.core.scopes import visibility_facets
from knowhub.search.lexical import LexicalIndex
from knowhub.search.texts import ContextTexts
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import FileStore, open_store
from knowhub.web.server import tune_interpreter
from knowhub.wiring.collections import COLLECTIONS

GOAL, HYBRID_GOAL, SPEED_GOAL = 0.74, 0.76, 1.5
ACCOUNT = "default"
SESSIONS, MESSAGES, USERS = 1_000, 100, 10
ROUNDS, EACH = 5, 40
CLIENTS = 8
_DATE = "%I:%M %p on %d %B, %Y"
_WORDS = ["harbour", "coffee", "paint", "marathon", "train", "garden", "guitar", "recipe", "doctor", "holiday"]
_VERBS = ["bought", "lost", "found", "finished", "sold", "planned", "missed", "repaired", "cooked", "forgot"]
_HAN = ["爬山", "火锅", "考试", "体检", "搬家", "面试", "游泳", "加班", "旅行", "读书"]
QUESTIONS = {
    "rare word": "the ticket 73111",
    "common words": "who planned the garden and the holiday",
    "person": "When did Mara repair the guitar?",
    "day": "what was sold on 7 May 2024",
    "Chinese": "去年5月谁去爬山了",
    "Chinese person": "小林什么时候去体检的",
}


async def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("BENCH_DIALOGUES"), type=Path)
    parser.add_argument("--no-speed", action="store_true", help="measure how well it finds, and nothing else")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("context: no dialogues named (make bench BENCH_DIALOGUES=FOLDER); what is found was not measured")
    else:
        _print("context", await _measure(arguments.data, {}), GOAL)
        _print("context with the embedder", await _measure(arguments.data, PACKAGED), HYBRID_GOAL)
    if not arguments.no_speed:
        with tempfile.TemporaryDirectory() as folder:
            await _speed(Path(folder))


def _print(name: str, found: Mapping[str, float], goal: float) -> None:
    figures = ", ".join(f"{what} {value:.4f}" for what, value in found.items())
    print(f"{name}: {figures} (goal: recall@10 >= {goal})", flush=True)


async def _measure(folder: Path, settings: Mapping[str, str]) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as data_dir:
        arguments, environment = knowhub(Path(data_dir))
        async with (
            running(arguments, {**environment, **settings}) as hub,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}", timeout=120) as client,
        ):
            await _commit(client, folder)
            while (await client.get("/ready")).json()["index_lag"]:  # noqa: ASYNC110 -- the server has no event of ours
                await asyncio.sleep(0.1)
            ranked = await _ask(client, list(lines(folder / "queries.jsonl")))
    return scores(ranked, relevance(folder))


async def _commit(client: httpx.AsyncClient, folder: Path) -> None:
    sessions: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for turn in lines(folder / "docs.jsonl"):
        sessions[turn["scope"], turn["session"]].append(turn)
    for (scope, session), turns in sessions.items():
        at = datetime.strptime(turns[0]["date"], _DATE).replace(tzinfo=UTC).isoformat()
        messages = [
            {"role": "user", "content": turn["text"], "message_id": turn["id"], "timestamp": at} for turn in turns
        ]
        sent = {"session_id": f"session-{session}", "messages": messages, "user_id": scope}
        (await client.post("/api/context/sessions/commit", json=sent)).raise_for_status()


async def _ask(client: httpx.AsyncClient, queries: Sequence[dict[str, Any]]) -> Mapping[str, list[str]]:
    ranked: dict[str, list[str]] = {}
    waiting = iter(queries)

    async def work() -> None:
        for query in waiting:
            asked = {"q": query["text"], "categories": "sessions", "top_k": str(TOP_K), "user_id": query["scope"]}
            answer = await client.get("/api/context/search", params=asked)
            answer.raise_for_status()
            ids = [item for block in answer.json()["blocks"] for item in block["message_ids"]]
            ranked[query["id"]] = list(dict.fromkeys(ids))

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return ranked


async def _speed(folder: Path) -> None:
    """Ask in turns the search, and the bare index with the assembly of as many blocks; in one process, no HTTP."""
    store = open_store(folder, FileSystem(), SystemClock(), RandomIds(), COLLECTIONS)

    index: LexicalIndex[ContextSummary] = LexicalIndex(folder / "lexical", store, store.account, ContextTexts())
    index.account(ACCOUNT)
    store.subscribe(index)
    await _talk(store)
    await index.index_pending(2 * SESSIONS * MESSAGES)
    # As the server does: what was loaded is looked through by no collection.
    gc.collect()
    gc.freeze()
    tune_interpreter()
    search, bare = MemorySearch(store, index, SystemClock()), _Bare(store, index)
    ctx = caller_context({"user_id": "user0"}, "user:local")
    parts: dict[str, list[tuple[float, float]]] = {name: [] for name in QUESTIONS}
    ratios = []
    for _ in range(ROUNDS):
        for name, question in QUESTIONS.items():
            ours, theirs = [], []
            for _ in range(EACH):
                theirs.append(await _timed(bare.search(ctx, question)))
                ours.append(await _timed(search.search(ctx, question, None, ["sessions"], TOP_K)))
            parts[name].append((median(ours), median(theirs)))
        ratios.append(median(p[-1][0] for p in parts.values()) / median(p[-1][1] for p in parts.values()))
    for name, rounds in parts.items():
        ours_us, bare_us = (median(column) * 1e6 for column in zip(*rounds, strict=True))
        print(f"  {name}: {ours_us:.0f} us, index and assembly {bare_us:.0f} us ({ours_us / bare_us:.2f} x)")
    each = " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(
        f"search at {SESSIONS * MESSAGES} parts: p50 is {median(ratios):.2f} x that of the bare index query and the "
        f"assembly of its answer (rounds {each}; goal <= {SPEED_GOAL})"
    )
    await store.close()


class _Bare:
    """The index's own query for the ten best, and blocks made of them."""

    def __init__(self, store: FileStore, index: LexicalIndex[ContextSummary]) -> None:
        self._index = index
        self._store = store

    async def search(self, ctx: RequestContext, question: str) -> object:
        groups = [visibility_facets(ctx.visible or frozenset()), frozenset({"category:sessions"})]

        def sees(summary: ContextSummary) -> bool:
            return ctx.sees(summary.audience)

        found = await self._index.search(ACCOUNT, question, groups, sees, TOP_K)
        hits = [ScoredHit(hit.summary, hit.score) for hit in found.hits]
        return make_blocks(self._store.view(ACCOUNT), self._index, TypedQuery(question), hits, ctx)


async def _timed(work: Any) -> float:  # noqa: ANN401 -- any awaitable
    # Of the one thread that does it all: what else runs on this machine does not count.
    started = time.thread_time()
    await work
    return time.thread_time() - started


async def _talk(store: FileStore) -> None:
    chance = random.Random(20261121)
    for session in range(SESSIONS):
        user = f"user{session % USERS}"
        address = uri.node_uri(ACCOUNT, f"users/{user}", MemoryCategory.SESSIONS, f"s{session}")
        at = 1_704_067_200.0 + session * 43_200
        said = [_said(chance, session, number) for number in range(MESSAGES)]
        rows = [_part(address, f"user:{user}", number, text, at) for number, text in enumerate(said)]
        decide = partial(_decided, [Write(PARTS, row["id"], row) for row in rows])
        await store.commit(ACCOUNT, f"user:{user}", decide)


def _decided(writes: Sequence[Write], _view: object) -> Draft:
    return Draft("commit_session", writes)


def _part(address: str, owner: str, number: int, text: str, at: float) -> dict[str, Any]:
    return {
        "id": uri.part_uri(address, f"m{number}"),
        "session_uri": address,
        "number": number,
        "role": "user",
        "name": "",
        "content": text,
        "message_id": f"m{number}",
        "timestamp": clock.iso(at),
        "owner": owner,
        "scopes": ["user:owner"],
        "version": 1,
        "created_at": clock.iso(at),
        "updated_at": clock.iso(at),
    }


def _said(chance: random.Random, session: int, number: int) -> str:
    if number % 2:
        first, second = chance.sample(_HAN, 2)
        name, when = chance.choice(["小林", "陈晨"]), chance.choice(["昨天", "上周", "打算"])
        return f"{name}\uff1a我{when}去{first}\uff0c之后还要{second}。"
    verb, first, second = chance.choice(_VERBS), *chance.sample(_WORDS, 2)
    name = chance.choice(["Mara", "Ivo"])
    return f"{name}: I {verb} the {first} near the {second}, it was ticket {session * 100 + number} of the week."


if __name__ == "__main__":
    asyncio.run(main())
