"""How names are looked up, spelt and split into words."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.keywords.ports import KeywordText
from knowhub.search.keyword_text import KeywordTextRules

RULES: KeywordText = KeywordTextRules()


@pytest.mark.parametrize("length", [128, 129, 4_096])
def test_a_long_query_has_the_token_of_a_short_one(length: int) -> None:
    assert RULES.name_keys(f"Ｐy{' ' * (length - 2)}") == ["py"]
    assert RULES.name_keys("!" * length) == []


@pytest.mark.parametrize(
    ("name", "in_full", "initials"),
    [
        ("自动化", "zidonghua", "zdh"),
        ("自動化", "zidonghua", "zdh"),
        ("重庆", "chongqing", "cq"),
        ("重构", "chonggou", "cg"),
        ("银行", "yinhang", "yh"),
        ("吕布", "lvbu", "lb"),
        ("吕布", "lubu", "lb"),
        ("吕布", "lübu", "lb"),
        ("Python 装饰器", "pythonzhuangshiqi", "pythonzsq"),
        ("C++编程", "c++biancheng", "c++bc"),
        ("C语言", "cyuyan", "cyy"),
        ("an安", "anan", "ana"),
        ("安an", "anan", "aan"),
        ("分布式系统", "fenbushixitong", "fbsxt"),
    ],
)
def test_a_chinese_name_is_spelt_in_full_and_by_initials(name: str, in_full: str, initials: str) -> None:
    spellings = RULES.pinyin(name)

    assert in_full in spellings
    assert initials in spellings


def test_the_likeliest_spelling_comes_first() -> None:
    assert RULES.pinyin("长度")[:2] == ["changdu", "cd"]


def test_a_phrase_decides_the_reading_of_a_character() -> None:
    assert "zhongqing" not in RULES.pinyin("重庆")


def test_a_single_character_has_only_full_spellings() -> None:
    assert RULES.pinyin("行") == ["xing", "hang", "heng"]


@pytest.mark.parametrize("name", ["啊", "python", "C++", "", "!!!", "データ", "字" * 65, "，" * 300 + "字"])
def test_names_without_chinese_have_no_spelling(name: str) -> None:
    assert RULES.pinyin(name) == []


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=8))
def test_spellings_are_few_distinct_and_equal_their_token(name: str) -> None:
    spellings = RULES.pinyin(name)

    assert len(spellings) <= 8
    assert len(set(spellings)) == len(spellings)
    assert all(len(spelling) >= 2 and RULES.name_keys(spelling) == [spelling] for spelling in spellings)


def test_words_are_listed_once_each() -> None:
    assert RULES.terms("Python python 缓存缓存") == ["python", "缓", "存", "缓存", "存缓"]


def test_a_long_text_has_the_terms_of_its_first_words() -> None:
    text = " ".join(f"word{number}" for number in range(100))

    assert len(RULES.terms(text)) == 64
    assert "word0" in RULES.terms(text)


@given(st.text())
def test_any_text_is_accepted(text: str) -> None:
    RULES.name_keys(text)
    RULES.pinyin(text)
    RULES.terms(text)


def test_dictionaries_are_loaded_on_demand() -> None:
    program = """
import sys
from knowhub.search.keyword_text import KeywordTextRules
rules = KeywordTextRules()
rules.name_keys("自动化"), rules.pinyin("python")
before = "pypinyin" in sys.modules
rules.load()
print(before, "pypinyin" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True"]
