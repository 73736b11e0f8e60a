"""Keywords in answers: the row, computed fields of the tree, and nothing hidden."""

import json

import pytest

from knowhub.keywords import rendering
from knowhub.keywords.model import Node
from knowhub.keywords.tree import find_keyword
from tests.builders import caller
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


def test_hidden_keywords_are_left_out_of_a_path_and_its_levels(view: FakeKeywordView) -> None:
    view.edit(view.id_of("Python"), owner="user:bob", scopes=("user:bob",))
    node = node_of(view, "FastAPI")

    seen = [(item["name"], item["level"]) for item in map(json.loads, path(view, node))]

    assert seen == [("root", 0), ("语言", 1), ("FastAPI", 2)]
    assert [item.name for item in rendering.list_visible_path(view, ANN, node.id)] == ["root", "语言", "FastAPI"]


def path(view: FakeKeywordView, node: Node) -> list[bytes]:
    return rendering.render_path(view, ANN, node, with_children=False)
