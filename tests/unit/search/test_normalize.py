"""Which spellings have one normal form, and which do not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowhub.search.keyword_text import normalize_name as normalize

# What the rules look at, so that arbitrary text meets them often.
TRICKY = st.text(
    st.sampled_from("aCiİßſ.#*+♯-_ ＃＋．＊\u0301\u0307\u200d\ufe0f\u3164´¨1３乾坤薴著機的，。\ud800"), max_size=12
)


@pytest.mark.parametrize(
    ("first", "another"),
    [
        ("Python", "pYTHON"),
        ("Ｐｙｔｈｏｎ３", "python3"),
        ("machine learning", "Machine-Learning"),
        ("機器學習", "机器 学习"),
        ("「自动化」", "自动化"),
        ("Straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("ﾃﾞｰﾀ", "データ"),
        ("Node.js", "NodeJS"),
        ("GPT-4", "gpt4"),
        ("1,000", "1000"),
        ("❤️", "❤"),
        ("👍🏽", "👍"),
        ("`git rebase`", "git rebase"),
        ("a´b", "ab"),
        ("py\u200bthon", "python"),
        ("**bold**", "bold"),
        ("#python", "python"),
        ("#话题#", "话题"),
        ("Ｃ＋＋", "c++"),
        ("Ｃ＃", "C#"),
        ("C♯", "C#"),
        ("C\u200b#", "C#"),
        ("(.NET)", ".net"),
        ("…net", "net"),
        ("v1.", "v1"),
        ("A-", "A"),
        ("C--", "C"),
    ],
)
def test_spellings_of_one_name_have_one_normal_form(first: str, another: str) -> None:
    assert normalize(first) == normalize(another)


@pytest.mark.parametrize(
    "names",
    [
        ("C", "C++", "C#", "C*", "C+"),
        ("F", "F#"),
        ("A", "A+", "A*"),
        (".NET", "NET"),
        ("Python 3.11", "Python 311"),
        ("café", "cafe"),
        ("=", "<", "🐍", "🐧"),
        ("C++编程", "C编程", "C#编程"),
        ("A*算法", "A算法"),
    ],
)
def test_different_names_have_different_normal_forms(names: tuple[str, ...]) -> None:
    assert len({normalize(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "nothing", ["", "!!!", "   ", "-", "(", "#", "♯", "*", "...", "、。", "\u3164", "\ud800", "\u200b\ufe0f"]
)
def test_text_without_letters_or_digits_normalises_to_nothing(nothing: str) -> None:
    assert normalize(nothing) == ""


@given(st.one_of(st.text(), TRICKY, st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF))))
@example("薴")
@example("乾,坤")
@example("\ud83d\ude00")
@example("i\u0307\u0307")
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalize(text)

    again = normalize(once)

    assert again == once


@given(st.one_of(st.text(), TRICKY))
def test_case_and_white_space_around_a_name_never_matter(text: str) -> None:
    assert normalize(f" {text}\n") == normalize(text)


@given(st.text(st.characters(categories=["L", "N", "P", "Z", "C"])))
def test_normal_forms_have_no_space_and_are_valid_utf8(text: str) -> None:
    left = normalize(text)

    assert not any(char.isspace() for char in left)
    assert left.encode().decode() == left
