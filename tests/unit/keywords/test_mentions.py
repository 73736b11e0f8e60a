"""Which names a content mentions, word for word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.keywords.mentions import find_mentions, find_names
from knowhub.search.keyword_text import KeywordTextRules

RULES = KeywordTextRules()


def find_named(content: str, *names: str, limit: int = 50) -> list[str]:
    known = {name_key for name in names for name_key in RULES.name_keys(name)}
    return find_names(content, RULES.name_keys, known.__contains__, limit)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("Java is not for everybody.", "java"),
        ("use machine-learning here", "Machine Learning"),
        ("use machine\nlearning here", "Machine Learning"),
        ("runs on node.js, mostly", "NodeJS"),
        ("the Python-based one", "Python"),
        ("written in C++.", "C++"),
        ("since C++11", "C++"),
        ("Ｃ＋＋编程", "C++"),
        ("[C#] and C#8", "C#"),
        ("on .NET", ".NET"),
        ("on Microsoft .NET", "Microsoft .NET"),
        ("on ASP.NET Core", "ASP.NET Core"),
        ("since Python 3.11, it", "Python 3.11"),
        ("issue#12", "issue"),
        ("#Python#", "Python"),
        ("**bold** text", "bold"),
        ("A*算法很快", "A*算法"),
        ("a search A* today", "search A*"),
        ("R&D and TCP/IP", "R&D"),
        ("see snake_case", "snake_case"),
        ("学习機器學習的方法", "机器学习"),
        ("学习Python装饰器的方法", "Python装饰器"),
        ("学习 Python 装饰器 的方法", "Python装饰器"),
        ("用K线图", "K线图"),
        ("a 🐍 b", "🐍"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("파이썬은 언어다", "파이썬"),
        ("the İstanbul office", "istanbul"),
        ("one two three four five six", "one two three four five"),
        ("一二三四五六七八九十十一十二", "一二三四五六七八九十十一"),
    ],
)
def test_a_mentioned_name_is_found(content: str, name: str) -> None:
    assert find_named(content, name) == RULES.name_keys(name)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("javascript", "java"),
        ("C++ and C#", "C"),
        ("a+b", "A+"),
        ("我的水平", "水"),
        ("I like the machine. Learning is hard.", "machine learning"),
        ("one machine\n\nLearning", "machine learning"),
        ("机器，学习", "机器学习"),
        ("one two three four five six", "one two three four five six"),
        ("一二三四五六七八九十十一十二", "一二三四五六七八九十十一十"),
        ("x" * 8_192 + " java", "java"),
        ("x" * 300, "x" * 300),
        ("", "java"),
    ],
)
def test_an_unmentioned_name_is_not_found(content: str, name: str) -> None:
    assert find_named(content, name) == []


def test_a_name_only_inside_a_longer_name_does_not_count() -> None:
    assert find_named("机器学习", "机器学习", "机器", "学习", "器学") == ["机器学习"]


def test_a_name_inside_a_longer_name_and_elsewhere_counts() -> None:
    assert find_named("机器学习，学习", "机器学习", "学习") == ["机器学习", "学习"]


def test_names_that_overlap_are_both_found() -> None:
    assert find_named("机器学习算法", "机器学习", "学习算法") == ["机器学习", "学习算法"]


def test_a_single_character_counts_as_a_whole_word() -> None:
    assert find_named("水 是什么", "水") == ["水"]


@pytest.mark.parametrize(
    ("content", "name", "is_part"),
    [
        ("网关键盘", "关键", True),
        ("大学生物课", "学生", True),
        ("信用卡还款", "信用", True),
        ("换了信用卡", "信用", True),
        ("查信用", "信用", False),
        ("公司事务处理", "事务", False),
        ("数据库事务", "事务", False),
        ("分布式缓存", "缓存", False),
        ("用 Redis缓存数据", "缓存", False),
    ],
)
def test_two_characters_of_other_chinese_words_are_marked_as_parts(content: str, name: str, is_part: bool) -> None:
    found = find_mentions(content, RULES.name_keys, {name}.__contains__, words_of=RULES.words)

    assert [(mention.name_key, mention.is_part) for mention in found] == [(name, is_part)]


def test_names_come_once_each_in_their_order_up_to_the_limit() -> None:
    names = [f"name{number}" for number in range(60)]
    content = ", ".join([*names, *names])

    assert find_named(content, *names, limit=3) == names[:3]
    assert len(find_named(content, *names)) == 50


@given(st.text(), st.text())
def test_any_content_is_accepted_and_only_known_names_are_found(content: str, name: str) -> None:
    assert set(find_named(content, name)) <= set(RULES.name_keys(name))


@given(
    st.text(st.sampled_from("机器学习算法ab .+，"), max_size=40),
    st.lists(st.text(st.sampled_from("机器学习算法"), min_size=2, max_size=4)),
)
def test_chinese_names_are_found_between_others(content: str, names: list[str]) -> None:
    for name_key in find_named(content, *names):
        assert name_key in "".join(RULES.name_keys(content))
