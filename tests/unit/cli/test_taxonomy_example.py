"""The example taxonomy matches its README: the tree loads, and each name finds one keyword."""

import re
from collections import Counter
from pathlib import Path

import pytest

from knowhub.keywords.model import RelationType, TreeFormat
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.web.json_text import JsonLimits
from knowhub.web.tree_files.formats import parse_tree_file
from knowhub.web.tree_files.lines import KeywordLine, TreeFile

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/taxonomy.jsonl"
CHINESE = re.compile("[\u4e00-\u9fff]")
NAMESAKES = {"java", "python", "swift", "token", "会话", "苹果", "亚马逊"}


@pytest.fixture(scope="module")
def taxonomy() -> TreeFile:
    return parse_tree_file(EXAMPLE.read_bytes(), TreeFormat.JSONL, JsonLimits(64, 10_000))


@pytest.fixture(scope="module")
def keywords(taxonomy: TreeFile) -> list[KeywordLine]:
    return list(taxonomy.keywords.values())


def normalize_name(text: str) -> str:
    (token,) = KeywordTextRules().tokens(text)
    return token


def level_of(keyword: KeywordLine, by_ref: dict[str | None, KeywordLine]) -> int:
    return 1 if keyword.parent_ref is None else 1 + level_of(by_ref[keyword.parent_ref], by_ref)


def test_it_is_as_large_and_as_deep_as_the_readme_says(taxonomy: TreeFile, keywords: list[KeywordLine]) -> None:
    by_ref: dict[str | None, KeywordLine] = {keyword.ref: keyword for keyword in keywords}
    depths = Counter(level_of(keyword, by_ref) for keyword in keywords)

    assert (len(keywords), len(taxonomy.infos)) == (493, 227)
    assert (depths[1], max(depths)) == (18, 5)


def test_only_intended_names_are_ambiguous(keywords: list[KeywordLine]) -> None:
    names = Counter(normalize_name(keyword.name) for keyword in keywords)

    assert {name for name, count in names.items() if count > 1} == NAMESAKES
    assert {normalize_name("C"), normalize_name("C++"), normalize_name("C#")} <= names.keys()
    assert len({normalize_name("C"), normalize_name("C++"), normalize_name("C#")}) == 3


def test_each_alias_belongs_to_one_keyword_and_repeats_no_name(keywords: list[KeywordLine]) -> None:
    names = {normalize_name(keyword.name) for keyword in keywords}
    aliases = Counter(normalize_name(alias) for keyword in keywords for alias in keyword.aliases)

    assert names & aliases.keys() == set()
    assert {alias for alias, count in aliases.items() if count > 1} == set()


def test_keywords_exist_in_both_languages(keywords: list[KeywordLine]) -> None:
    both = [
        keyword
        for keyword in keywords
        if CHINESE.search("".join((keyword.name, *keyword.aliases)))
        and any(spelling.isascii() for spelling in (keyword.name, *keyword.aliases))
    ]
    traditional = [alias for keyword in keywords for alias in keyword.aliases if "資" in alias or "體" in alias]

    assert len(both) > 0.8 * len(keywords)
    assert {"資料庫", "軟體工程"} <= set(traditional)


def test_most_keywords_have_descriptions_and_all_infos_sources(taxonomy: TreeFile, keywords: list[KeywordLine]) -> None:
    described = [keyword for keyword in keywords if keyword.description]
    contents = Counter(info.content for info in taxonomy.infos.values())

    assert len(described) > 0.9 * len(keywords)
    assert all(len(keyword.description) <= 60 for keyword in keywords)
    assert all(info.source for info in taxonomy.infos.values())
    assert max(contents.values()) == 1


def test_infos_are_linked_by_all_relations_and_each_is_primary_somewhere(taxonomy: TreeFile) -> None:
    relations = Counter(link.relation for info in taxonomy.infos.values() for link in info.links)

    assert relations.keys() == set(RelationType)
    assert all(info.links[0].relation is RelationType.PRIMARY for info in taxonomy.infos.values())
