"""Keywords by number: found by what they share, after renames, deletes and moves, and decided over what stands."""

import random
from typing import Any

import pytest

from knowhub.keywords.model import ROOT_ID
from knowhub.stores.files.rows.keyword_catalog import KeywordCatalog, PendingKeywords
from tests.keyword_rows import keyword_row


def catalog_of(*rows: dict[str, Any]) -> KeywordCatalog:
    catalog = KeywordCatalog()
    for row in rows:
        catalog.put(catalog.node_for(row))
    return catalog


def put(catalog: KeywordCatalog, row: dict[str, Any], below: KeywordCatalog | None = None) -> None:
    catalog.put(catalog.node_for(row, below.node(row["id"]) if below is not None else None))


def bearers(catalog: KeywordCatalog, token: str) -> list[str]:
    return [node.id for node in catalog.by_token(token)]


def below(catalog: KeywordCatalog, keyword_id: str = ROOT_ID) -> list[str]:
    ids = [node.id for node in catalog.children(keyword_id)]
    assert list(catalog.child_ids(keyword_id)) == ids
    assert catalog.child_count(keyword_id) == len(ids)
    return ids


@pytest.mark.parametrize("count", [1, 2, 3, 500])
def test_all_that_share_a_token_are_found_oldest_first(count: int) -> None:
    ids = [f"k{number}" for number in range(count)]

    catalog = catalog_of(keyword_row("other", "Go"), *(keyword_row(one, "Python") for one in ids))

    assert bearers(catalog, "python") == ids
    assert bearers(catalog, "go") == ["other"]
    assert bearers(catalog, "pyth") == []


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_of_several_that_share_a_token_each_can_go_and_come_back(count: int) -> None:
    ids = [f"k{number}" for number in range(count)]
    catalog = catalog_of(*(keyword_row(one, "Python") for one in ids))

    for gone in ids:
        put(catalog, keyword_row(gone, "Python", version=2, deleted=True))
        assert bearers(catalog, "python") == [one for one in ids if one != gone]
        put(catalog, keyword_row(gone, "Python", version=3))
        assert bearers(catalog, "python") == ids


def test_a_keyword_is_found_by_each_alias_its_spellings_and_its_words() -> None:
    catalog = catalog_of(
        keyword_row("a", "中文", aliases=["Web Crawler"]), keyword_row("b", "算法", aliases=["Crawler"])
    )

    assert bearers(catalog, "webcrawler") == ["a"]
    assert [node.id for node in catalog.by_pinyin("zw")] == ["a"]
    assert [node.id for node in catalog.by_pinyin("suanfa")] == ["b"]
    assert [node.id for node in catalog.by_term("crawler", 5)] == ["a", "b"]
    assert [node.id for node in catalog.by_term("crawler", 1)] == ["a"]
    assert list(catalog.by_pinyin("python")) == []


def test_a_renamed_keyword_is_found_by_the_new_name_only_and_its_namesakes_stay() -> None:
    catalog = catalog_of(*(keyword_row(one, "中文", aliases=["same"]) for one in "abc"))

    put(catalog, keyword_row("b", "算法", aliases=["same"], version=2))

    assert bearers(catalog, "中文") == ["a", "c"]
    assert bearers(catalog, "算法") == ["b"]
    assert bearers(catalog, "same") == ["a", "b", "c"]
    assert [node.id for node in catalog.by_pinyin("zhongwen")] == ["a", "c"]
    assert [node.id for node in catalog.by_pinyin("sf")] == ["b"]
    assert [node.id for node in catalog.by_term("中文", 9)] == ["a", "c"]


def test_a_deleted_keyword_is_nowhere_and_its_node_says_so() -> None:
    catalog = catalog_of(keyword_row("a", "Python"), keyword_row("b", "Go", "a"))

    put(catalog, keyword_row("b", "Go", "a", version=2, deleted=True))

    node = catalog.node("b")
    assert node is not None
    assert (node.live, node.version) == (False, 2)
    assert bearers(catalog, "go") == []
    assert below(catalog, "a") == []
    assert [one.id for one in catalog.live_nodes()] == ["a"]


