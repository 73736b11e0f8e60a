"""What a model is shown: recent matches first, then breadth first, up to the limit, and nothing hidden."""

from collections.abc import Hashable, Sequence

import pytest

from knowhub.core.table_schema import Index, SummaryT
from knowhub.keywords.model import ROOT_ID, Link, Node, RelationType
from knowhub.keywords.search.candidates import MAX_PATH, MORE_CHARS, MORE_NAMES, VisibleTree, join_path
from knowhub.keywords.search.prompts import NearKeywordIds
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


def names_of(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_near_and_recent_keywords_leave_most_slots_to_the_tree() -> None:
    view = tree_of({f"top {number}": {f"leaf {number}": {}} for number in range(60)})
    leaves = [view.id_of(f"leaf {number}") for number in range(40)]

    page = VisibleTree(view, local()).list_first_page(NearKeywordIds(tuple(leaves[:5])), leaves, 50)

    assert names_of(page.nodes) == [f"leaf {number}" for number in range(20)] + [
        f"top {number}" for number in range(30)
    ]
    assert page.next_offset == 30


def test_pages_show_every_keyword_of_a_wide_tree() -> None:
    view = tree_of({f"top {number}": {f"leaf {number}": {}} for number in range(1_500)})
    visible_tree = VisibleTree(view, local())
    first = visible_tree.list_first_page(NearKeywordIds(), [view.id_of("leaf 7")], 50)
    pages = [first]
    while (offset := pages[-1].next_offset) is not None:
        pages.append(visible_tree.list_page([ROOT_ID], MORE_NAMES, offset, MORE_CHARS))

    seen = {node.id for page in pages for node in page.nodes}

    assert len(seen) == 3_000
    assert max(len(page.nodes) for page in pages[1:]) <= MORE_NAMES
    assert len(pages) == 4
    assert first.upper == visible_tree.list_first_page(NearKeywordIds(), [], 50).upper


def test_an_outline_lists_ancestors_before_each_keyword() -> None:
    view = tree_of(SHAPE)
    nodes = [node for node in (find_keyword(view, view.id_of(name)) for name in ("Go", "菜谱", "Python")) if node]

    lines = VisibleTree(view, local()).make_outline(nodes)

    assert [(line.level, line.name, line.children) for line in lines] == [
        (0, "技术", 2),
        (1, "编程语言", 2),
        (2, "Go", 0),
        (2, "Python", 0),
        (0, "生活", 1),
        (1, "菜谱", 0),
    ]


def test_deleted_hidden_and_root_recent_matches_are_skipped() -> None:
    view = tree_of(SHAPE)
    secret = view.put("secret", view.id_of("技术"), owner="user:bob", scopes=("user:bob",))
    go = view.id_of("Go")
    view.drop(go)
    recent = [ROOT_ID, "never", secret.id, go, view.id_of("菜谱")]

    shown = names_of(VisibleTree(view, caller(user_id="ann")).list_first_page(NearKeywordIds(), recent, 50).nodes)

    assert shown == ["菜谱", "技术", "生活", "编程语言", "网络", "Python"]


def test_hidden_ancestors_are_left_out_of_paths() -> None:
    view = tree_of(SHAPE)
    view.edit(view.id_of("编程语言"), owner="user:bob", scopes=("user:bob",))
    visible_tree = VisibleTree(view, caller(user_id="ann"))
    python = find_keyword(view, view.id_of("Python"))

    shown = visible_tree.list_first_page(NearKeywordIds(), [], 50).nodes

    assert names_of(shown) == ["技术", "生活", "网络", "菜谱", "Python", "Go"]
    assert python is not None
    assert visible_tree.make_candidate(python).path == "技术 / Python"
    assert not visible_tree.is_leaf(view.id_of("技术"))
    assert names_of(VisibleTree(view, caller(user_id="bob")).list_path(python.id)) == [
        "root",
        "技术",
        "编程语言",
        "Python",
    ]


def test_the_walk_ends_at_the_candidate_limit() -> None:
    view = CountingView()
    for number in range(60):
        view.put("below", view.put(f"top {number}").id)

    shown = VisibleTree(view, local()).list_first_page(NearKeywordIds(), [], 50).nodes

    assert len(shown) == 50
    assert view.asked == [ROOT_ID]


def test_several_branches_take_turns() -> None:
    view = tree_of({"wide": {f"w{number}": {} for number in range(100)}, "narrow": {"n0": {"n00": {}}, "n1": {}}})
    visible_tree = VisibleTree(view, local())

    shown = names_of(visible_tree.list_page([view.id_of("wide"), view.id_of("narrow")], 10).nodes)

    assert shown == ["w0", "n0", "w1", "n1", "w2", "w3", "w4", "w5", "w6", "w7"]


def test_a_cycle_in_the_tree_ends_the_walk() -> None:
    view = tree_of({"a": {"b": {"c": {}}}})
    view.edit("k0", parent_id="k2")
    visible_tree = VisibleTree(view, local())

    assert names_of(visible_tree.list_page(["k0"], 50).nodes) == ["b", "c", "a"]
    assert visible_tree.list_first_page(NearKeywordIds(), [], 50).nodes == []


def test_a_candidate_has_counts_and_an_optional_description() -> None:
    view = FakeKeywordView()
    visible_tree = VisibleTree(view, local())
    bare, described = view.put("Go"), view.put("Python", description="一门\n语言" * 200)
    view.put("asyncio", described.id)
    view.put_info("i1")
    view.link(Link("i1", described.id, RelationType.PRIMARY))

    shown = visible_tree.make_candidate(described, described=True)

    assert visible_tree.make_candidate(described).description == ""
    assert shown.description == ("一门 语言" * 200)[:300]
    assert (shown.children, shown.infos) == (1, 1)
    assert visible_tree.make_candidate(bare, described=True).description == ""


@pytest.mark.parametrize("depth", [1, 10, 1_000])
def test_a_long_path_keeps_both_ends(depth: int) -> None:
    path = join_path([f"name {number}" for number in range(depth)])

    assert len(path) <= MAX_PATH
    assert path.startswith("name 0")
    assert path.endswith(f"name {depth - 1}")
