"""What the rules find to improve in a tree, which steps fit together, and what carrying out a plan comes to."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.core.errors import Conflict, Forbidden, InvalidInput
from knowhub.core.operation import Write
from knowhub.core.request_context import RequestContext
from knowhub.keywords import curation, tree
from knowhub.keywords.applied_plan import Applied, applied
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.curation import Survey
from knowhub.keywords.model import KEYWORDS, LINKS, ROOT_ID, Link, RelationType
from knowhub.keywords.plan import (
    MAX_CHILDREN,
    MAX_STEPS,
    DescribeStep,
    MergeStep,
    MoveStep,
    SplitGroup,
    SplitStep,
    Step,
)
from knowhub.keywords.planned_view import PlannedView
from tests.builders import CountedIds, caller, local
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of
from tests.fakes.plain_text import PlainText

ANN = caller(user_id="ann")
ANN_OF_WEB = caller(user_id="ann", team_id="web", project_id="x")
HIDDEN: dict[str, Any] = {"owner": "user:bob", "scopes": ("user:bob",)}
TEXT = PlainText()


def surveyed(view: FakeKeywordView, ctx: RequestContext | None = None, top_id: str = ROOT_ID) -> Survey:
    ctx = ctx or local()
    eyes = Eyes(view, ctx)
    top = eyes.node(top_id)
    assert top is not None
    return Survey(eyes, ctx, TEXT, top, [node for node in curation.below(eyes, top_id) if node is not None])


def told(view: FakeKeywordView, steps: list[Step]) -> list[tuple[Any, ...]]:
    """Return steps by the names of their keywords."""

    def name(keyword_id: str) -> str:
        node = tree.live_node(view, keyword_id)
        return node.name if node is not None else "?"

    def one(step: Step) -> tuple[Any, ...]:
        match step:
            case MoveStep():
                return "move", name(step.node.id), name(step.to.id)
            case MergeStep():
                return "merge", step.source.id, step.into.id
            case DescribeStep():
                return "describe", name(step.node.id), step.description
            case SplitStep():
                groups = {group.name: [name(child.id) for child in group.children] for group in step.groups}
                return "split", name(step.node.id), groups

    return [one(step) for step in steps]


def found(view: FakeKeywordView, items: Iterator[Step | None]) -> list[tuple[Any, ...]]:
    return told(view, [step for step in items if step is not None])


def chosen(view: FakeKeywordView, *steps: Step, ctx: RequestContext | None = None) -> list[tuple[Any, ...]]:
    return told(view, curation.fitting(surveyed(view, ctx), steps, (MAX_STEPS, MAX_CHILDREN)))


def carried_out(view: FakeKeywordView, *steps: Step, ctx: RequestContext | None = None) -> Applied:
    return applied(view, ctx or local(), steps, TEXT, CountedIds())


def step_of(view: FakeKeywordView) -> Callable[..., Step]:
    """Return a maker of steps from names or ids: `step("move", "Python", "语言")`."""

    def ref(named: str) -> Any:  # noqa: ANN401 -- a NodeRef
        try:
            node = tree.live_node(view, named) or view.node(view.id_of(named))
        except StopIteration:
            node = view.node(named)
        assert node is not None
        return curation.at(node)

    def step(kind: str, first: str, second: object) -> Step:
        match kind:
            case "move":
                return MoveStep(ref(first), ref(str(second)))
            case "merge":
                return MergeStep(ref(first), ref(str(second)))
            case "describe":
                return DescribeStep(ref(first), str(second))
        assert isinstance(second, dict)
        return SplitStep(ref(first), [SplitGroup(name, [ref(one) for one in names]) for name, names in second.items()])

    return step


def parents(writes: list[Write] | Any) -> dict[str, str]:  # noqa: ANN401 -- a sequence of writes
    return {write.id: write.after["parent_id"] for write in writes if write.collection == KEYWORDS}


# what the rules find


def test_doubles_under_one_parent_are_merged_into_the_better_described_and_then_the_older_one() -> None:
    view = tree_of({"语言": {}})
    for name in ("Go", "go"):
        view.put(name, "k0")
    for name, description in (("Rust", ""), ("rust", "A language.")):
        view.put(name, "k0", description=description)

    assert found(view, curation.duplicates(surveyed(view))) == [("merge", "k2", "k1"), ("merge", "k3", "k4")]


def test_a_bare_double_elsewhere_is_merged_and_one_that_has_something_of_its_own_is_not() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}}, "杂": {"python": {}}, "动物": {"PYTHON": {"球蟒": {}}}})
    view.put("Python", description="A programme of the 1970s", id="described")

    steps = found(view, curation.duplicates(surveyed(view)))

    assert steps == [("merge", view.id_of("python"), "described")]


def test_who_shares_an_alias_only_is_no_double() -> None:
    view = FakeKeywordView()
    view.put("Python", tokens=("python", "py"))
    view.put("PyPy", tokens=("pypy", "py"))

    assert found(view, curation.duplicates(surveyed(view))) == []


def test_names_are_not_brought_before_other_eyes_by_a_merge() -> None:
    view = tree_of({"语言": {"Go": {}}})
    view.put("go", "k0", scopes=("user:owner",))

    assert found(view, curation.duplicates(surveyed(view))) == []


def test_a_merge_is_not_planned_where_it_would_move_somebody_elses_children() -> None:
    view = FakeKeywordView()
    view.put("Go", owner="user:ann", description="A language.")
    view.put("go", owner="user:ann")
    theirs = view.put("gopher", "k1", owner="user:bob")

    assert found(view, curation.duplicates(surveyed(view, ANN))) == []

    view.drop(theirs.id)

    assert found(view, curation.duplicates(surveyed(view, ANN))) == [("merge", "k1", "k0")]


def test_what_is_not_the_callers_is_not_planned_to_be_changed() -> None:
    view = tree_of({"Go": {}, "go": {}, "Go 并发": {}})

    survey = surveyed(view, ANN)

    assert found(view, curation.duplicates(survey)) == found(view, curation.misplaced(survey, [ROOT_ID])) == []


@pytest.mark.parametrize(
    ("target", "node", "is_moved"),
    [
        (("public",), ("user:ann",), True),
        (("user:ann", "team:web"), ("team:web",), True),
        (("team:web",), ("team:web",), True),
        (("team:web",), ("team:web", "team:data"), False),
        (("team:web",), ("public",), False),
    ],
)
def test_nothing_goes_under_what_one_of_its_readers_does_not_see(
    target: tuple[str, ...], node: tuple[str, ...], is_moved: bool
) -> None:
    view = FakeKeywordView()
    view.put("Python", owner="user:ann", scopes=target)
    view.put("Python 装饰器", owner="user:ann", scopes=node)

    steps = found(view, curation.misplaced(surveyed(view), [ROOT_ID]))

    assert steps == ([("move", "Python 装饰器", "Python")] if is_moved else [])


def test_what_bears_anothers_name_as_a_word_goes_under_it() -> None:
    view = tree_of({"语言": {"Python": {}, "C": {}, "C++": {}}, "Docker": {}})
    for name in ("Python 装饰器", "Docker网络", "C++ 模板", "Pythonic", "语言 C", "网络/Docker"):
        view.put(name)

    steps = found(view, curation.misplaced(surveyed(view), [ROOT_ID]))

    assert steps == [
        ("move", "Python 装饰器", "Python"),
        ("move", "Docker网络", "Docker"),
        ("move", "C++ 模板", "C++"),
        ("move", "语言 C", "语言"),
        ("move", "网络/Docker", "Docker"),
    ]


def test_chinese_words_within_a_name_are_its_terms() -> None:
    view = tree_of({"机器学习": {}})
    view.put("机器学习算法", terms=("机器", "学习", "机器学习", "算法"))
    view.put("机器学习者")

    assert found(view, curation.misplaced(surveyed(view), [ROOT_ID])) == [("move", "机器学习算法", "机器学习")]


def test_the_longest_name_counts_and_two_of_one_name_leave_it_open() -> None:
    view = tree_of({"Spring": {}, "Spring Boot": {}, "A": {"Go": {}}, "B": {"go": {}}})
    view.put("Spring Boot 安全")
    view.put("Go 并发")

    steps = found(view, curation.misplaced(surveyed(view), [ROOT_ID]))

    assert steps == [("move", "Spring Boot", "Spring"), ("move", "Spring Boot 安全", "Spring Boot")]


def test_only_what_lies_unplaced_is_moved_and_nobody_loses_the_path_to_it() -> None:
    view = tree_of({"Python": {}, "工具": {"Python 调试": {}}})
    view.put("Secret", scopes=("user:owner",))
    view.put("Secret 二")

    assert found(view, curation.misplaced(surveyed(view), [ROOT_ID])) == []


def test_a_wide_keyword_is_split_by_first_words_that_five_share() -> None:
    names = [f"Docker {number}" for number in range(6)] + [f"k8s-{number} x" for number in range(4)]
    names += ["docker 6", *(f"独{number}" for number in range(50))]
    view = tree_of({"运维": {name: {} for name in names}})

    steps = found(view, curation.wide(surveyed(view)))

    members = [*(f"Docker {number}" for number in range(6)), "docker 6"]
    assert steps == [("split", "运维", {"Docker": members})]


def test_fifty_children_are_not_too_many() -> None:
    view = tree_of({"运维": {f"Docker {number}": {} for number in range(curation.WIDE)}})

    assert found(view, curation.wide(surveyed(view))) == []


def test_where_a_child_bears_the_word_as_its_name_the_others_go_under_it() -> None:
    names = ["Docker", *(f"Docker {number}" for number in range(5)), *(f"x{number}" for number in range(50))]
    view = tree_of({"运维": {name: {} for name in names}})

    steps = found(view, curation.wide(surveyed(view)))

    assert steps == [("move", f"Docker {number}", "Docker") for number in range(5)]


def test_a_group_is_no_double_of_a_keyword_elsewhere_and_never_holds_all_the_children() -> None:
    many: Shape = {f"Docker {number}": {} for number in range(60)}
    view, other = tree_of({"运维": many}), tree_of({"运维": {**many, "x": {}}, "工具": {"docker": {}}})

    assert found(view, curation.wide(surveyed(view))) == found(other, curation.wide(surveyed(other))) == []


def test_the_rules_pause_at_least_once_a_keyword() -> None:
    view = tree_of({str(number): {} for number in range(30)})

    for rule in (curation.duplicates, curation.wide, lambda survey: curation.misplaced(survey, [ROOT_ID])):
        assert sum(step is None for step in rule(surveyed(view))) >= 30


def test_a_survey_is_of_what_the_caller_sees_below_the_scope() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}, "Go": {}}, "工具": {}})
    view.edit(view.id_of("Python"), **HIDDEN)

    names = [node.name for node in surveyed(view, ANN, "k0").nodes]

    assert names == ["Go", "FastAPI"]


# which steps fit together


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

    (now,) = curation.fitting(surveyed(view), [step], (MAX_STEPS, MAX_CHILDREN))

    assert isinstance(now, MoveStep)
    assert (now.node.version, now.node.path, now.to.path) == (2, "root / Python", "root / 语言")


def test_steps_and_the_children_of_splits_are_bounded() -> None:
    view = tree_of({"a": {}, "b": {}, "wide": {str(number): {} for number in range(10)}})
    step = step_of(view)
    wanted = [step("split", "wide", {"G": "01234", "H": "56789"}), step("move", "a", "wide"), step("move", "b", "a")]

    steps = told(view, curation.fitting(surveyed(view), wanted, (2, 7)))

    assert steps == [("split", "wide", {"G": list("01234"), "H": list("56")}), ("move", "a", "wide")]


# what a plan comes to


def test_steps_see_what_those_before_them_did_and_each_row_is_written_once() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}}, "python": {"Flask": {}}, "工具": {}})
    step = step_of(view)
    flask, python = view.id_of("Flask"), view.id_of("Python")

    done = carried_out(
        view,
        step("move", "Flask", "FastAPI"),
        step("merge", "python", "Python"),
        step("describe", "Python", "A language."),
        step("move", "Python", "工具"),
    )

    after = {write.id: write.after for write in done.writes}
    assert len(done.writes) == 3
    assert {row["version"] for row in after.values()} == {2}
    assert parents(done.writes)[flask] == view.id_of("FastAPI")
    assert (after[python]["parent_id"], after[python]["description"]) == (view.id_of("工具"), "A language.")
    assert after[view.id_of("python")]["deleted"]
    assert {kind: done.reply[kind] for kind in ("moved", "merged", "described", "split")} == {
        "moved": 2,
        "merged": 1,
        "described": 1,
        "split": 0,
    }


def test_links_follow_through_two_merges_and_leave_nothing_between() -> None:
    view = tree_of({"a": {}, "b": {}, "c": {}})
    view.put_info("i")
    view.link(Link("i", "k0", RelationType.EXAMPLE))
    view.rows[LINKS, "i:k0"] = {
        "info_id": "i",
        "keyword_id": "k0",
        "relation": "EXAMPLE",
        "created_by": "user",
        "version": 1,
    }
    step = step_of(view)

    done = carried_out(view, step("merge", "a", "b"), step("merge", "b", "c"))

    links = {write.id: write.after for write in done.writes if write.collection == LINKS}
    assert {link_id: bool(row.get("deleted")) for link_id, row in links.items()} == {"i:k2": False, "i:k0": True}
    assert (links["i:k2"]["relation"], links["i:k2"]["version"]) == ("EXAMPLE", 1)


def test_a_split_makes_a_keyword_for_each_group_and_hangs_its_children_there() -> None:
    view = tree_of({"运维": {"Docker 网络": {}, "Docker 卷": {}, "K8s 网络": {}}})
    step = step_of(view)

    done = carried_out(view, step("split", "运维", {"Docker": ["Docker 网络", "Docker 卷"], "K8s": ["K8s 网络"]}))

    docker, k8s = done.reply["created"]
    assert parents(done.writes) == {docker: "k0", k8s: "k0", "k1": docker, "k2": docker, "k3": k8s}
    made = next(write.after for write in done.writes if write.id == docker)
    assert (made["name"], made["normalized"], made["scopes"], made["version"]) == ("Docker", ["docker"], ["public"], 1)


def test_a_group_is_seen_by_who_sees_its_children_and_by_nobody_else() -> None:
    view = FakeKeywordView()
    for name, shown in (("a", ("team:web",)), ("b", ("user:owner", "project:x"))):
        view.put(name, scopes=shown, owner="user:ann")
    step = step_of(view)("split", ROOT_ID, {"G": ["a", "b"]})

    (group,) = (write.after for write in carried_out(view, step, ctx=ANN_OF_WEB).writes if write.after["name"] == "G")

    assert (group["owner"], group["scopes"]) == ("user:ann", ["project:x", "team:web"])


def test_a_group_of_private_keywords_is_private() -> None:
    view = FakeKeywordView()
    view.put("a", scopes=("user:owner",), owner="user:ann")
    step = step_of(view)("split", ROOT_ID, {"G": ["a"]})

    (group,) = (write.after for write in carried_out(view, step, ctx=ANN).writes if write.after["name"] == "G")

    assert group["scopes"] == ["user:owner"]


def test_what_comes_to_nothing_is_not_written() -> None:
    view = tree_of({"a": {}, "b": {}})
    view.put("told", description="a text")
    step = step_of(view)

    done = carried_out(view, step("move", "a", "b"), step("move", "a", ROOT_ID), step("describe", "told", "a text"))

    assert done.writes == []


def test_every_keyword_that_was_changed_since_is_named() -> None:
    view = tree_of({"a": {}, "b": {}, "c": {}})
    view.put("hidden", id="hidden", **HIDDEN)
    step = step_of(view)
    steps = [step("move", "a", "b"), step("merge", "c", "b"), step("move", "hidden", "b")]
    view.edit("k1", parent_id="k2")
    view.drop("k2")

    with pytest.raises(Conflict) as refused:
        carried_out(view, *steps, ctx=caller(user_id="local"))

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
def test_a_step_that_cannot_be_taken_is_refused_by_its_number(steps: list[tuple[str, str, object]]) -> None:
    view = tree_of({"a": {"a1": {}}, "b": {"b1": {}}})
    step = step_of(view)

    with pytest.raises(Conflict) as refused:
        carried_out(view, *(step(*one) for one in steps))

    assert refused.value.extra["step"] == len(steps) - 1


def test_a_group_that_could_not_be_found_by_its_name_is_refused() -> None:
    view = tree_of({"a": {"a1": {}}})

    with pytest.raises(InvalidInput) as refused:
        carried_out(view, step_of(view)("describe", "a", "t"), step_of(view)("split", "a", {"!!": ["a1"]}))

    assert [error.field for error in refused.value.errors] == ["plan.steps.1.groups.0.name"]


@pytest.mark.parametrize(
    "step", [("move", "a1", "b"), ("merge", "a1", "b"), ("describe", "a", "t"), ("split", "a", {"G": ["a1"]})]
)
def test_what_is_somebody_elses_is_not_changed(step: tuple[str, str, object]) -> None:
    view = tree_of({"a": {"a1": {}}, "b": {}})

    with pytest.raises(Forbidden) as refused:
        carried_out(view, step_of(view)(*step), ctx=ANN)

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
def test_what_fits_together_can_be_carried_out_and_leaves_a_tree(
    above: tuple[int, ...], wanted: list[tuple[str, str, Any]]
) -> None:
    view = FakeKeywordView()
    for number, parent in enumerate(above):
        view.put(NAMES[number], ROOT_ID if parent < 0 else f"k{parent}")
    step = step_of(view)
    survey = surveyed(view)

    steps = curation.fitting(survey, [step(*one) for one in wanted], (MAX_STEPS, MAX_CHILDREN))
    planned = PlannedView(view)
    planned.put(carried_out(view, *steps).writes)

    assert all(tree.path_of(planned, node.id)[0].id == ROOT_ID for node in planned.nodes())
    # An id more for each group, one less for each that was merged away.
    merges = sum(isinstance(one, MergeStep) for one in steps)
    groups = sum(len(one.groups) for one in steps if isinstance(one, SplitStep))
    assert len(list(planned.nodes())) == len(NAMES) + groups - merges


def test_fresh_rows_are_written_first_and_tombstones_last() -> None:
    view = tree_of({"a": {"a1": {}}, "b": {"b1": {}}})
    step = step_of(view)

    writes = carried_out(view, step("merge", "a", "b"), step("split", "b", {"G": ["b1"]})).writes

    assert [write.after.get("name") for write in writes] == ["G", "b", "a1", "b1", "a"]


def test_a_planned_view_answers_every_question_as_its_rows_have_it() -> None:
    view = tree_of({"a": {"a1": {}}, "b": {}})
    view.put_info("old")
    view.put_info("new")
    for info_id in ("old", "new"):
        view.link(Link(info_id, "k0", RelationType.PRIMARY))
    planned = PlannedView(view)
    row = dict(view.get(KEYWORDS, "k1") or {})
    link = {"info_id": "old", "keyword_id": "k2", "relation": "SOURCE", "version": 1}

    planned.put(
        [
            Write(KEYWORDS, "k1", row | {"parent_id": "k2", "normalized": ["z"], "pinyin": ["zed"], "terms": ["zz"]}),
            Write(LINKS, "old:k2", link),
            Write(LINKS, "old:k0", link | {"keyword_id": "k0", "deleted": True}),
        ]
    )

    assert ([node.id for node in planned.children("k0")], [node.id for node in planned.children("k2")]) == ([], ["k1"])
    assert [[node.id for node in planned.by_token(token)] for token in ("z", "a1", "a")] == [["k1"], [], ["k0"]]
    assert [node.id for node in planned.by_pinyin("zed")] == [node.id for node in planned.by_term("zz", 1)] == ["k1"]
    assert list(planned.by_term("a1", 1)) == []
    assert [node.id for node in planned.nodes()] == ["k0", "k1", "k2"]
    assert [one.info_id for one in planned.links_of_keyword("k0")] == ["new"]
    assert [(one.keyword_id, one.relation) for one in planned.links_of_info("old")] == [("k2", RelationType.SOURCE)]
    assert (planned.raw(KEYWORDS, "k1") or b"").startswith(b'{"id":"k1"')
    assert planned.raw(KEYWORDS, "k0") == view.raw(KEYWORDS, "k0")
    assert (planned.get(KEYWORDS, "k1") or {})["version"] == 2
