"""Copies and near copies: every exact copy is found, and reported similarities are correct."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.core.near_duplicates import (
    COMPARED_CHARS,
    MIN_SIMILARITY,
    Cluster,
    ClusterBuilder,
    band_keys,
    digest,
    jaccard,
    shingles,
)

RNG = random.Random(11)
WORDS = ["".join(RNG.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(RNG.randint(2, 9))) for _ in range(3000)]
CHARS = [chr(0x4E00 + number) for number in range(1500)]
MIN_RECALL = 0.97


def build_clusters(texts: Sequence[str], kinds: Sequence[str] | None = None) -> list[Cluster]:
    clusters = ClusterBuilder(lambda number: texts[number])
    for number, text in enumerate(texts):
        clusters.put(number, text, kinds[number] if kinds else "knowledge")
    return clusters.build()


def random_english(length: int, rng: random.Random = RNG) -> list[str]:
    return [rng.choice(WORDS) + " " for _ in range(length)]


def random_chinese(length: int, rng: random.Random = RNG) -> list[str]:
    return [rng.choice(CHARS) for _ in range(length)]


def edit_words(words: Sequence[str], edits: int, rng: random.Random) -> str:
    """Replace, drop or add so many words, each somewhere."""
    changed = list(words)
    for _ in range(edits):
        at = rng.randrange(len(changed))
        changed[at : at + 1] = rng.choice(([rng.choice(words)], [], [changed[at], rng.choice(words)]))
    return "".join(changed)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Restart the worker after a deploy.", "restart  the WORKER\nafter a deploy. "),
        ("部署之后重启服务", "部署之后重启服务 "),
        ("ＡＢＣ１２３", "abc123"),
        ("!!!", "!!!"),
        ("ok", "OK"),
    ],
)
def test_copies_may_differ_in_width_case_and_spaces(first: str, second: str) -> None:
    assert digest(first) == digest(second)
    assert [(item.kept, item.copies) for item in build_clusters([first, second])] == [(0, [1])]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Restart the worker after a deploy.", "Restart the server after a deploy."),
        ("部署之后重启服务", "部署之前停止服务"),
        ("x" * 70_000 + "one", "x" * 70_000 + "two"),
        ("!!!", "???"),
    ],
)
def test_texts_with_other_words_are_not_copies(first: str, second: str) -> None:
    assert build_clusters([first, second]) == []


def test_near_copies_gather_around_the_oldest_with_their_similarity() -> None:
    vim = "The user prefers Vim as the editor for all of their Python and Rust projects at work"
    texts = [
        vim,
        "An altogether different sentence about the weather in Lisbon during the month of March",
        vim.replace("all of their", "all their"),
        vim + ".",
        vim.replace("prefers", "likes"),
    ]

    (cluster,) = build_clusters(texts)

    assert (cluster.kept, cluster.copies) == (0, [])
    # Of the last one, 14 of 18 pairs of words are shared: too few.
    assert [(near.number, near.to, near.similarity) for near in cluster.near] == [(2, 0, 0.8235), (3, 0, 1.0)]


def test_a_copy_of_a_near_copy_is_in_its_cluster() -> None:
    words = random_english(40)
    first, second = "".join(words), "".join([*words, "more "])

    (cluster,) = build_clusters([first, second, second, first])

    assert (cluster.kept, cluster.copies) == (0, [3])
    assert sorted((near.number, near.to) for near in cluster.near) == [(1, 0), (2, 0)]


def test_a_row_similar_only_to_a_near_copy_names_that_near_copy() -> None:
    words = random_english(60)
    chain = ["".join(words[start : start + 44]) for start in (0, 4, 8)]
    assert jaccard(shingles(chain[0]), shingles(chain[2])) < MIN_SIMILARITY

    (cluster,) = build_clusters(chain)

    assert [(near.number, near.to) for near in cluster.near] == [(1, 0), (2, 1)]


def test_records_and_infos_are_not_compared_with_each_other() -> None:
    text = "".join(random_english(30))

    assert build_clusters([text, text], ["knowledge", "infos"]) == []


def test_long_texts_that_begin_alike_and_differ_in_length_are_not_near_copies() -> None:
    begun = "".join(random_english(COMPARED_CHARS // 4))
    assert len(begun) > COMPARED_CHARS

    assert build_clusters([begun, begun + "".join(random_english(10_000))]) == []
    assert len(build_clusters([begun, begun + " more"])) == 1


def test_a_row_deleted_during_an_audit_is_similar_to_none() -> None:
    text = "".join(random_english(30))
    now = {1: text + "end", 2: text + "more"}
    clusters = ClusterBuilder(now.get)
    for number, said in {0: text, **now}.items():
        clusters.put(number, said, "knowledge")

    (cluster,) = clusters.build()

    assert (cluster.kept, [(near.number, near.to) for near in cluster.near]) == (1, [(2, 1)])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("abc 部署。", min_size=1, max_size=40), min_size=1, max_size=60))
def test_clusters_hold_every_copy_and_true_similarities(texts: list[str]) -> None:
    gathered = build_clusters(texts)

    copies: dict[int, int] = {}
    firsts: dict[bytes, int] = {}
    for number, text in enumerate(texts):
        first = firsts.setdefault(digest(text), number)
        if first != number:
            copies[number] = first
    near = {item.number: item for cluster in gathered for item in cluster.near}
    exact = {number: cluster.kept for cluster in gathered for number in cluster.copies}
    assert copies.keys() <= exact.keys() | near.keys()
    assert all(digest(texts[number]) == digest(texts[kept]) for number, kept in exact.items())
    for item in near.values():
        really = jaccard(shingles(texts[item.number]), shingles(texts[item.to]))
        assert item.similarity == round(really, 4)
        assert really >= MIN_SIMILARITY
    assert not exact.keys() & near.keys()


@given(st.lists(st.sampled_from(WORDS), min_size=6, max_size=80))
def test_equal_sets_have_equal_keys(words: list[str]) -> None:
    pairs = shingles(" ".join(words))

    assert not pairs or band_keys(pairs) == band_keys(frozenset(sorted(pairs)))


@pytest.mark.parametrize(
    ("make", "length"),
    [(random_english, 16), (random_english, 40), (random_english, 150), (random_chinese, 30), (random_chinese, 120)],
)
def test_nearly_all_near_copies_made_by_known_edits_are_found(
    make: Callable[[int, random.Random], list[str]], length: int
) -> None:
    rng = random.Random(f"{make.__name__} {length}")
    texts: list[str] = []
    wanted: set[int] = set()
    for _ in range(500):
        words = make(length, rng)
        first, second = "".join(words), edit_words(words, rng.randint(1, max(1, length // 15)), rng)
        texts += (first, second)
        similar = jaccard(shingles(first), shingles(second)) >= MIN_SIMILARITY
        if similar and digest(first) != digest(second):
            wanted.add(len(texts) - 1)

    found = {near.number for cluster in build_clusters(texts) for near in cluster.near}

    assert len(wanted) > 200
    assert len(found & wanted) / len(wanted) >= MIN_RECALL
