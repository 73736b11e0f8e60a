"""What a model is shown: recent matches first, then breadth first, never more than fits and nothing that is hidden."""

from collections.abc import Hashable, Sequence

import pytest

from knowhub.core.table_schema import Index, SummaryT
from knowhub.keywords.model import ROOT_ID, Node
from knowhub.keywords.search.candidates import MAX_PATH, NO_DESCRIPTION, VisibleTree, drop_descendants, join_path
from knowhub.keywords.tree import BY_PARENT, find_keyword
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of

SHAPE: Shape = {"技术": {"编程语言": {"Python": {}, "Go": {}}, "网络": {}}, "生活": {"菜谱": {}}}


class CountingView(FakeKeywordView):
    """Counts whose children were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def lookup(self, index: Index[SummaryT], key: Hashable) -> list[SummaryT]:
        if index.name == BY_PARENT.name:
            self.asked.append(str(key))
        return super().lookup(index, key)


def names(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_the_tree_is_shown_level_by_level_oldest_first() -> None:
    visible_tree = VisibleTree(tree_of(SHAPE), local())

    assert names(visible_tree.list_first_candidates([], 50)) == [
        "技术",
        "生活",
        "编程语言",
        "网络",
        "菜谱",
        "Python",
        "Go",
    ]
    assert names(visible_tree.list_first_candidates([], 3)) == ["技术", "生活", "编程语言"]
    assert visible_tree.list_first_candidates([], 0) == []


def test_recent_matches_come_first_and_are_not_shown_twice() -> None:
    view = tree_of(SHAPE)
    recent = [view.id_of("Go"), view.id_of("编程语言"), view.id_of("技术")]

    shown = VisibleTree(view, local()).list_first_candidates(recent, 50)

    assert names(shown) == ["Go", "编程语言", "技术", "生活", "网络", "菜谱", "Python"]


def test_recent_matches_of_a_wide_tree_leave_half_of_the_places_to_the_tree() -> None:
    view = tree_of({f"top {number}": {f"leaf {number}": {}} for number in range(60)})
    recent = [view.id_of(f"leaf {number}") for number in range(40)]

    shown = VisibleTree(view, local()).list_first_candidates(recent, 50)

    assert names(shown) == [f"leaf {number}" for number in range(25)] + [f"top {number}" for number in range(25)]


def test_a_recent_match_that_is_gone_hidden_or_the_root_is_skipped() -> None:
    view = tree_of(SHAPE)
    secret = view.put("secret", view.id_of("技术"), owner="user:bob", scopes=("user:bob",))
    go = view.id_of("Go")
    view.drop(go)
    recent = [ROOT_ID, "never", secret.id, go, view.id_of("菜谱")]

    shown = names(VisibleTree(view, caller(user_id="ann")).list_first_candidates(recent, 50))

    assert shown == ["菜谱", "技术", "生活", "编程语言", "网络", "Python"]


def test_what_hangs_below_something_hidden_is_shown_without_its_name_in_the_path() -> None:
    view = tree_of(SHAPE)
    view.edit(view.id_of("编程语言"), owner="user:bob", scopes=("user:bob",))
    visible_tree = VisibleTree(view, caller(user_id="ann"))
    python = find_keyword(view, view.id_of("Python"))

    shown = visible_tree.list_first_candidates([], 50)

    assert names(shown) == ["技术", "生活", "网络", "菜谱", "Python", "Go"]
    assert python is not None
    assert visible_tree.make_candidate(python).path == "技术 / Python"
    assert not visible_tree.is_leaf(view.id_of("技术"))
    assert names(VisibleTree(view, caller(user_id="bob")).list_path(python.id)) == [
        "root",
        "技术",
        "编程语言",
        "Python",
    ]


def test_the_walk_ends_when_the_places_are_taken() -> None:
    view = CountingView()
    for number in range(60):
        view.put("below", view.put(f"top {number}").id)

    shown = VisibleTree(view, local()).list_first_candidates([], 50)

    assert len(shown) == 50
    assert view.asked == [ROOT_ID]


def test_several_branches_take_turns() -> None:
    view = tree_of({"wide": {f"w{number}": {} for number in range(100)}, "narrow": {"n0": {"n00": {}}, "n1": {}}})
    visible_tree = VisibleTree(view, local())

    shown = names(visible_tree.list_descendants([view.id_of("wide"), view.id_of("narrow")], 10))

    assert shown == ["w0", "n0", "w1", "n1", "w2", "w3", "w4", "w5", "w6", "w7"]


def test_a_cycle_that_no_verb_makes_ends_the_walk_all_the_same() -> None:
    view = tree_of({"a": {"b": {"c": {}}}})
    view.edit("k0", parent_id="k2")
    visible_tree = VisibleTree(view, local())

    assert names(visible_tree.list_descendants(["k0"], 50)) == ["b", "c", "a"]
    assert visible_tree.list_first_candidates([], 50) == []


def test_only_the_tops_of_independent_subtrees_are_kept() -> None:
    view = tree_of(SHAPE)
    python, languages, recipes = (view.id_of(name) for name in ("Python", "编程语言", "菜谱"))

    assert drop_descendants(view, [python, languages, recipes, python]) == [languages, recipes]
    assert drop_descendants(view, [ROOT_ID, python, recipes]) == [ROOT_ID]


def test_a_description_is_shown_where_it_is_wanted_and_named_where_it_is_missing() -> None:
    view = FakeKeywordView()
    visible_tree = VisibleTree(view, local())
    bare, told = view.put("Go"), view.put("Python", description="一门语言" * 200)

    assert visible_tree.make_candidate(told).description is None
    assert visible_tree.make_candidate(told, described=True).description == ("一门语言" * 200)[:300]
    assert visible_tree.make_candidate(bare, described=True).description == NO_DESCRIPTION == "无描述"


@pytest.mark.parametrize("depth", [1, 10, 1_000])
def test_a_path_of_any_depth_keeps_its_two_ends(depth: int) -> None:
    path = join_path([f"name {number}" for number in range(depth)])

    assert len(path) <= MAX_PATH
    assert path.startswith("name 0")
    assert path.endswith(f"name {depth - 1}")
