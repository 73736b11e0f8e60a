"""Walks of the tree: every one ends, even if rows form a cycle or lack a parent."""

import pytest

from knowhub.keywords import tree
from knowhub.keywords.model import ROOT_ID, Node
from tests.fakes.keyword_view import FakeKeywordView, tree_of


@pytest.fixture
def view() -> FakeKeywordView:
    return tree_of({"语言": {"Python": {"FastAPI": {}}}})


def names_of(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_walks_end_in_a_cycle(view: FakeKeywordView) -> None:
    language, python = view.id_of("语言"), view.id_of("Python")
    view.edit(language, parent_id=python)

    assert names_of(tree.get_path(view, python)) == ["语言", "Python"]
    assert not tree.is_within(view, python, ROOT_ID)


def test_a_keyword_without_parent_starts_its_own_path(view: FakeKeywordView) -> None:
    view.drop(view.id_of("语言"))

    assert names_of(tree.get_path(view, view.id_of("FastAPI"))) == ["Python", "FastAPI"]
