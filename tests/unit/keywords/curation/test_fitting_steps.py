"""Which steps of a plan fit together."""

import pytest

from knowhub.keywords.curate import selection
from knowhub.keywords.curate.plan import MAX_CHILDREN, MAX_STEPS, MoveStep
from knowhub.keywords.model import ROOT_ID
from tests.fakes.keyword_view import tree_of
from tests.unit.keywords.curation.curated import chosen, step_of, surveyed, told


def test_of_steps_that_contradict_each_other_the_first_stays() -> None:
    view = tree_of({"a": {}, "b": {}, "c": {}, "d": {}})
    step = step_of(view)

    steps = chosen(
        view,
        step("move", "a", "b"),
        step("move", "a", "c"),
        step("merge", "a", "d"),
        step("merge", "b", "d"),
        step("merge", "c", "d"),
        step("move", "d", "c"),
        step("describe", "c", "gone by then"),
        step("describe", "d", "first"),
        step("describe", "d", "second"),
    )

    assert steps == [("move", "a", "b"), ("merge", "k2", "k3"), ("describe", "d", "first")]


def test_what_gets_a_description_is_not_merged_away_after_it() -> None:
    view = tree_of({"a": {}, "b": {}})
    step = step_of(view)

    assert chosen(view, step("describe", "a", "text"), step("merge", "a", "b")) == [("describe", "a", "text")]


def test_a_circle_of_moves_and_merges_is_broken() -> None:
    view = tree_of({"a": {"a1": {}}, "b": {"b1": {}}, "c": {"c1": {}}})
    step = step_of(view)

    steps = chosen(view, step("move", "a", "b1"), step("merge", "b", "c1"), step("move", "c", "a1"))

    assert steps == [("move", "a", "b1"), ("merge", view.id_of("b"), view.id_of("c1"))]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("move", ROOT_ID, "a"),
        ("merge", ROOT_ID, "a"),
        ("merge", "a", ROOT_ID),
        ("describe", ROOT_ID, "text"),
        ("describe", "told", "another text"),
        ("move", "a", "a"),
        ("move", "a", ROOT_ID),
        ("move", "a", "a1"),
        ("move", "gone", "a"),
        ("move", "a", "gone"),
        ("split", "a", {"G": ["b"]}),
        ("split", "a", {"!!": ["a1"]}),
    ],
)
def test_a_step_that_cannot_be_taken_is_dropped(kind: str, first: str, second: object) -> None:
    view = tree_of({"a": {"a1": {}}, "b": {}})
    view.put("told", description="a text")
    view.put("gone", id="gone")
    step = step_of(view)(kind, first, second)
    view.drop("gone")

    assert chosen(view, step) == []


def test_a_step_is_told_with_the_versions_and_paths_of_now() -> None:
    view = tree_of({"语言": {}, "Python": {}})
    step = step_of(view)("move", "Python", "语言")
    view.edit("k1")

    (now,) = selection.select_compatible(surveyed(view), [step], (MAX_STEPS, MAX_CHILDREN))

    assert isinstance(now, MoveStep)
    assert (now.node.version, now.node.path, now.to.path) == (2, "root / Python", "root / 语言")


def test_steps_and_the_children_of_splits_are_bounded() -> None:
    view = tree_of({"a": {}, "b": {}, "wide": {str(number): {} for number in range(10)}})
    step = step_of(view)
    wanted = [step("split", "wide", {"G": "01234", "H": "56789"}), step("move", "a", "wide"), step("move", "b", "a")]

    steps = told(view, selection.select_compatible(surveyed(view), wanted, (2, 7)))

    assert steps == [("split", "wide", {"G": list("01234"), "H": list("56")}), ("move", "a", "wide")]