def test_a_moved_keyword_stands_among_its_new_siblings_by_its_age() -> None:
    catalog = catalog_of(
        keyword_row("a"), keyword_row("b"), keyword_row("c", parent_id="a"), keyword_row("d", parent_id="b")
    )

    put(catalog, keyword_row("c", parent_id="b", version=2))
    put(catalog, keyword_row("a", parent_id="b", version=2))

    assert below(catalog) == ["b"]
    assert below(catalog, "a") == []
    assert below(catalog, "b") == ["a", "c", "d"]


def test_a_keyword_that_comes_back_elsewhere_hangs_there_only() -> None:
    catalog = catalog_of(keyword_row("a"), keyword_row("b"), keyword_row("c", parent_id="a"))
    put(catalog, keyword_row("c", parent_id="a", version=2, deleted=True))

    put(catalog, keyword_row("c", parent_id="b", version=3))

    assert below(catalog, "a") == []
    assert below(catalog, "b") == ["c"]


def test_a_child_may_be_known_before_its_parent() -> None:
    # As after a damaged line: what is left is read all the same.
    catalog = catalog_of(keyword_row("b", parent_id="lost"))

    assert below(catalog, "lost") == ["b"]
    assert catalog.node("lost") is None


def test_a_thousand_changes_leave_what_a_plain_list_says() -> None:
    order = random.Random(5)
    catalog, stands = KeywordCatalog(), {}
    for version in range(1, 1_500):
        row_id = f"k{order.randrange(60)}"
        fields = {"deleted": True} if order.random() < 0.3 and row_id in stands else {}
        row = keyword_row(row_id, order.choice(["Python", "Go", "中文"]), f"k{order.randrange(5)}", version=version)
        put(catalog, row | fields)
        stands[row_id] = row | fields

    live = [row for row in stands.values() if "deleted" not in row]
    for token in ("python", "go", "中文"):
        assert bearers(catalog, token) == [row["id"] for row in live if token in row["normalized"]]
    for parent_id in (f"k{number}" for number in range(5)):
        assert below(catalog, parent_id) == [row["id"] for row in live if row["parent_id"] == parent_id]
    assert [node.id for node in catalog.live_nodes()] == [row["id"] for row in live]


def test_what_is_decided_is_found_in_the_pending_catalog_and_not_below() -> None:
    catalog = catalog_of(keyword_row("a", "Python"), keyword_row("b", "Go"))
    pending = PendingKeywords(catalog)

    put(pending, keyword_row("c", "Python", "a"), catalog)
    put(pending, keyword_row("b", "Rust", version=2), catalog)

    assert bearers(pending, "python") == ["c"]
    assert bearers(pending, "rust") == ["b"]
    assert bearers(pending, "go") == []
    assert [node.id for node in pending.children("a")] == ["c"]
    assert [node.id for node in pending.live_nodes()] == ["c", "b"]
    assert bearers(catalog, "python") == ["a"]
    assert below(catalog, "a") == []


@pytest.mark.parametrize("changed_before", [0, 1, 2])
def test_a_decided_keyword_has_the_number_that_it_will_have(changed_before: int) -> None:
    catalog = catalog_of(keyword_row("a"), keyword_row("b"))
    pending = PendingKeywords(catalog)
    for row_id in "ab"[:changed_before]:
        put(pending, keyword_row(row_id, version=2), catalog)

    for row in (keyword_row("c"), keyword_row("d"), keyword_row("c", version=2)):
        put(pending, row, catalog)

    for row_id in "cd":
        decided = pending.node(row_id)
        assert decided is not None
        catalog.put(decided)
    assert below(catalog) == ["a", "b", "c", "d"]
    assert [node.ordinal for node in catalog.live_nodes()] == [0, 1, 2, 3]


def test_what_is_deleted_in_a_batch_is_in_none_of_its_answers() -> None:
    catalog = catalog_of(keyword_row("a", "中文"))
    pending = PendingKeywords(catalog)

    put(pending, keyword_row("a", "中文", version=2, deleted=True), catalog)

    node = pending.node("a")
    assert node is not None
    assert not node.live
    assert bearers(pending, "中文") == []
    assert list(pending.by_pinyin("zw")) == []
    assert list(pending.by_term("中文", 5)) == []
    assert list(pending.children(ROOT_ID)) == []
