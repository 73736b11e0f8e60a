"""The terms of a text, and the terms of a query."""

import pytest
import tantivy

from knowhub.search.analysis import (
    PART_OF_WORD_WEIGHT,
    WRITTEN_FORM_WEIGHT,
    index_terms,
    query_terms,
    weight_terms,
)

TANTIVY_MAX_TERM_BYTES = 65_530


def matches(query: str, text: str) -> bool:
    return not set(query_terms(query)).isdisjoint(index_terms(text))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("反爬虫", ["反", "爬", "虫", "反爬", "爬虫"]),
        ("Selenium绕过v2反爬", ["selenium", "绕", "过", "绕过", "v2", "反", "爬", "反爬"]),
        ("Universities run", ["universiti", "universities", "run"]),
        ("redis, Redis", ["redi", "redis", "redi", "redis"]),
        ("to be", ["to", "be"]),
        ("Newton's NEWTON’S", ["newton", "newton"]),
        ("C++17", ["c++", "17"]),
        ("see c#12", ["see", "c", "12"]),
        ("disk# 12", ["disk", "12"]),
        ("eBay", ["ebay", "bay"]),
        ("aGk3xYz9Qw2ErTyUiOpAsDfGhJkLzXcVbNm12", ["agk3xyz9qw2ertyuiopasdfghjklzxcvbnm12"]),
        *((word, [word]) for word in ("हिन्दी", "தமிழ்", "مُعَلِّم", "שָׁלוֹם", "йод")),
        *(
            (f"disk{gap}full{gap}磁盘", ["disk", "full", "磁", "盘", "磁盘"])
            for gap in ("\0", "🎉", "\u200b", "\ufeff", "\ud83d", "\u3000")
        ),
    ],
)
def test_a_text_is_indexed_by_these_terms(text: str, terms: list[str]) -> None:
    assert index_terms(text) == terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What's the port that you don't have to open, please?", ["port", "open"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("什么", ["什", "么", "什么"]),
        ("Redis redis 缓存 缓存", ["redi", "redis", "缓", "存", "缓存"]),
    ],
)
def test_a_query_has_these_terms(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


def test_a_query_weighs_the_written_form_below_the_stem() -> None:
    weights = weight_terms("universities")

    assert weights == (("universiti", 1.0), ("universities", WRITTEN_FORM_WEIGHT))


def test_a_term_that_is_both_stem_and_written_form_keeps_the_higher_weight() -> None:
    weights = dict(weight_terms("incidental incident"))  # one's stem is the other as written

    assert weights["incident"] == 1.0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("connecting", "The connection was lost"),
        ("數據庫", "数据库连接池耗尽"),
        ("数据库", "數據庫連接池耗盡"),
        ("ＧＰＵ", "GPU显存不足"),
        ("ﾃﾞｰﾀ", "データを保存する"),
        ("cafe", "Le Café de Flore"),
        ("STRASSE", "die Straße"),
        ("12000", "about 12,000 requests"),
        ("БАЗА", "Новая база готова"),
        ("데이터베이스", "데이터베이스를 백업한다"),
        ("ฐานข้อมูล", "สำรองฐานข้อมูลทุกวัน"),
    ],
)
def test_text_is_found_across_width_case_script_and_endings(query: str, text: str) -> None:
    assert matches(query, text)


@pytest.mark.parametrize("name", ["C", "C++", "C#", ".NET", "node.js", "knowledge_slim", "F#", "notepad++"])
@pytest.mark.parametrize("sentence", ["{}", "I write {}, daily.", "用{}写服务", "({})", "A/{}/B"])
def test_a_technical_name_is_one_term_anywhere_in_a_sentence(name: str, sentence: str) -> None:
    terms = index_terms(sentence.format(name))

    assert name.lower() in terms


@pytest.mark.parametrize("name", ["C", "C++", "C#"])
def test_languages_that_share_a_letter_stay_apart(name: str) -> None:
    others = " ".join({"C", "C++", "C#"} - {name})

    assert not matches(name, others)


@pytest.mark.parametrize(
    ("identifier", "part"),
    [
        ("knowledge_slim", "slim"),
        ("node.js", "node"),
        ("getUserName", "user"),
        ("HTTPServer", "server"),
        ("AI2sql", "sql"),
        ("python3", "python"),
        ("notepad++", "notepad"),
        ("claude-code", "claude"),
        ("getRetryPolicyForHttpClient", "retry"),
        ("getUserName()", "getusername"),
    ],
)
def test_an_identifier_is_found_by_a_part_of_it(identifier: str, part: str) -> None:
    assert matches(part, identifier)


def test_chinese_function_words_are_dropped_from_queries() -> None:
    terms = query_terms("服务器的端口是什么？")

    assert "服务" in terms
    assert "端口" in terms
    assert set(terms).isdisjoint({"的", "是", "什么", "什", "器的", "的端"})


def test_a_function_word_is_never_taken_out_of_a_longer_word() -> None:
    terms = query_terms("重要的事")

    assert {"重", "要", "重要"} <= set(terms)


@pytest.mark.parametrize("text", ["", " \t\n\u3000", "?!…，。；", "🎉🚀", "\0", "\ud800", "___", "'s"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    assert index_terms(text) == []
    assert query_terms(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "ж" * 100_000,
        "é" * 100_000,
        "中" * 100_000,
        "a." * 50_000,
        "word_" * 20_000,
        "1,234" + ",567" * 25_000 + "8",
        "ि" * 100_000,
        "नि" * 50_000,
        "'" * 100_000,
        "c++" * 33_000,
    ],
)
@pytest.mark.timeout(5)
def test_a_text_of_any_shape_gives_terms_that_tantivy_takes(text: str) -> None:
    terms = index_terms(text)

    assert all(len(term.encode()) < TANTIVY_MAX_TERM_BYTES for term in terms)
    assert max(map(len, index_terms("A1" * 50_000))) <= 64


def test_a_long_word_is_found_by_itself() -> None:
    word = "QmFzZTY0" * 1_000

    assert matches(word, f"token: {word}")


def test_terms_pass_through_tantivys_white_space_tokenizer_unchanged() -> None:
    terms = index_terms("C++ and .NET，node.js 数据库 हिन्दी ฐานข้อมูล don't 1,000\u2028x\x1cy\u0085z")
    tokenizer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()

    assert tokenizer.analyze(" ".join(terms)) == terms


@pytest.mark.parametrize(
    "piece",
    ["retry with knowledge_slim, then node.js 3.11; ", "数据库连接池要设置超时，长事务会锁住行。Selenium 登录…"],
)
def test_a_long_text_has_the_terms_of_its_pieces(piece: str) -> None:
    assert index_terms(piece * 2000) == index_terms(piece) * 2000


def test_a_query_weighs_a_character_inside_a_longer_word_half() -> None:
    weights = dict(weight_terms("猫的项目"))

    assert weights == {
        "猫": 1.0,
        "项": PART_OF_WORD_WEIGHT,
        "目": PART_OF_WORD_WEIGHT,
        "项目": 1.0,
    }
