"""Vector search at 100,000 × 384 beside numpy's exact scan, at five shares of visible records.

Vectors lie around centres, as meanings do; what is visible is drawn at random. Recall is against the exact answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from statistics import median

import numpy as np

from knowhub.search.vectors import Matrix, Vectors, make_row_type

RECORDS = 100_000
DIMENSIONS = 384
TOP_K = 10
QUERIES = 40
ROUNDS = 5
SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
LIMIT, RECALL = 1.5, 0.95


async def main() -> None:
    """Fill, measure, print."""
    chance = np.random.default_rng(20261121)
    matrix, queries = _meanings(chance, RECORDS), _meanings(chance, QUERIES)
    visible = {share: chance.random(RECORDS) < share for share in SHARES}
    vectors = _filled(matrix, visible)
    for share, mask in visible.items():
        await _compare(share, mask, vectors, matrix, queries)


async def _compare(share: float, mask: "np.ndarray", vectors: Vectors, matrix: Matrix, queries: Matrix) -> None:
    groups = [frozenset({f"share:{share}"})]
    allowed = np.flatnonzero(mask)

    def scan(query: Matrix) -> Sequence[int]:
        values = matrix @ query
        values[~mask] = -np.inf
        best = np.argpartition(-values, TOP_K)[:TOP_K]
        return [int(item) for item in best[np.argsort(-values[best])]]

    async def ours(query: Matrix) -> Sequence[int]:
        similarities = await asyncio.to_thread(vectors.start_comparison(query, groups))
        return [number for _, number in islice(similarities.iter_best(TOP_K), TOP_K)]

    exact = [set(allowed[np.argsort(-(matrix[allowed] @ query))[:TOP_K]].tolist()) for query in queries]
    found = [set(await ours(query)) for query in queries]
    ratios, times = [], []
    for _ in range(ROUNDS):
        mine = [await _timed(ours, query) for query in queries]
        numpys = [_clocked(scan, query) for query in queries]
        times.append((median(mine), median(numpys)))
        ratios.append(median(mine) / median(numpys))
    own, numpy_s = (median(column) * 1e3 for column in zip(*times, strict=True))
    print(
        f"{share:.1%} of {RECORDS} visible: recall@{TOP_K} {_recall(found, exact):.3f} (goal >= {RECALL}), "
        f"p50 {own:.2f} ms, numpy's scan {numpy_s:.2f} ms: {median(ratios):.2f} x (goal <= {LIMIT})"
    )


def _meanings(chance: np.random.Generator, count: int) -> Matrix:
    centres = np.random.default_rng(1).standard_normal((400, DIMENSIONS), dtype=np.float32)
    found = centres[chance.integers(0, len(centres), count)] + chance.standard_normal(
        (count, DIMENSIONS), dtype=np.float32
    )
    # As they are kept, so that both sides compare the same numbers.
    unit = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float16)
    kept: Matrix = unit.astype(np.float32)
    return kept


def _filled(matrix: Matrix, visible: "dict[float, np.ndarray]") -> Vectors:
    vectors = Vectors(DIMENSIONS)
    rows = np.empty(len(matrix), make_row_type(DIMENSIONS))
    rows["number"] = rows["digest"] = np.arange(len(matrix))
    rows["vector"] = matrix
    facets = [
        frozenset(f"share:{share}" for share, mask in visible.items() if mask[number]) for number in range(len(matrix))
    ]
    vectors.add(rows, facets)
    return vectors


def _recall(found: "Sequence[set[int]]", exact: "Sequence[set[int]]") -> float:
    return sum(len(item & right) for item, right in zip(found, exact, strict=True)) / sum(map(len, exact))


async def _timed(search: Callable[[Matrix], Awaitable[object]], query: Matrix) -> float:
    started = time.perf_counter()
    await search(query)
    return time.perf_counter() - started


def _clocked(search: Callable[[Matrix], object], query: Matrix) -> float:
    started = time.perf_counter()
    search(query)
    return time.perf_counter() - started


if __name__ == "__main__":
    asyncio.run(main())
