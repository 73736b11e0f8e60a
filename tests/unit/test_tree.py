"""Walks of the tree: every one ends, also where rows say what no verb would write."""

import pytest

from knowhub.keywords import tree
from knowhub.keywords.model import ROOT_ID, Node
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of

SHAPE: Shape = {"语言": {"Python": {"FastAPI": {}}, "Go": {}}, "算法": {"排序": {}}}


@pytest.fixture
def view() -> FakeKeywordView:
    return tree_of(SHAPE)


def names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_a_path_begins_at_the_root_and_ends_at_the_keyword(view: FakeKeywordView) -> None:
    path = tree.get_path(view, view.id_of("FastAPI"))

    assert names(path) == ["root", "语言", "Python", "FastAPI"]
    assert names(tree.get_path(view, ROOT_ID)) == ["root"]
    assert tree.get_path(view, "never") == []


def test_the_root_is_there_before_its_row_and_is_its_row_afterwards(view: FakeKeywordView) -> None:
    before = tree.get_live_node(view, ROOT_ID)
    view.put("全部", id=ROOT_ID)
    after = tree.get_live_node(view, ROOT_ID)

    assert before == tree.ROOT_NODE
    assert after is not None
    assert after.name == "全部"


def test_what_was_deleted_or_never_made_is_no_live_node(view: FakeKeywordView) -> None:
    go = view.id_of("Go")
    view.drop(go)

    assert tree.get_live_node(view, go) is None
    assert tree.get_live_node(view, "never") is None


def test_a_level_counts_the_steps_from_the_root(view: FakeKeywordView) -> None:
    levels = [tree.count_ancestors(view, node_id) for node_id in (ROOT_ID, view.id_of("算法"), view.id_of("FastAPI"))]

    assert levels == [0, 1, 3]


def test_a_keyword_is_within_itself_and_all_above_it(view: FakeKeywordView) -> None:
    fast_api, language = view.id_of("FastAPI"), view.id_of("语言")

    assert tree.is_within(view, fast_api, fast_api)
    assert tree.is_within(view, fast_api, language)
    assert tree.is_within(view, fast_api, ROOT_ID)
    assert not tree.is_within(view, language, fast_api)
    assert not tree.is_within(view, view.id_of("排序"), language)


def test_the_lowest_common_ancestor_is_the_deepest_that_all_hang_below(view: FakeKeywordView) -> None:
    fast_api, go, sorting = (view.id_of(name) for name in ("FastAPI", "Go", "排序"))

    assert tree.lowest_common_ancestor(view, [fast_api, go]) == view.id_of("语言")
    assert tree.lowest_common_ancestor(view, [fast_api, go, sorting]) == ROOT_ID
    assert tree.lowest_common_ancestor(view, [fast_api, view.id_of("Python")]) == view.id_of("Python")
    assert tree.lowest_common_ancestor(view, [fast_api]) == fast_api
    assert tree.lowest_common_ancestor(view, []) == ROOT_ID


def test_no_walk_goes_round_in_a_ring(view: FakeKeywordView) -> None:
    language, python = view.id_of("语言"), view.id_of("Python")
    view.edit(language, parent_id=python)

    assert names(tree.get_path(view, python)) == ["语言", "Python"]
    assert tree.count_ancestors(view, python) == 1
    assert not tree.is_within(view, python, ROOT_ID)


def test_what_lost_its_parent_begins_its_own_path(view: FakeKeywordView) -> None:
    view.drop(view.id_of("语言"))

    assert names(tree.get_path(view, view.id_of("FastAPI"))) == ["Python", "FastAPI"]


def test_a_chain_of_ten_thousand_is_walked() -> None:
    view = FakeKeywordView()
    last = ROOT_ID
    for number in range(10_000):
        last = view.put(f"k {number}", last).id

    assert len(tree.get_path(view, last)) == 10_001
    assert tree.count_ancestors(view, last) == 10_000


def test_the_row_of_the_root_says_the_same_before_and_after_it_is_made() -> None:
    shown, made = tree.make_root_row(), tree.make_root_row(1_772_712_000.0)

    assert shown["created_at"] == shown["updated_at"] == "1970-01-01T00:00:00.000Z"
    assert made["created_at"] == made["updated_at"] == "2026-03-05T12:00:00.000Z"
    assert {**shown, "created_at": "", "updated_at": ""} == {**made, "created_at": "", "updated_at": ""}
    assert (made["id"], made["parent_id"], made["normalized"], made["version"]) == ("root", None, [], 1)
