"""What the rules find to improve in a tree: merges, moves and splits."""

from dataclasses import replace

import pytest

from knowhub.keywords.curate import rules
from knowhub.keywords.model import Link, RelationType
from knowhub.search.keyword_text import KeywordTextRules
from tests.fakes.keyword_view import FakeKeywordView, Shape, tree_of
from tests.unit.keywords.curation.curation_steps import (
    ANN,
    describe_found,
    list_merge_steps,
    list_move_steps,
    snapshot_tree,
)


def test_a_bare_keyword_is_merged_into_the_only_one_that_has_its_name_as_an_alias() -> None:
    view = tree_of({"语言": {"Python": {"Language Model": {}}}, "网络": {}})
    mail = view.put("电子邮件", "k0", name_keys=("电子邮件", "email"), description="信")
    view.edit(view.id_of("Language Model"), normalized=("languagemodel",))
    for name in ("Email", "Language Models"):
        view.put(name, id=f"bare {name}")

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == [
        ("merge", "bare Email", mail.id),
        ("merge", "bare Language Models", view.id_of("Language Model")),
    ]


def test_a_bare_keyword_is_merged_into_the_only_one_of_its_name_and_no_other() -> None:
    view = tree_of({"行星": {}, "物流": {"Goods": {}, "Webhook": {}}, "棋类": {"Go": {}}, "语言": {"Go": {}}})
    view.put("Mercury", "k0", description="The planet closest to the sun")
    for name in ("Good", "Webhooks", "Go"):
        view.put(name)
    mercury = view.put("Mercury")

    found = describe_found(view, list_merge_steps(snapshot_tree(view)))

    assert [(kind, source) for kind, source, _ in found] == [("merge", mercury.id)]


def test_an_alias_that_is_somebody_elses_name_too_is_not_merged() -> None:
    view = tree_of({"语言": {}, "蛇": {"Py": {}}})
    view.put("Python", "k0", name_keys=("python", "py"))
    view.put("py")

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == []


@pytest.mark.parametrize("own", ["description", "alias", "info", "child"])
def test_a_keyword_with_own_data_is_not_merged_by_an_alias(own: str) -> None:
    view = tree_of({"语言": {}})
    view.put("Golang", "k0", name_keys=("golang", "go"))
    node = view.put(
        "go",
        description="a game" if own == "description" else "",
        name_keys=("go", "weiqi") if own == "alias" else ("go",),
    )
    if own == "info":
        view.put_info("i1", "about the game")
        view.link(Link("i1", node.id, RelationType.PRIMARY))
    if own == "child":
        view.put("stone", node.id)

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == []


@pytest.mark.parametrize("shared", ["description", "alias", "info"])
def test_namesakes_that_share_more_than_the_name_are_merged(shared: str) -> None:
    view = tree_of({"语言": {}, "工具": {}})
    for number in (0, 1):
        # With two descriptions that differ, an info of both says nothing.
        described = {"description": "A language.", "alias": f"{number}", "info": "" if number else "A language."}
        description = described[shared]
        name_keys = ("go", "golang") if shared == "alias" else ("go", f"alias {number}")
        view.put("go", f"k{number}", id=f"go {number}", description=description, name_keys=name_keys)
        info_id = "i" if shared == "info" else f"i{number}"
        view.put_info(info_id)
        view.link(Link(info_id, f"go {number}", RelationType.PRIMARY))

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == [("merge", "go 1", "go 0")]


def test_namesakes_with_two_descriptions_stay_apart_though_one_info_is_about_both() -> None:
    view = tree_of({"语言": {}, "动物": {}})
    view.put_info("i", "Python, the snake and the language")
    for node_id, description in (("language", "A programming language."), ("snake", "A large snake.")):
        view.put("python", f"{node_id} alias", id=node_id, description=description, name_keys=("python", node_id))
        view.link(Link("i", node_id, RelationType.PRIMARY))

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == []


def test_a_shared_alias_alone_is_no_duplicate() -> None:
    view = tree_of({"语言": {}})
    view.put("Python", "k0", name_keys=("python", "py"))
    view.put("PyPy", "k0", name_keys=("pypy", "py"))

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == []


def test_a_merge_does_not_show_names_to_new_readers() -> None:
    view = tree_of({"语言": {}})
    view.put("Golang", "k0", name_keys=("golang", "go"))
    view.put("go", scopes=("user:owner",))

    assert describe_found(view, list_merge_steps(snapshot_tree(view))) == []


def test_a_merge_that_would_move_foreign_children_is_not_planned() -> None:
    view = FakeKeywordView()
    view.put("Go", owner="user:ann", description="A language.", name_keys=("go", "golang"))
    view.put("go", owner="user:ann", name_keys=("go", "golang"))
    theirs = view.put("gopher", "k1", owner="user:bob")

    assert describe_found(view, list_merge_steps(snapshot_tree(view, ANN))) == []

    view.drop(theirs.id)

    assert describe_found(view, list_merge_steps(snapshot_tree(view, ANN))) == [("merge", "k1", "k0")]


def test_changes_of_foreign_keywords_are_not_planned() -> None:
    view = tree_of({"Go": {}, "go": {}, "Go 并发": {}})

    survey = snapshot_tree(view, ANN)

    assert describe_found(view, list_merge_steps(survey)) == describe_found(view, list_move_steps(survey)) == []


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
def test_a_keyword_is_not_moved_below_one_hidden_from_its_readers(
    target: tuple[str, ...], node: tuple[str, ...], is_moved: bool
) -> None:
    view = FakeKeywordView()
    view.put("Python", owner="user:ann", scopes=target)
    view.put("Python 装饰器", owner="user:ann", scopes=node)

    steps = describe_found(view, list_move_steps(snapshot_tree(view)))

    assert steps == ([("move", "Python 装饰器", "Python")] if is_moved else [])


