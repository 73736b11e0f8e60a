"""The steps of a plan: which are compatible, which are refused, and what each of them writes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.core.errors import Conflict, Forbidden
from knowhub.keywords import tree
from knowhub.keywords.curate.curator import select_compatible
from knowhub.keywords.curate.plan import MAX_CHILDREN, MAX_STEPS, StepKind
from knowhub.keywords.edits import PendingRows
from knowhub.keywords.model import LINKS, ROOT_ID, Link, RelationType
from knowhub.keywords.tree import (
    list_keywords,
)
from tests.builders import caller
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.unit.keywords.curation.curation_steps import (
    ANN,
    ANN_OF_WEB,
    HIDDEN,
    carry_out,
    describe_steps,
    parents_by_id,
    select_steps,
    snapshot_tree,
    step_builder,
)


def test_steps_see_earlier_steps_and_write_each_row_once() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}}, "python": {"Flask": {}}, "工具": {}})
    step = step_builder(view)
    flask, python = view.id_of("Flask"), view.id_of("Python")

    done = carry_out(
        view,
        step("move", "Flask", "FastAPI"),
        step("merge", "python", "Python"),
        step("describe", "Python", "A language."),
        step("move", "Python", "工具"),
    )

    after = {write.id: write.after for write in done.writes}
    assert len(done.writes) == 3
    assert {row["version"] for row in after.values()} == {2}
    assert parents_by_id(done.writes)[flask] == view.id_of("FastAPI")
    assert (after[python]["parent_id"], after[python]["description"]) == (view.id_of("工具"), "A language.")
    assert after[view.id_of("python")]["deleted"]
    assert {kind: done.reply[kind] for kind in ("moved", "merged", "described", "split")} == {
        "moved": 2,
        "merged": 1,
        "described": 1,
        "split": 0,
    }


def test_links_follow_two_merges_without_intermediate_rows() -> None:
    view = tree_of({"a": {}, "b": {}, "c": {}})
    view.put_info("i")
    view.link(Link("i", "k0", RelationType.EXAMPLE))
    step = step_builder(view)

    done = carry_out(view, step("merge", "a", "b"), step("merge", "b", "c"))

    links = {write.id: write.after for write in done.writes if write.collection == LINKS}
    assert {link_id: bool(row.get("deleted")) for link_id, row in links.items()} == {"i:k2": False, "i:k0": True}
    assert (links["i:k2"]["relation"], links["i:k2"]["version"]) == ("EXAMPLE", 1)


def test_a_split_creates_a_keyword_for_each_group() -> None:
    view = tree_of({"运维": {"Docker 网络": {}, "Docker 卷": {}, "K8s 网络": {}}})
    step = step_builder(view)

    done = carry_out(view, step("split", "运维", {"Docker": ["Docker 网络", "Docker 卷"], "K8s": ["K8s 网络"]}))

    docker, k8s = done.reply["created"]
    assert parents_by_id(done.writes) == {docker: "k0", k8s: "k0", "k1": docker, "k2": docker, "k3": k8s}
    made = next(write.after for write in done.writes if write.id == docker)
    assert (made["name"], made["normalized"], made["scopes"], made["version"]) == ("Docker", ["docker"], ["public"], 1)


def test_a_group_has_the_readers_of_its_children() -> None:
    view = FakeKeywordView()
    for name, shown in (("a", ("team:web",)), ("b", ("user:owner", "project:x"))):
        view.put(name, scopes=shown, owner="user:ann")
    step = step_builder(view)("split", ROOT_ID, {"G": ["a", "b"]})

    (group,) = (write.after for write in carry_out(view, step, ctx=ANN_OF_WEB).writes if write.after["name"] == "G")

    assert (group["owner"], group["scopes"]) == ("user:ann", ["project:x", "team:web"])


def test_all_keywords_changed_since_the_plan_are_named() -> None:
    view = tree_of({"a": {}, "b": {}, "c": {}})
    view.put("hidden", id="hidden", **HIDDEN)
    step = step_builder(view)
    steps = [step("move", "a", "b"), step("merge", "c", "b"), step("move", "hidden", "b")]
    view.edit("k1", parent_id="k2")
    view.drop("k2")

    with pytest.raises(Conflict) as refused:
        carry_out(view, *steps, ctx=caller(user_id="local"))

    assert refused.value.extra == {
        "stale": [
            {"id": "k1", "version": 1, "current_version": 2},
            {"id": "k2", "version": 1, "current_version": None},
            {"id": "hidden", "version": 1, "current_version": None},
        ]
    }


@pytest.mark.parametrize(
    "steps",
    [
        [("move", ROOT_ID, "a")],
        [("merge", "a", ROOT_ID)],
        [("describe", ROOT_ID, "text")],
        [("move", "a", "a1")],
        [("merge", "a", "a1")],
        [("move", "a", "b1"), ("move", "b", "a1")],
        [("merge", "a", "b"), ("move", "b", "a")],
        [("merge", "a", "b"), ("merge", "b1", "a")],
        [("merge", "a", "b"), ("describe", "a", "text")],
        [("split", "a", {"G": ["b"]})],
        [("split", "a", {"G": ["a1", "a1"]})],
        [("split", "a", {"G": ["a1"], "H": ["a1"]})],
        [("move", "a1", "b"), ("split", "a", {"G": ["a1"]})],
    ],
)
def test_an_impossible_step_is_refused_with_its_number(steps: list[tuple[str, str, object]]) -> None:
    view = tree_of({"a": {"a1": {}}, "b": {"b1": {}}})
    step = step_builder(view)

    with pytest.raises(Conflict) as refused:
        carry_out(view, *(step(*item) for item in steps))

    assert refused.value.extra["step"] == len(steps) - 1


@pytest.mark.parametrize(
    "step", [("move", "a1", "b"), ("merge", "a1", "b"), ("describe", "a", "t"), ("split", "a", {"G": ["a1"]})]
)
def test_steps_on_foreign_keywords_are_refused(step: tuple[str, str, object]) -> None:
    view = tree_of({"a": {"a1": {}}, "b": {}})

    with pytest.raises(Forbidden) as refused:
        carry_out(view, step_builder(view)(*step), ctx=ANN)

    assert refused.value.extra["step"] == 0


NAMES = [f"n{number}" for number in range(8)]

PARENTS = st.tuples(*[st.integers(-1, number - 1) for number in range(len(NAMES))])

KEYWORD = st.sampled_from([*NAMES, ROOT_ID])

ANY_STEP = st.one_of(
    st.tuples(st.sampled_from(["move", "merge"]), KEYWORD, KEYWORD),
    st.tuples(st.just("describe"), KEYWORD, st.just("text")),
    st.tuples(st.just("split"), KEYWORD, st.fixed_dictionaries({"G": st.lists(KEYWORD, max_size=4)})),
)


@settings(max_examples=300, deadline=None)
@given(PARENTS, st.lists(ANY_STEP, max_size=12))
def test_compatible_steps_can_be_applied_and_leave_a_tree(
    above: tuple[int, ...], wanted: list[tuple[str, str, Any]]
) -> None:
    view = FakeKeywordView()
    for number, parent in enumerate(above):
        view.put(NAMES[number], ROOT_ID if parent < 0 else f"k{parent}")
    step = step_builder(view)
    survey = snapshot_tree(view)

    steps = select_compatible(survey, [step(*item) for item in wanted])
    planned = PendingRows(view)
    planned.put(carry_out(view, *steps).writes)

    assert all(tree.get_path(planned.view, node.id)[0].id == ROOT_ID for node in list_keywords(planned.view))
    # An id more for each group, one less for each that was merged away.
    merges = sum(item.kind is StepKind.MERGE for item in steps)
    groups = sum(len(item.groups) for item in steps)
    assert len(list(list_keywords(planned.view))) == len(NAMES) + groups - merges


def test_fresh_rows_are_written_first_and_tombstones_last() -> None:
    view = tree_of({"a": {"a1": {}}, "b": {"b1": {}}})
    step = step_builder(view)

    writes = carry_out(view, step("merge", "a", "b"), step("split", "b", {"G": ["b1"]})).writes

    assert [write.after.get("name") for write in writes] == ["G", "b", "a1", "b1", "a"]


def test_the_first_of_contradicting_steps_is_kept() -> None:
    view = tree_of({"a": {}, "b": {}, "c": {}, "d": {}})
    step = step_builder(view)

    steps = select_steps(
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
def test_an_impossible_step_is_dropped(kind: str, first: str, second: object) -> None:
    view = tree_of({"a": {"a1": {}}, "b": {}})
    view.put("told", description="a text")
    view.put("gone", id="gone")
    step = step_builder(view)(kind, first, second)
    view.drop("gone")

    assert select_steps(view, step) == []


def test_a_step_has_current_versions_and_paths() -> None:
    view = tree_of({"语言": {}, "Python": {}})
    step = step_builder(view)("move", "Python", "语言")
    view.edit("k1")

    (now,) = select_compatible(snapshot_tree(view), [step])

    assert now.kind is StepKind.MOVE
    assert (now.nodes[0].version, *(node.path for node in now.nodes)) == (2, "root / Python", "root / 语言")


def test_steps_and_the_children_of_splits_are_bounded() -> None:
    names = [str(number) for number in range(MAX_CHILDREN + 2)]
    view = tree_of({"a": {}, "wide": {name: {} for name in names}, **{f"m{name}": {} for name in names[:MAX_STEPS]}})
    step = step_builder(view)
    moves = [step("move", f"m{name}", "a") for name in names[:MAX_STEPS]]
    wanted = [step("split", "wide", {"G": names[:5], "H": names[5:]}), *moves]

    steps = describe_steps(view, select_compatible(snapshot_tree(view), wanted))

    assert steps[0] == ("split", "wide", {"G": names[:5], "H": names[5:MAX_CHILDREN]})
    assert len(steps) == MAX_STEPS
