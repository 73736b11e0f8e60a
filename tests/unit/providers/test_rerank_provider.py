"""Requests of the rerank provider in both formats, and how it reads answers; respx plays the server."""

import json
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest
import respx

from knowhub.core.language_models import FailureReason, RerankFailed
from knowhub.providers.rerank import DEFAULT_MODEL, RerankClient, RerankStyle
from tests.fakes.model_server import KEY, FakeTime, read_sent, refusal
from tests.fakes.scripted_reranker import ScriptedReranker
from tests.fakes.vector_server import RERANK_URL, answer_reranked, rerank_client

pytestmark = pytest.mark.anyio

TEXTS = ["snake is an animal", "the index of a database"]


@pytest.fixture
async def server() -> AsyncIterator[respx.Route]:
    async with respx.mock(assert_all_called=False) as router:
        yield router.post(RERANK_URL).mock(side_effect=answer_reranked)


async def failure_of(reranker: RerankClient, texts: Sequence[str] = TEXTS, timeout_s: float = 60) -> RerankFailed:
    with pytest.raises(RerankFailed) as caught:
        await reranker.rerank("query", texts, timeout_s)
    return caught.value


def answer_as_tei(request: httpx.Request) -> httpx.Response:
    """Play Hugging Face's server: it knows no documents, and takes 32 texts at a time."""
    asked = json.loads(request.content)
    if "texts" not in asked:
        return httpx.Response(422, text="Failed to deserialize the JSON body: missing field `texts`")
    return (
        answer_reranked(request)
        if len(asked["texts"]) <= 32
        else refusal(413, "batch size > maximum allowed batch size 32")
    )


@pytest.mark.parametrize("style", list(RerankStyle))
async def test_scores_are_in_the_order_of_the_texts(
    http: httpx.AsyncClient, server: respx.Route, style: RerankStyle
) -> None:
    scores = await rerank_client(http, style=style).rerank("database index", TEXTS, 10)

    assert len(scores) == 2
    assert scores[1] > scores[0]


async def test_the_fake_scores_as_the_scripted_server_does(http: httpx.AsyncClient, server: respx.Route) -> None:
    fake = ScriptedReranker()

    scores = await fake.rerank("database index", TEXTS, 10)

    assert scores == pytest.approx(await rerank_client(http).rerank("database index", TEXTS, 10))
    assert await fake.rerank("database index", [], 10) == []


async def test_coheres_shape_is_sent_with_the_model_and_the_key(http: httpx.AsyncClient, server: respx.Route) -> None:
    await rerank_client(http, text_characters=5).rerank("query text", TEXTS, 10)

    assert read_sent(server.calls[0]) == {
        "model": DEFAULT_MODEL,
        "query": "query",
        "documents": ["snake", "the i"],
        "top_n": 2,
    }
    assert server.calls[0].request.headers["authorization"] == f"Bearer {KEY}"


async def test_the_request_format_of_a_server_is_detected_and_remembered(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    server.mock(side_effect=answer_as_tei)
    reranker = rerank_client(http)

    for _ in range(2):
        await reranker.rerank("query", TEXTS, 10)

    assert ["texts" in read_sent(call) for call in server.calls] == [False, True, True]
    assert read_sent(server.calls[1]) == {"query": "query", "texts": TEXTS, "truncate": True}


async def test_tei_gets_batches_of_32_texts(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(side_effect=answer_as_tei)
    texts = [f"{at} trees" for at in range(70)] + ["query"]

    scores = await rerank_client(http, style=RerankStyle.TEI).rerank("query", texts, 10)

    assert [len(read_sent(call)["texts"]) for call in server.calls] == [32, 32, 7]
    assert len(scores) == 71
    assert max(scores) == scores[70]


async def test_a_configured_style_is_not_replaced(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(side_effect=answer_as_tei)

    failed = await failure_of(rerank_client(http, style=RerankStyle.COHERE))

    assert failed.detail.startswith("the server answered 422: ")
    assert server.call_count == 1


async def test_a_refused_key_does_not_try_another_format(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(return_value=refusal(401, f"no such key: {KEY}"))

    failed = await failure_of(rerank_client(http))

    assert failed.detail == "the server answered 401: no such key: [key]"
    assert server.call_count == 1


async def test_an_empty_list_is_not_sent(http: httpx.AsyncClient, server: respx.Route) -> None:
    assert await rerank_client(http).rerank("query", [], 10) == []
    assert server.call_count == 0


async def test_scores_under_data_are_read_too(http: httpx.AsyncClient, server: respx.Route) -> None:
    """As Voyage's server has it."""
    data = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    server.mock(return_value=httpx.Response(200, json={"object": "list", "data": data}))

    assert await rerank_client(http).rerank("query", TEXTS, 10) == [0.1, 0.9]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ({}, "holds 0 scores, and 2 were asked for"),
        ({"results": "many"}, "holds 0 scores, and 2 were asked for"),
        ([], "holds 0 scores, and 2 were asked for"),
        ([{"index": 0, "score": 1.0}], "holds 1 scores, and 2 were asked for"),
        ([{"index": 0, "score": 1.0}] * 2, "the indexes in the server's answer are not those"),
        ([{"index": 0, "score": 1.0}, {"index": 7, "score": 1.0}], "the indexes in the server's answer are not those"),
        ([{"index": 0, "score": 1.0}, {"index": 1, "score": "0.5"}], "a score in the server's answer is no number"),
        ([{"index": 0, "score": 1.0}, {"index": 1, "score": True}], "a score in the server's answer is no number"),
        ([{"index": 0, "score": 1.0}, {"index": 1}], "a score in the server's answer is no number"),
    ],
)
async def test_an_invalid_answer_is_a_failure_with_its_reason(
    http: httpx.AsyncClient, server: respx.Route, answer: object, detail: str
) -> None:
    server.mock(return_value=httpx.Response(200, json=answer))

    failed = await failure_of(rerank_client(http))

    assert failed.reason is FailureReason.FAILURE
    assert detail in failed.detail


async def test_a_late_server_is_a_timeout_and_opens_the_breaker(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.mock(side_effect=httpx.ReadTimeout("late"))
    time = FakeTime()
    reranker = rerank_client(http, time, breaker_failures=1)

    late, refused = await failure_of(reranker), await failure_of(reranker)

    assert late.reason is FailureReason.TIMEOUT
    assert refused.detail == "the breaker is open: the reranker failed; ask in 30 s"
    assert reranker.is_open
    assert (reranker.usage.calls, reranker.usage.failures) == (2, 2)