def test_a_keyword_moves_below_the_keyword_its_name_begins_with() -> None:
    view = tree_of({"语言": {"Python": {}, "C": {}, "C++": {}}, "Docker": {}, "机器学习": {}, "中国": {}})
    view.put("SQL 注入", "k0", name_keys=("sql注入",))
    view.put("研究生", "k0")
    names = (
        "Python 装饰器",
        "Docker网络",
        "C++ 模板",
        "机器学习算法",
        "SQL 注入绕过 WAF",
        "Python GIL 释放",
        "中国旅行签证",
    )
    for name in (*names, "Pythonic", "C 级", "网络/Docker", "中国人寿", "发展中国家", "研究生命起源"):
        view.put(name)

    steps = describe_found(view, list_move_steps(replace(snapshot_tree(view), text=KeywordTextRules())))

    assert steps == [
        ("move", "Python 装饰器", "Python"),
        ("move", "Docker网络", "Docker"),
        ("move", "C++ 模板", "C++"),
        ("move", "机器学习算法", "机器学习"),
        ("move", "SQL 注入绕过 WAF", "SQL 注入"),
        ("move", "Python GIL 释放", "Python"),
        ("move", "中国旅行签证", "中国"),
    ]


def test_english_names_without_texts_do_not_move_by_their_first_word() -> None:
    view = tree_of({"别的": {"New": {}, "Apple": {}, "Java": {}, "Cloud": {}}})
    for name in ("New York", "Apple Valley", "Java Script", "Cloud formation"):
        view.put(name)

    assert describe_found(view, list_move_steps(snapshot_tree(view))) == []


@pytest.mark.parametrize(
    ("text", "is_moved"),
    [
        ("Spring Festival is in winter.", False),
        ("Spring Festival, with Java and beans", True),
        ("Spring Festival uses Security", True),
    ],
)
def test_a_keyword_with_infos_moves_only_if_they_mention_the_target(text: str, is_moved: bool) -> None:
    view = tree_of({"Java": {"Spring": {"Security": {}}}})
    node = view.put("Spring Festival")
    view.put_info("i", text)
    view.link(Link("i", node.id, RelationType.PRIMARY))

    steps = describe_found(view, list_move_steps(snapshot_tree(view)))

    assert steps == ([("move", "Spring Festival", "Spring")] if is_moved else [])


def test_the_longest_prefix_counts_and_namesakes_are_skipped() -> None:
    view = tree_of({"框架": {"Spring": {}}, "A": {"Go": {}}, "B": {"go": {}}})
    view.put("Spring Boot", "k0", name_keys=("springboot",))
    view.put("Spring Boot 安全")
    view.put("Go 并发")

    assert describe_found(view, list_move_steps(snapshot_tree(view))) == [("move", "Spring Boot 安全", "Spring Boot")]


def test_only_unplaced_keywords_move_and_paths_stay_visible() -> None:
    view = tree_of({"Python": {}, "工具": {"Python 调试": {}}})
    view.put("Secret", scopes=("user:owner",))
    view.put("Secret 二")

    assert describe_found(view, list_move_steps(snapshot_tree(view))) == []


def test_a_wide_keyword_is_split_by_first_words_shared_by_five() -> None:
    names = [f"Docker {number}" for number in range(6)] + [f"k8s-{number} x" for number in range(4)]
    names += ["docker 6", *(f"独{number}" for number in range(50))]
    view = tree_of({"运维": {name: {} for name in names}})

    steps = describe_found(view, rules.list_split_steps(snapshot_tree(view)))

    members = [*(f"Docker {number}" for number in range(6)), "docker 6"]
    assert steps == [("split", "运维", {"Docker": members})]


def test_fifty_children_are_not_too_many() -> None:
    view = tree_of({"运维": {f"Docker {number}": {} for number in range(rules.WIDE)}})

    assert describe_found(view, rules.list_split_steps(snapshot_tree(view))) == []


def test_children_move_below_the_child_named_by_their_first_word() -> None:
    names = ["Docker", *(f"Docker 第{number}" for number in range(5)), *(f"x{number}" for number in range(50))]
    names += ["New", *(f"New {number}" for number in range(5))]
    view = tree_of({"运维": {name: {} for name in names}})

    steps = describe_found(view, rules.list_split_steps(snapshot_tree(view)))

    assert steps == [("move", f"Docker 第{number}", "Docker") for number in range(5)]


def test_a_group_neither_duplicates_a_keyword_nor_holds_all_children() -> None:
    many: Shape = {f"Docker {number}": {} for number in range(60)}
    view, other = tree_of({"运维": many}), tree_of({"运维": {**many, "x": {}}, "工具": {"docker": {}}})

    assert (
        describe_found(view, rules.list_split_steps(snapshot_tree(view)))
        == describe_found(other, rules.list_split_steps(snapshot_tree(other)))
        == []
    )


def test_the_rules_pause_at_least_once_a_keyword() -> None:
    view = tree_of({str(number): {} for number in range(30)})

    for rule in (list_merge_steps, rules.list_split_steps, list_move_steps):
        assert sum(step is None for step in rule(snapshot_tree(view))) >= 30
