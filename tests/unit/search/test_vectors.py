"""Vectors in memory: exact under every filter, and in a stable order."""

import numpy as np
import pytest

from knowhub.search.vectors import Matrix, Rows, Vectors, make_row_type

DIMENSIONS = 24
EVERY_TENTH, EVERY_THOUSANDTH = frozenset({"scope:tenth"}), frozenset({"scope:thousandth"})


def random_rows(count: int, seed: int = 7) -> Rows:
    chance = np.random.default_rng(seed)
    found = chance.standard_normal((count, DIMENSIONS))
    rows = np.empty(count, make_row_type(DIMENSIONS))
    rows["number"] = np.arange(count) + 1_000_000
    rows["digest"] = np.arange(count)
    rows["vector"] = found / np.linalg.norm(found, axis=1, keepdims=True)
    return rows


def make_facets(count: int) -> list[frozenset[str]]:
    return [
        frozenset({"scope:all"})
        | (EVERY_TENTH if number % 10 == 0 else frozenset())
        | (EVERY_THOUSANDTH if number % 1000 == 0 else frozenset())
        for number in range(count)
    ]


def fill(rows: Rows) -> Vectors:
    vectors = Vectors(DIMENSIONS, rows_per_block=4096)
    names = make_facets(len(rows))
    for start in range(0, len(rows), 1777):
        vectors.add(rows[start : start + 1777], names[start : start + 1777])
    return vectors


def find_nearest(rows: Rows, query: Matrix, step: int, many: int) -> list[int]:
    chosen = rows[::step]
    order = np.argsort(-(chosen["vector"].astype(np.float32) @ query), kind="stable")[:many]
    return [int(number) for number in chosen["number"][order]]


def find(vectors: Vectors, query: Matrix, groups: list[frozenset[str]], many: int) -> list[int]:
    similarities = vectors.start_comparison(query, groups)()
    return [number for _, number in similarities.iter_best(many)][:many]


@pytest.mark.parametrize(
    ("groups", "step"),
    [
        ([], 1),
        ([frozenset({"scope:all"})], 1),
        ([EVERY_TENTH], 10),
        ([frozenset({"scope:all"}), EVERY_THOUSANDTH], 1000),
    ],
)
def test_the_nearest_rows_within_a_filter_are_exact(groups: list[frozenset[str]], step: int) -> None:
    rows = random_rows(10_000)
    vectors = fill(rows)
    queries = random_rows(20, seed=8)["vector"].astype(np.float32)

    answers = [find(vectors, query, groups, 10) for query in queries]

    assert answers == [find_nearest(rows, query, step, 10) for query in queries]


def test_a_filter_without_matches_finds_nothing() -> None:
    vectors = fill(random_rows(50))

    assert find(vectors, random_rows(1)["vector"][0].astype(np.float32), [frozenset({"scope:none"})], 10) == []


def test_all_rows_are_returned_and_equal_ones_newest_first() -> None:
    rows = random_rows(100)
    rows["vector"][::2] = rows["vector"][0]
    query = rows["vector"][0].astype(np.float32)
    turned = rows[np.random.default_rng(5).permutation(100)]

    orders = [
        [number for _, number in v.start_comparison(query, [])().iter_best(3)] for v in (fill(rows), fill(turned))
    ]

    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(rows["number"].tolist())
    assert orders[0][:50] == sorted((int(number) for number in rows["number"][::2]), reverse=True)


def test_rows_are_returned_unchanged_and_found_by_text_hash() -> None:
    rows = random_rows(5_000)
    vectors = fill(rows)

    back = vectors.rows([1_000_000, 1_004_999])
    same = vectors.find_by_text(4_321)

    assert np.array_equal(back, rows[[0, 4_999]])
    assert same is not None
    assert np.array_equal(same, rows["vector"][4_321].astype(np.float32))
    assert vectors.find_by_text(99_999) is None
