"""An exact hit in the keyword tree over HTTP: CPU beside a bare route of the same bytes, and as the tree grows."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import httpx

from benchmarks.servers import Server, bare, http, knowhub, requests, running
from knowhub.core.clock import SystemClock, iso
from knowhub.core.ids import RandomIds, uuid4_id
from knowhub.core.operation import Draft, Write
from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, make_link_id
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.store import open_store
from knowhub.wiring.collections import COLLECTIONS

ROUNDS, CLIENTS, EACH = 5, 8, 1000
NODES, NAMES_A_NODE, FAN_OUT = 100_000, 10, 20
SMALL_NODES = 100
BARE_LIMIT, GROWTH_LIMIT = 1.5, 1.15
ROWS_PER_OPERATION = 1000


async def main() -> None:
    """Print the ratios; each is the median of five interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        await _write(small, SMALL_NODES)
        await _write(large, NODES)
        async with _serving(small) as few, _serving(large) as many:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{many.port}") as client:
                body = (await client.get("/api/keywords/search", params={"q": _name(NODES // 2, 0)})).text
            # The store was just written: its lexical index is built once, in the background.
            await many.wait_until_idle()
            arguments, environment = bare(body)
            async with running(arguments, environment) as limit:
                await _compare(few, many, limit)


def _serving(folder: Path) -> Any:  # noqa: ANN401 -- a context manager of a Server
    arguments, environment = knowhub(folder)
    return running(arguments, environment)


async def _compare(few: Server, many: Server, limit: Server) -> None:
    fresh, warm = _asked_once(NODES), _asked_again(NODES)
    small = _asked_again(SMALL_NODES)
    figures: dict[str, list[float]] = {"bare": [], "fresh": [], "warm": [], "few": []}
    for round_number in range(ROUNDS + 1):
        try_load = {
            "bare": await _cpu_us(limit, warm),
            "fresh": await _cpu_us(many, fresh),
            "warm": await _cpu_us(many, warm),
            "few": await _cpu_us(few, small),
        }
        # The first round only warms up.
        for name, figure in try_load.items() if round_number else ():
            figures[name].append(figure)
    for name, what in (("fresh", "each name asked for once"), ("warm", "1,000 names again and again")):
        _print(f"exact hit, {NODES:,} keywords, {what}", figures[name], figures["bare"], BARE_LIMIT)
    what = f"exact hit, {SMALL_NODES * NAMES_A_NODE:,} -> {NODES * NAMES_A_NODE:,} names"
    _print(what, figures["warm"], figures["few"], GROWTH_LIMIT)


def _print(what: str, ours: Sequence[float], theirs: Sequence[float], limit: float) -> None:
    ratios = [our / other for our, other in zip(ours, theirs, strict=True)]
    rounds = " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(
        f"{what}: {median(ratios):.2f} x ({median(ours):.0f} us of CPU against {median(theirs):.0f} us; "
        f"rounds {rounds}; goal <= {limit})"
    )


async def _cpu_us(server: Server, payload: Callable[[int], bytes]) -> float:
    before = server.cpu_s()
    await requests(server.port, CLIENTS, EACH, payload)
    return (server.cpu_s() - before) / (CLIENTS * EACH) * 1e6


def _asked_once(nodes: int) -> Callable[[int], bytes]:
    # A step that shares no divisor with the number of names comes to each of them once.
    number = count()
    return lambda _: _search(next(number) * 7919 % nodes, 3)


def _asked_again(nodes: int) -> Callable[[int], bytes]:
    number = count()
    return lambda _: _search(next(number) % min(nodes, 1000) * (nodes // min(nodes, 1000)), next(number) % 2)


def _search(node: int, name: int) -> bytes:
    return http("GET", f"/api/keywords/search?q={quote(_name(node, name))}")


def _name(node: int, name: int) -> str:
    return f"Keyword {node:07d}" if name == 0 else f"别名 {name} of {node:07d}"


async def _write(folder: Path, nodes: int) -> None:
    store = open_store(folder, FileSystem(), SystemClock(), RandomIds(), COLLECTIONS)
    pending: list[Write] = []
    for write in _rows(nodes):
        pending.append(write)
        if len(pending) == ROWS_PER_OPERATION:
            writes = pending
            await store.commit("default", "user:bench", partial(_draft, writes))
            pending = []
    await store.commit("default", "user:bench", partial(_draft, pending))
    await store.close()


def _draft(writes: list[Write], _view: Any) -> Draft:  # noqa: ANN401 -- any view
    return Draft("batch_create_keywords", writes)


def _rows(nodes: int) -> Iterator[Write]:
    ids, now = RandomIds(), iso(SystemClock().now())
    stands = {"scopes": ["public"], "owner": "user:bench", "version": 1, "created_at": now, "updated_at": now}
    keywords = ["root"]
    yield Write(KEYWORDS, "root", _keyword("root", ["root"], None, []) | stands)
    for number in range(nodes):
        row_id = uuid4_id(ids)
        names = [_name(number, name) for name in range(NAMES_A_NODE)]
        tokens = [name.lower().replace(" ", "") for name in names]
        keywords.append(row_id)
        yield Write(KEYWORDS, row_id, _keyword(row_id, names, keywords[number // FAN_OUT], tokens) | stands)
        info_id = uuid4_id(ids)
        info = {"id": info_id, "content": f"What is known of {number}. " * 8, "source": "", "metadata": {}}
        yield Write(INFOS, info_id, info | stands)
        link = {"info_id": info_id, "keyword_id": row_id, "relation": "PRIMARY", "created_by": "user"}
        times = {"version": 1, "created_at": now, "updated_at": now}
        yield Write(LINKS, make_link_id(info_id, row_id), link | times)


def _keyword(row_id: str, names: list[str], parent_id: str | None, tokens: list[str]) -> dict[str, Any]:
    return {
        "id": row_id,
        "name": names[0],
        "aliases": names[1:],
        "normalized": tokens,
        "pinyin": [],
        "terms": ["keyword"],
        "parent_id": parent_id,
        "description": "A keyword of the benchmark.",
        "metadata": {},
    }


if __name__ == "__main__":
    asyncio.run(main())
