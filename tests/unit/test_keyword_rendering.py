"""Keywords as answers show them: the row, what is computed of the tree, and nothing that the caller cannot see."""

import json

import pytest

from knowhub.core.errors import NotFound
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.model import KEYWORDS, ROOT_ID, Node
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of

ANN = caller(user_id="ann")


@pytest.fixture
def view() -> FakeKeywordView:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}, "Go": {}}})
    view.put("secret", view.id_of("语言"), owner="user:bob", scopes=("user:bob",))
    return view


def node_of(view: FakeKeywordView, name: str) -> Node:
    node = view.node(view.id_of(name))
    assert node is not None
    return node


def test_a_keyword_is_its_row_with_level_children_and_their_count(view: FakeKeywordView) -> None:
    node = node_of(view, "语言")

    shown = json.loads(rendering.keyword_json(view, local(), node, with_children=True))

    row = dict(view.get(KEYWORDS, node.id) or {})
    children = [view.id_of(name) for name in ("Python", "Go", "secret")]
    assert shown == {**row, "level": 1, "children": children, "child_count": 3}
    assert rendering.keyword_answer(view, local(), row) == shown


def test_children_that_the_caller_cannot_see_are_neither_listed_nor_counted(view: FakeKeywordView) -> None:
    node = node_of(view, "语言")

    shown = json.loads(rendering.keyword_json(view, ANN, node, with_children=True))

    assert shown["children"] == [view.id_of("Python"), view.id_of("Go")]
    assert shown["child_count"] == 2
    assert rendering.keyword_answer(view, ANN, view.get(KEYWORDS, node.id) or {})["child_count"] == 2


def test_a_leaf_has_an_empty_list_of_children(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.keyword_json(view, local(), node_of(view, "Go"), with_children=True))

    assert (shown["level"], shown["children"], shown["child_count"]) == (2, [], 0)


def test_without_children_their_count_stays(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.keyword_json(view, local(), node_of(view, "语言"), with_children=False))

    assert "children" not in shown
    assert shown["child_count"] == 3


def test_a_level_that_the_caller_of_the_function_knows_is_taken_as_it_is(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.keyword_json(view, local(), node_of(view, "Go"), with_children=False, level=7))

    assert shown["level"] == 7


def test_a_root_that_was_never_written_is_shown_too(view: FakeKeywordView) -> None:
    shown = json.loads(rendering.keyword_json(view, local(), tree.ROOT_NODE, with_children=True))

    assert shown == {**tree.root_row(), "level": 0, "children": [view.id_of("语言")], "child_count": 1}
    assert rendering.keyword_row(view, ROOT_ID) == tree.root_row()


def test_a_path_leaves_out_what_is_hidden_from_its_levels_too(view: FakeKeywordView) -> None:
    view.edit(view.id_of("Python"), owner="user:bob", scopes=("user:bob",))
    node = node_of(view, "FastAPI")

    seen = [(one["name"], one["level"]) for one in map(json.loads, path(view, node))]

    assert seen == [("root", 0), ("语言", 1), ("FastAPI", 2)]
    assert [one.name for one in rendering.visible_path(view, ANN, node)] == ["root", "语言", "FastAPI"]


def test_the_id_of_a_parent_is_told_to_who_sees_the_parent(view: FakeKeywordView) -> None:
    parent_id = view.id_of("Python")
    view.edit(parent_id, owner="user:bob", scopes=("user:bob",))
    node = node_of(view, "FastAPI")

    def parents(ctx: RequestContext) -> set[str | None]:
        row = rendering.keyword_row(view, node.id)
        text = rendering.keyword_json(view, ctx, node, with_children=False)
        return {json.loads(text)["parent_id"], rendering.keyword_answer(view, ctx, row)["parent_id"]}

    assert (parents(ANN), parents(local()), parents(caller(user_id="bob"))) == ({None}, {parent_id}, {parent_id})


def path(view: FakeKeywordView, node: Node) -> list[bytes]:
    return rendering.path_json(view, ANN, node, with_children=False)


def test_missing_deleted_and_hidden_are_the_same_to_the_caller(view: FakeKeywordView) -> None:
    hidden, gone = view.id_of("secret"), view.id_of("Go")
    view.drop(gone)
    view.put_info("gone", live=False)

    for keyword_id in (hidden, gone, "never"):
        with pytest.raises(NotFound, match=f"no keyword with id '{keyword_id}'"):
            rendering.visible_node(view, ANN, keyword_id)
        assert rendering.seen_node(view, ANN, keyword_id) is None
    for info_id in ("gone", "never"):
        with pytest.raises(NotFound, match=f"no info with id '{info_id}'"):
            rendering.visible_info(view, ANN, info_id)

    assert rendering.visible_node(view, local(), hidden).name == "secret"
    assert view.put_info("there") == rendering.visible_info(view, ANN, "there")


def test_a_keyword_that_is_not_there_has_no_row(view: FakeKeywordView) -> None:
    with pytest.raises(NotFound):
        rendering.keyword_row(view, "never")
