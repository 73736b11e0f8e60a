"""What the rules find to improve in a tree."""

import pytest

from knowhub.keywords.curate import rules
from knowhub.keywords.model import ROOT_ID
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of
from tests.unit.curation.curated import ANN, found, surveyed


def test_doubles_under_one_parent_are_merged_into_the_better_described_and_then_the_older_one() -> None:
    view = tree_of({"语言": {}})
    for name in ("Go", "go"):
        view.put(name, "k0")
    for name, description in (("Rust", ""), ("rust", "A language.")):
        view.put(name, "k0", description=description)

    assert found(view, rules.find_duplicates(surveyed(view))) == [("merge", "k2", "k1"), ("merge", "k3", "k4")]


def test_a_bare_double_elsewhere_is_merged_and_one_that_has_something_of_its_own_is_not() -> None:
    view = tree_of({"语言": {"Python": {"FastAPI": {}}}, "杂": {"python": {}}, "动物": {"PYTHON": {"球蟒": {}}}})
    view.put("Python", description="A programme of the 1970s", id="described")

    steps = found(view, rules.find_duplicates(surveyed(view)))

    assert steps == [("merge", view.id_of("python"), "described")]


def test_who_shares_an_alias_only_is_no_double() -> None:
    view = FakeKeywordView()
    view.put("Python", tokens=("python", "py"))
    view.put("PyPy", tokens=("pypy", "py"))

    assert found(view, rules.find_duplicates(surveyed(view))) == []


def test_names_are_not_brought_before_other_eyes_by_a_merge() -> None:
    view = tree_of({"语言": {"Go": {}}})
    view.put("go", "k0", scopes=("user:owner",))

    assert found(view, rules.find_duplicates(surveyed(view))) == []


def test_a_merge_is_not_planned_where_it_would_move_somebody_elses_children() -> None:
    view = FakeKeywordView()
    view.put("Go", owner="user:ann", description="A language.")
    view.put("go", owner="user:ann")
    theirs = view.put("gopher", "k1", owner="user:bob")

    assert found(view, rules.find_duplicates(surveyed(view, ANN))) == []

    view.drop(theirs.id)

    assert found(view, rules.find_duplicates(surveyed(view, ANN))) == [("merge", "k1", "k0")]


def test_what_is_not_the_callers_is_not_planned_to_be_changed() -> None:
    view = tree_of({"Go": {}, "go": {}, "Go 并发": {}})

    survey = surveyed(view, ANN)

    assert found(view, rules.find_duplicates(survey)) == found(view, rules.find_moves(survey, [ROOT_ID])) == []


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

    steps = found(view, rules.find_moves(surveyed(view), [ROOT_ID]))

    assert steps == ([("move", "Python 装饰器", "Python")] if is_moved else [])


def test_what_bears_anothers_name_as_a_word_goes_under_it() -> None:
    view = tree_of({"语言": {"Python": {}, "C": {}, "C++": {}}, "Docker": {}})
    for name in ("Python 装饰器", "Docker网络", "C++ 模板", "Pythonic", "语言 C", "网络/Docker"):
        view.put(name)

    steps = found(view, rules.find_moves(surveyed(view), [ROOT_ID]))

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

    assert found(view, rules.find_moves(surveyed(view), [ROOT_ID])) == [("move", "机器学习算法", "机器学习")]


def test_the_longest_name_counts_and_two_of_one_name_leave_it_open() -> None:
    view = tree_of({"Spring": {}, "Spring Boot": {}, "A": {"Go": {}}, "B": {"go": {}}})
    view.put("Spring Boot 安全")
    view.put("Go 并发")

    steps = found(view, rules.find_moves(surveyed(view), [ROOT_ID]))

    assert steps == [("move", "Spring Boot", "Spring"), ("move", "Spring Boot 安全", "Spring Boot")]


def test_only_what_lies_unplaced_is_moved_and_nobody_loses_the_path_to_it() -> None:
    view = tree_of({"Python": {}, "工具": {"Python 调试": {}}})
    view.put("Secret", scopes=("user:owner",))
    view.put("Secret 二")

    assert found(view, rules.find_moves(surveyed(view), [ROOT_ID])) == []


def test_a_wide_keyword_is_split_by_first_words_that_five_share() -> None:
    names = [f"Docker {number}" for number in range(6)] + [f"k8s-{number} x" for number in range(4)]
    names += ["docker 6", *(f"独{number}" for number in range(50))]
    view = tree_of({"运维": {name: {} for name in names}})

    steps = found(view, rules.find_splits(surveyed(view)))

    members = [*(f"Docker {number}" for number in range(6)), "docker 6"]
    assert steps == [("split", "运维", {"Docker": members})]


def test_fifty_children_are_not_too_many() -> None:
    view = tree_of({"运维": {f"Docker {number}": {} for number in range(rules.WIDE)}})

    assert found(view, rules.find_splits(surveyed(view))) == []


def test_where_a_child_bears_the_word_as_its_name_the_others_go_under_it() -> None:
    names = ["Docker", *(f"Docker {number}" for number in range(5)), *(f"x{number}" for number in range(50))]
    view = tree_of({"运维": {name: {} for name in names}})

    steps = found(view, rules.find_splits(surveyed(view)))

    assert steps == [("move", f"Docker {number}", "Docker") for number in range(5)]


def test_a_group_is_no_double_of_a_keyword_elsewhere_and_never_holds_all_the_children() -> None:
    many: Shape = {f"Docker {number}": {} for number in range(60)}
    view, other = tree_of({"运维": many}), tree_of({"运维": {**many, "x": {}}, "工具": {"docker": {}}})

    assert found(view, rules.find_splits(surveyed(view))) == found(other, rules.find_splits(surveyed(other))) == []


def test_the_rules_pause_at_least_once_a_keyword() -> None:
    view = tree_of({str(number): {} for number in range(30)})

    for rule in (rules.find_duplicates, rules.find_splits, lambda survey: rules.find_moves(survey, [ROOT_ID])):
        assert sum(step is None for step in rule(surveyed(view))) >= 30
