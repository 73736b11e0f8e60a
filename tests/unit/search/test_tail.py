"""The tail's score is the full-text index's own, on real words of both languages."""

import asyncio
import random
from collections.abc import Iterable

import pytest

from knowhub.core.clock import CooperativePause, TimeLimit
from knowhub.search.analysis import index_terms, weight_terms
from knowhub.search.full_text import FullText, IndexMetadata
from knowhub.search.tail import (
    Document,
    QueryTerm,
    Statistics,
    Tail,
    encode_length,
    get_idf,
    get_score_limits,
    join_terms,
)

TEXTS = [
    "Wait for the element to be clickable before clicking it, Selenium raises otherwise.",
    "用 Selenium 登录网站时先等待元素可点击，否则会抛出异常。",
    "Rotate the proxy and keep cookies between requests to get past rate limits.",
    "绕过反爬检测的方法：轮换代理，保留 cookie，降低请求频率。",
    "PostgreSQL connection pools need a timeout; a stuck transaction holds a row lock.",
    "数据库连接池要设置超时，长事务会锁住行。",
    "retry with exponential backoff and jitter, never at once",
    "asyncio tasks that nobody awaits lose their exceptions",
]
QUERIES = ["selenium 登录", "proxy cookie rate", "连接池 timeout", "等待元素", "exceptions of asyncio tasks", "lock"]


def make_documents() -> list[Document]:
    rng = random.Random(5)
    texts = TEXTS + [" ".join(rng.choice(TEXTS) for _ in range(rng.randint(1, 12))) for _ in range(40)]
    # Too long to have postings.
    texts.append(" ".join(rng.choice(TEXTS) for _ in range(200)))
    return [
        Document(number, f"k-{number}", *join_terms([index_terms(text)]), frozenset())
        for number, text in enumerate(texts, 1)
    ]


def count_terms(tail: Tail, terms: Iterable[str]) -> dict[str, dict[int, int]]:
    counts, is_complete = asyncio.run(tail.count(terms, CooperativePause(), TimeLimit(60)))
    assert is_complete
    return counts


@pytest.fixture(scope="module")
def tail() -> Tail:
    tail = Tail()
    for document in make_documents():
        tail.add(document)
    return tail


@pytest.fixture(scope="module")
def disk(tail: Tail, tmp_path_factory: pytest.TempPathFactory) -> FullText:
    disk = FullText(tmp_path_factory.mktemp("index"))
    asyncio.run(disk.rebuild(tail.documents(), IndexMetadata("log", 1, "crc", 0, len(tail), 1, tail.terms)))
    assert disk.load(lambda built: built.log_id == "log")
    return disk


@pytest.mark.parametrize("query", QUERIES)
def test_tail_and_index_score_the_same_documents_alike(tail: Tail, disk: FullText, query: str) -> None:
    statistics = Statistics(len(tail), tail.terms)
    terms = weight_terms(query)
    counts = count_terms(tail, [term for term, _ in terms])
    weighed = [QueryTerm(term, weight, disk.document_frequency(term)) for term, weight in terms]

    in_tail = {number: score for score, number in tail.search(weighed, counts, statistics, [], lambda _: True, 100)}
    on_disk = {number: score for score, number in disk.search(terms, [], 100)}

    assert in_tail.keys() == on_disk.keys()
    assert len(on_disk) >= 5
    assert in_tail == pytest.approx(on_disk, rel=1e-5)


def test_document_frequencies_of_tail_and_index_agree(tail: Tail, disk: FullText) -> None:
    terms = {term for document in tail.documents() for part in document.terms for term in part.split()}

    counts = count_terms(tail, terms)

    assert {term: len(counts[term]) for term in terms} == {term: disk.document_frequency(term) for term in terms}


def test_a_removed_document_leaves_nothing_behind() -> None:
    known, tail = make_documents(), Tail()
    for document in known:
        tail.add(document)
    term = known[0].terms[0].split()[0]
    assert count_terms(tail, [term])[term]

    tail.remove([document.number for document in known])

    assert count_terms(tail, [term]) == {term: {}}
    assert (len(tail), tail.terms) == (0, 0)


@pytest.mark.parametrize("words", [3, 2_000], ids=["short", "long"])
def test_counting_stops_at_the_time_limit_and_says_so(words: int) -> None:
    tail = Tail()
    tail.add(Document(1, "k-1", *join_terms([["selenium"] * words]), frozenset()))

    late = asyncio.run(tail.count(["selenium"], CooperativePause(), TimeLimit(0)))

    assert late == ({"selenium": {}}, False)
    assert count_terms(tail, ["selenium"]) == {"selenium": {1: words}}


def test_short_lengths_are_exact_and_long_ones_rounded_down() -> None:
    assert [encode_length(terms) for terms in (0, 1, 39, 40, 41, 42, 1000)] == [0, 1, 39, 40, 40, 42, 984]


def make_term(name: str, frequency: int, words: float = 1.0) -> QueryTerm:
    return QueryTerm(name, 1.0, frequency, words)


def test_the_reach_of_a_query_is_the_score_of_a_perfect_document() -> None:
    known = [make_term("rare", 1), make_term("common", 500)]

    max_score, sufficient = get_score_limits(known, 1_000)

    best = 2.2 * sum(get_idf(1_000, frequency) for frequency in (1, 500))
    assert max_score == sufficient == pytest.approx(best)


def test_unknown_words_raise_the_reach_by_their_rarity() -> None:
    known = get_score_limits([make_term("found", 10)], 1_000)[0]

    max_score, sufficient = get_score_limits(
        [make_term("found", 10), *(make_term(f"unknown {n}", 0) for n in range(4))], 1_000
    )

    assert max_score > 5 * known
    assert known < sufficient < max_score
    assert get_score_limits([make_term("unknown", 0)], 1_000) == (1.0, 1.0)


def test_a_long_query_is_measured_by_its_rarest_terms() -> None:
    words = [make_term(f"w{number}", 3) for number in range(20)]
    han = [make_term(f"h{number}", 3, 1 / 6) for number in range(24)]

    assert get_score_limits(words, 1_000)[0] == pytest.approx(10 * get_score_limits(words, 1_000)[1])
    assert get_score_limits(han, 1_000)[0] == pytest.approx(2 * get_score_limits(han, 1_000)[1])


def test_a_term_in_a_store_of_one_record_is_not_common() -> None:
    max_score, _ = get_score_limits([make_term("found", 1), make_term("unknown", 0)], 1)

    # Half of the query is known.
    assert 0.35 < 2.2 * get_idf(1, 1) / max_score < 0.5


def test_a_word_that_a_quarter_of_few_records_have_is_common() -> None:
    def share(holders: int) -> float:
        max_score, _ = get_score_limits([make_term("found", holders), make_term("unknown", 0)], 12)
        return 2.2 * get_idf(12, holders) / max_score

    assert (share(4) < 0.2, share(3) > 0.3) == (True, True)


def test_pending_documents_are_measured_as_they_are_scored() -> None:
    # The index has one document without the term, and three that wait have it.
    waiting = QueryTerm("found", 1.0, 0, pending=3)

    max_score, sufficient = get_score_limits([waiting], 1)

    assert max_score == sufficient == pytest.approx(2.2 * get_idf(1, 0))
