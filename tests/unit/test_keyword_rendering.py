"""Keywords as answers show them: the row, what is computed of the tree, and nothing that the caller cannot see."""

import json

import pytest

from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Node
from knowhub.keywords.tree import find_keyword
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of

ANN = caller(user_id="ann")


@pytest.fixture
def view() -> FakeKeywordView:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}, "Go": {}}})
    view.put("secret", view.id_of("语言"), owner="user:bob", scopes=("user:bob",))
    return view


def node_of(view: FakeKeywordView, name: str) -> Node:
    node = find_keyword(view, view.id_of(name))
    assert node is not None
    return node


def test_a_keyword_is_its_row_with_level_children_and_their_count(view: FakeKeywordView) -> None:
    node = node_of(view, "语言")

    shown = json.loads(rendering.render_keyword(view, local(), node, with_children=True))

    row = dict(view.get(KEYWORDS, node.id) or {})
    children = [view.id_of(name) for name in ("Python", "Go", "secret")]
    assert shown == {**row, "level": 1, "children": children, "child_count": 3}
    assert rendering.add_tree_fields(view, local(), row) == shown


def test_children_that_the_caller_cannot_see_are_neither_listed_nor_counted(view: FakeKeywordView) -> None:
    node = node_of(view, "语言")

    shown = json.loads(rendering.render_keyword(view, ANN, node, with_children=True))

    assert shown["children"] == [view.id_of("Python"), view.id_of("Go")]
    assert shown["child_count"] == 2
    assert rendering.add_tree_fields(view, ANN, view.get(KEYWORDS, node.id) or {})["child_count"] == 2


def test_a_leaf_has_an_empty_list_of_children(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.render_keyword(view, local(), node_of(view, "Go"), with_children=True))

    assert (shown["level"], shown["children"], shown["child_count"]) == (2, [], 0)


def test_without_children_their_count_stays(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.render_keyword(view, local(), node_of(view, "语言"), with_children=False))

    assert "children" not in shown
    assert shown["child_count"] == 3


def test_a_root_that_was_never_written_is_shown_too(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.render_keyword(view, local(), tree.ROOT_NODE, with_children=True))

    assert shown == {**tree.make_root_row(), "level": 0, "children": [view.id_of("语言")], "child_count": 1}
    assert rendering.get_keyword_row(view, ROOT_ID) == tree.make_root_row()


def test_a_path_leaves_out_what_is_hidden_from_its_levels_too(view: FakeKeywordView) -> None:
    view.edit(view.id_of("Python"), owner="user:bob", scopes=("user:bob",))
    node = node_of(view, "FastAPI")

    seen = [(one["name"], one["level"]) for one in map(json.loads, path(view, node))]

    assert seen == [("root", 0), ("语言", 1), ("FastAPI", 2)]
    assert [one.name for one in rendering.list_visible_path(view, ANN, node)] == ["root", "语言", "FastAPI"]


def test_the_id_of_a_parent_is_told_to_who_sees_the_parent(view: FakeKeywordView) -> None:
    parent_id = view.id_of("Python")
    view.edit(parent_id, owner="user:bob", scopes=("user:bob",))
    node = node_of(view, "FastAPI")

    def parents(ctx: RequestContext) -> set[str | None]:
        row = rendering.get_keyword_row(view, node.id)
        text = rendering.render_keyword(view, ctx, node, with_children=False)
        return {json.loads(text)["parent_id"], rendering.add_tree_fields(view, ctx, row)["parent_id"]}

    assert (parents(ANN), parents(local()), parents(caller(user_id="bob"))) == ({None}, {parent_id}, {parent_id})


def path(view: FakeKeywordView, node: Node) -> list[bytes]:
    return rendering.render_path(view, ANN, node, with_children=False)
