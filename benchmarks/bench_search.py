"""Search at 100,000 records beside the full-text library's own time, and how soon a save is found.

The mix has rare and common words, short and long questions, in English and Chinese; its parts are named below.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from urllib.parse import quote

import httpx
import tantivy

from benchmarks.servers import Server, bare, http, knowhub, requests, running
from knowhub.search.analysis import weight_terms

RECORDS = 100_000
ROUNDS = 5
EACH = 15
TOP_K = 5
LIMIT = 3.0
_SUBJECTS = [
    "orders",
    "invoices",
    "customers",
    "refunds",
    "shipments",
    "coupons",
    "reviews",
    "stock",
    "prices",
    "carts",
]
_ACTIONS = ["export", "import", "delete", "archive", "merge", "validate", "retry", "schedule", "encrypt", "compress"]
_PLACES = ["page", "cursor", "batch", "webhook", "queue", "bucket", "sandbox", "mirror", "replica", "gateway"]
_CHINESE = [
    "登录",
    "导出",
    "订单",
    "支付",
    "回调",
    "限流",
    "缓存",
    "分页",
    "签名",
    "证书",
    "队列",
    "重试",
    "部署",
    "日志",
    "索引",
]
MIX = {
    "rare word": "widget-77123",
    "two rare words": "widget-4242 widget-90001",
    "common word": "orders",
    "common question": "how do I export the orders of a customer page by page",
    "common and rare": "retry the webhook of widget-31337",
    "Chinese word": "登录",
    "Chinese question": "支付回调为什么要重试",
    "Chinese rare": "部件-51234 的签名",
}


async def main() -> None:
    """Load, measure, print."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        arguments, environment = knowhub(data_dir)
        async with running(arguments, environment) as hub:
            await _load(hub)
            await _freshness(hub, data_dir)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}", timeout=60) as client:
                sample = await client.get("/api/knowledge/search", params={"q": MIX["common question"]})
            arguments, environment = bare(sample.text)
            async with running(arguments, environment) as limit:
                await _compare(hub, limit, data_dir)


async def _compare(hub: Server, limit: Server, data_dir: Path) -> None:
    own = _OwnTime(data_dir)
    parts: dict[str, list[tuple[float, float, float]]] = {name: [] for name in MIX}
    totals = []
    for _ in range(ROUNDS):
        ours, theirs, library = [], [], []
        for name, question in MIX.items():
            payload = _search(question)
            ours.append(median(await requests(hub.port, 1, EACH, payload)))
            theirs.append(median(await requests(limit.port, 1, EACH, payload)))
            library.append(own.measure(question))
            parts[name].append((ours[-1], theirs[-1], library[-1]))
        totals.append((median(ours) - median(theirs)) / median(library))
    for name, rounds in parts.items():
        ours_us, bare_us, own_us = (median(column) * 1e6 for column in zip(*rounds, strict=True))
        print(f"  {name}: {ours_us:.0f} us, bare route {bare_us:.0f} us, library {own_us:.0f} us")
    print(
        f"search at {RECORDS} records: p50 less the bare route's is {median(totals):.2f} x the library's own p50 "
        f"(rounds {' '.join(f'{ratio:.2f}' for ratio in totals)}; goal <= {LIMIT})"
    )


class _OwnTime:
    """The full-text library alone on the index that KnowHub built: its query, ready made, and its search."""

    def __init__(self, data_dir: Path) -> None:
        folder = next((data_dir / "indexes" / "lexical").glob("*/build-*"))
        self._index = tantivy.Index.open(str(folder))
        self._searcher = self._index.searcher()

    def measure(self, question: str) -> float:
        """Return the median time of a search, in seconds."""
        schema = self._index.schema
        terms = [
            (
                tantivy.Occur.Should,
                tantivy.Query.boost_query(tantivy.Query.term_query(schema, "terms", term, index_option="freq"), weight),
            )
            for term, weight in weight_terms(question)
        ]
        query = tantivy.Query.boolean_query(terms)
        times = []
        for _ in range(EACH):
            started = time.perf_counter()
            self._searcher.search(query, 2 * TOP_K, count=False)
            times.append(time.perf_counter() - started)
        return median(times)


async def _load(hub: Server) -> None:
    chance = random.Random(20261121)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}", timeout=120) as client:
        for start in range(0, RECORDS, 1000):
            items = [_record(number, chance) for number in range(start, start + 1000)]
            (await client.post("/api/knowledge/batch", json={"items": items})).raise_for_status()
        while (await client.get("/ready")).json()["index_lag"]:  # noqa: ASYNC110 -- the server has no event of ours
            await asyncio.sleep(0.2)


async def _freshness(hub: Server, data_dir: Path) -> None:
    """Save, and search at once: here, and in a second server on the same directory."""
    arguments, environment = knowhub(data_dir)
    async with (
        running(arguments, environment) as second,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{hub.port}", timeout=60) as client,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{second.port}", timeout=60) as other,
    ):
        found = [0, 0]
        for number in range(50):
            word = f"zyx{number}q"
            saved = (await client.post("/api/knowledge", json={"content": f"fresh {word}"})).json()
            for index, reader in enumerate((client, other)):
                answer = await reader.get("/api/knowledge/search", params={"q": word, "order": "relevance"})
                found[index] += any(record["id"] == saved["id"] for record in answer.json()["results"])
    print(f"found by the very next search: {found[0]} of 50 in the same process, {found[1]} of 50 in another")


def _record(number: int, chance: random.Random) -> dict[str, object]:
    words = [chance.choice(part) for part in (_ACTIONS, _SUBJECTS, _PLACES)]
    if number % 2:
        names = chance.sample(_CHINESE, 5)
        task = f"{names[0]}{names[1]}时处理部件-{number}"
        content = f"{names[2]}之前先检查{names[3]}，否则{names[4]}会失败；每{number % 60}秒最多一次，见 {words[2]}。"
    else:
        task = f"{words[0]} the {words[1]} of widget-{number}"
        content = (
            f"The {words[2]} answers 429 after {number % 60} calls. Wait, then go on from the last {words[2]}; "
            f"{chance.choice(_ACTIONS)} the {chance.choice(_SUBJECTS)} of each customer page by page."
        )
    return {"task": task, "content": content, "types": ["tool"], "scopes": ["public"], "dedup": False}


def _search(question: str) -> Callable[[int], bytes]:
    request = http("GET", f"/api/knowledge/search?q={quote(question)}&top_k={TOP_K}")
    return lambda _number: request


if __name__ == "__main__":
    asyncio.run(main())
