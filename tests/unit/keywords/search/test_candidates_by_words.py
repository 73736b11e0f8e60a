"""Without a model, keywords that share words with the query are candidates."""

from typing import Any

from knowhub.core.ids import uuid4_id
from knowhub.core.request_context import RequestContext
from knowhub.keywords.search.candidates import find_word_candidates
from tests.builders import CountedIds, local
from tests.fakes.keyword_view import FakeKeywordView, tree_of
from tests.unit.keywords.tree_hub import ANN, BOB, TEXT


def list_candidates(view: FakeKeywordView, query: str, ctx: RequestContext | None = None) -> list[str]:
    return [node.name for node in find_word_candidates(view, ctx or local(), TEXT, query)]


def put_keywords(view: FakeKeywordView, *names: str, **fields: Any) -> None:  # noqa: ANN401 -- any field
    for name in names:
        view.put(name, name_keys=tuple(TEXT.name_keys(name)), terms=tuple(TEXT.terms(name)), **fields)


def test_keywords_with_rarer_shared_words_come_first() -> None:
    view = tree_of({})
    put_keywords(view, "web server", "web client", "web page", "nginx server", "cooking")

    assert list_candidates(view, "nginx web tutorial")[0] == "nginx server"
    assert "cooking" not in list_candidates(view, "nginx web tutorial")


def test_a_name_inside_the_query_and_one_around_it_are_offered() -> None:
    view = tree_of({})
    put_keywords(view, "排序", "快速排序算法", "算法", "烹饪")

    assert "排序" in list_candidates(view, "冒泡排序怎么写")
    assert list_candidates(view, "快速排序")[0] == "快速排序算法"
    assert "烹饪" not in list_candidates(view, "快速排序")


def test_a_short_latin_name_inside_a_word_is_not_offered() -> None:
    view = tree_of({})
    put_keywords(view, "go", "rit", "script")

    assert list_candidates(view, "algorithm") == []
    assert list_candidates(view, "javascript") == ["script"]


def test_candidates_are_at_most_ten_stable_and_visible() -> None:
    view = tree_of({})
    put_keywords(view, *(f"web {number}" for number in range(20)))
    put_keywords(view, "web secret", scopes=("user:owner",), owner="user:bob")

    first = list_candidates(view, "web design", ANN)

    assert first == [f"web {number}" for number in range(10)]
    assert list_candidates(view, "web design", ANN) == first
    assert "web secret" in list_candidates(view, "web secret", BOB)
    assert "web secret" not in list_candidates(view, "web secret", ANN)


def test_a_query_of_any_length_offers_within_bounds() -> None:
    view = tree_of({})
    put_keywords(view, "排序", "web")
    words = " ".join(uuid4_id(CountedIds(number)) for number in range(500))

    assert list_candidates(view, "排序" * 20_000 + words) == ["排序"]
    assert list_candidates(view, "") == []
