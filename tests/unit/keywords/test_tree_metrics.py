"""The health of a tree: orphans, depth, width, missing descriptions and duplicates, as the caller sees them."""

from typing import Any

import pytest

from knowhub.core.request_context import RequestContext
from knowhub.keywords.curate import metrics
from knowhub.keywords.model import Link, RelationType
from tests.builders import caller, local
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of

ANN = caller(user_id="ann")
HIDDEN = {"owner": "user:bob", "scopes": ("user:bob",)}


def measure_tree(view: FakeKeywordView, ctx: RequestContext | None = None) -> dict[str, Any]:
    *_, figures = metrics.measure_tree(view, ctx or local())
    assert figures is not None
    return figures


def make_chain(*names: str) -> Shape:
    return {names[0]: make_chain(*names[1:])} if names else {}


def test_an_empty_tree_is_measured_too() -> None:
    figures = measure_tree(FakeKeywordView())

    assert (figures["nodes"], figures["max_depth"], figures["depths"]) == (0, 0, {"0": 1})
    assert figures["fan_out"] == {"mean": 0.0, "max": 0, "p50": 0, "p95": 0, "widest": []}
    assert figures["missing_descriptions"] == {"count": 0, "rate": 0.0}


def test_levels_and_leaves_are_counted_below_the_root() -> None:
    figures = measure_tree(tree_of({"语言": {"Python": {"FastAPI": {}}, "Go": {}}, "工具": {}}))

    assert (figures["nodes"], figures["leaves"]) == (5, 3)
    assert (figures["depths"], figures["max_depth"]) == ({"0": 1, "1": 2, "2": 2, "3": 1}, 3)
    assert figures["deep"] == figures["duplicates"] == []


def test_empty_keywords_and_unlinked_infos_are_orphans() -> None:
    view = tree_of({"语言": {"Python": {}, "Go": {}}})
    for info_id in ("on Python", "on nothing", "on what is gone"):
        view.put_info(info_id)
    view.link(Link("on Python", view.id_of("Python"), RelationType.PRIMARY))
    gone = view.put("gone")
    view.link(Link("on what is gone", gone.id, RelationType.PRIMARY))
    view.drop(gone.id)

    figures = measure_tree(view)

    assert figures["orphans"] == [view.id_of("Go"), "on what is gone", "on nothing"]
    assert (figures["orphan_keyword_count"], figures["orphan_info_count"], figures["orphan_count"]) == (1, 2, 3)


def test_a_detached_keyword_and_its_descendants_are_orphans() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}}, "工具": {}})
    stray = view.put("lost", "never-there")
    ring = view.put("ring", "k6", id="k5")
    view.put("ring too", ring.id, id="k6")
    view.drop(view.id_of("语言"))

    figures = measure_tree(view)

    assert figures["orphans"] == ["k1", "k2", view.id_of("工具"), stray.id, "k5", "k6"]
    assert (figures["orphan_count"], figures["nodes"], figures["depths"]) == (6, 6, {"0": 1, "1": 1})


def test_the_fan_out_has_mean_percentiles_and_widest_keywords() -> None:
    view = tree_of({"wide": {str(number): {} for number in range(19)}, "narrow": {"one": {}}, "leaf": {}})

    figures = measure_tree(view)["fan_out"]

    assert (figures["mean"], figures["max"], figures["p50"], figures["p95"]) == (7.67, 19, 3, 19)
    assert [(item["name"], item["children"]) for item in figures["widest"]] == [
        ("wide", 19),
        ("root", 3),
        ("narrow", 1),
    ]


def test_keywords_below_six_levels_are_named_deepest_first() -> None:
    figures = measure_tree(tree_of(make_chain(*"abcdefgh")))

    assert [(item["name"], item["level"]) for item in figures["deep"]] == [("h", 8), ("g", 7)]
    assert figures["deep_count"] == 2


def test_keywords_with_one_normal_form_are_duplicates() -> None:
    view = tree_of({"语言": {"Python": {}}, "动物": {"python": {}, "PYTHON": {}}, "Go": {"go": {}}})

    figures = measure_tree(view)

    assert figures["duplicates"] == [
        {"token": "python", "ids": ["k1", "k3", "k4"]},
        {"token": "go", "ids": ["k5", "k6"]},
    ]


def test_hidden_rows_are_neither_counted_nor_orphans() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}}})
    view.put("python", view.id_of("语言"), **HIDDEN)
    view.edit(view.id_of("Python"), **HIDDEN)
    view.put_info("i-1")
    for keyword in ("FastAPI", "Python"):
        view.link(Link("i-1", view.id_of(keyword), RelationType.PRIMARY))

    seen, all_of_it = measure_tree(view, ANN), measure_tree(view)

    assert (seen["nodes"], seen["orphan_count"], seen["duplicates"], seen["links"]) == (2, 0, [], 1)
    assert (all_of_it["nodes"], all_of_it["links"], all_of_it["duplicate_count"]) == (4, 2, 1)
    # A hidden keyword between them exists only for its readers.
    assert (seen["depths"], all_of_it["depths"]) == ({"0": 1, "1": 1, "2": 1}, {"0": 1, "1": 1, "2": 2, "3": 1})


@pytest.mark.parametrize("live", [True, False])
def test_a_link_counts_only_if_its_info_is_visible(live: bool) -> None:
    view = tree_of({"a": {}})
    view.put_info("i-1", live=live)
    view.link(Link("i-1", "k0", RelationType.PRIMARY))

    assert measure_tree(view, ANN)["links"] == int(live)
