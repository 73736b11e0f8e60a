"""Requests of the embeddings provider, and how it reads answers; respx plays the server."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import pytest
import respx

from knowhub.core.language_models import EmbeddingFailed, FailureReason, TextRefused, Usage
from knowhub.providers.embeddings import DEFAULT_MODEL, EmbeddingClient
from tests.fakes.model_server import KEY, read_sent, refusal
from tests.fakes.vector_server import EMBEDDINGS_URL, answer_embedded, answer_hashed, embedding_client

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[respx.Route]:
    async with respx.mock(assert_all_called=False) as router:
        yield router.post(EMBEDDINGS_URL).mock(side_effect=answer_hashed)


async def failure_of(embedder: EmbeddingClient, texts: Sequence[str] = ("text",), timeout_s: float = 60) -> Any:  # noqa: ANN401 -- an EmbeddingFailed
    with pytest.raises(EmbeddingFailed) as caught:
        await embedder.embed(texts, timeout_s)
    return caught.value


def inputs_of(server: respx.Route) -> list[list[str]]:
    return [read_sent(call)["input"] for call in server.calls]


def refuse_batches(wrong: Callable[[list[str]], bool], status: int = 400) -> Callable[[httpx.Request], httpx.Response]:
    """Play a server that does not want some batches."""

    def answer(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["input"]
        return refusal(status, "the input is too long") if wrong(texts) else answer_hashed(request)

    return answer


async def test_texts_are_sent_with_the_model_and_the_key(http: httpx.AsyncClient, server: respx.Route) -> None:
    embedder = embedding_client(http)

    await embedder.embed(["索引", "tree"], 10)

    assert read_sent(server.calls[0]) == {"model": DEFAULT_MODEL, "input": ["索引", "tree"]}
    assert server.calls[0].request.headers["authorization"] == f"Bearer {KEY}"
    assert embedder.usage == Usage(1, 0, len("索引tree"), 0)


async def test_queries_and_texts_have_their_own_prefix(http: httpx.AsyncClient, server: respx.Route) -> None:
    embedder = embedding_client(http, model="e5", query_prefix="query: ", text_prefix="passage: ", dimensions=64)

    await embedder.embed(["a"], 10)
    await embedder.embed(["a"], 10, query=True)

    assert inputs_of(server) == [["passage: a"], ["query: a"]]
    assert read_sent(server.calls[0])["dimensions"] == 64
    assert embedder.model == "e5@64|passage: "


async def test_batches_are_bounded_by_texts_and_by_characters(http: httpx.AsyncClient, server: respx.Route) -> None:
    texts = ["aaaa", "bbbb", "cc", "dd", "ee", "f" * 100, "g"]

    vectors = await embedding_client(http, batch=3, batch_characters=9, text_characters=20).embed(texts, 10)

    assert inputs_of(server) == [["aaaa", "bbbb"], ["cc", "dd", "ee"], ["f" * 20], ["g"]]
    assert len(vectors) == len(texts)


async def test_a_refused_batch_is_halved_and_the_size_remembered(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.side_effect = refuse_batches(lambda texts: len(texts) > 2, 413)
    embedder = embedding_client(http)
    texts = ["a", "b", "c", "d", "e", "f", "g", "h"]

    vectors = await embedder.embed(texts, 10)
    again = await embedder.embed(texts, 10)

    assert vectors == again
    assert list(map(len, inputs_of(server))) == [8, 4, 2, 2, 4, 2, 2, *[2] * 4]


async def test_a_long_text_is_cut_and_does_not_affect_others(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.side_effect = refuse_batches(lambda texts: any(len(text) > 500 for text in texts))
    embedder = embedding_client(http)

    long = "tree " * 300
    vectors = await embedder.embed(["short", long, "other"], 10)
    await embedder.embed(["a", "b", "c"], 10)

    assert inputs_of(server)[-2:] == [["other"], ["a", "b", "c"]]
    assert vectors[1] == (await embedder.embed([long[:375]], 10))[0]
    assert vectors[2] == (await embedder.embed(["other"], 10))[0]


async def test_a_rejected_text_does_not_open_the_breaker(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.side_effect = refuse_batches(lambda texts: "poison" in texts)
    embedder = embedding_client(http, breaker_failures=1)
    await embedder.embed(["fine"], 10)

    refused = await failure_of(embedder, ["fine", "poison", "fine too"])

    assert isinstance(refused, TextRefused)
    assert refused.detail == "the server answered 400: the input is too long"
    assert not embedder.is_open


async def test_a_server_that_refuses_everything_rejects_no_single_text(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    server.side_effect = refuse_batches(lambda texts: True)

    failed = await failure_of(embedding_client(http))

    assert not isinstance(failed, TextRefused)


async def test_the_deadline_covers_all_batches(http: httpx.AsyncClient, server: respx.Route) -> None:
    async def slowly(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.3)
        return answer_hashed(request)

    server.mock(side_effect=slowly)

    failed = await failure_of(embedding_client(http, batch=1), ["text"] * 100, 1.0)

    assert failed.reason is FailureReason.TIMEOUT
    assert server.call_count < 5


async def test_a_later_change_of_dimensions_is_refused(http: httpx.AsyncClient, server: respx.Route) -> None:
    server.side_effect = [answer_embedded([1.0, 0.0]), answer_embedded([1.0, 0.0, 0.0]), answer_embedded([0.0, 1.0])]
    embedder = embedding_client(http)
    await embedder.embed(["text"], 10)

    failed = await failure_of(embedder)

    assert "have 3 dimensions in place of 2; restart KnowHub if" in failed.detail
    assert (await embedder.embed(["text"], 10))[0].tolist() == [0.0, 1.0]


async def test_configured_dimensions_are_checked_from_the_first_answer(
    http: httpx.AsyncClient, server: respx.Route
) -> None:
    server.mock(return_value=answer_embedded([1.0, 0.0, 0.0]))

    failed = await failure_of(embedding_client(http, dimensions=2))

    assert "have 3 dimensions in place of 2; restart KnowHub if" in failed.detail


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (None, "holds 0 embeddings, and 2 were asked for"),
        ([{"index": at, "embedding": [1.0]} for at in range(3)], "holds 3 embeddings, and 2 were asked for"),
        ([{"index": 0, "embedding": [1.0]}, "text"], "holds 1 embeddings, and 2 were asked for"),
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}], "the indexes in the server's answer"),
        ([{"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}], "the indexes in the server's answer"),
        ([{"index": -1, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}], "the indexes in the server's answer"),
        ([{"index": True, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}], "the indexes in the server's answer"),
        ([{"embedding": [1.0]}, {"index": 1, "embedding": [1.0]}], "the indexes in the server's answer"),
        ([{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}], "are not of one dimension"),
        ([{"embedding": []}, {"embedding": []}], "are not of one dimension"),
        ([{"embedding": [1.0]}, {"embedding": None}], "is no list of numbers"),
        ([{"embedding": [1.0]}, {"embedding": ["1.0"]}], "is no list of numbers"),
        ([{"embedding": [1.0]}, {"embedding": [None]}], "is no list of numbers"),
        ([{"embedding": [1.0]}, {"embedding": [[1.0]]}], "is no list of numbers"),
        ([{"embedding": [1.0]}, {"embedding": "AAA="}], "is no list of numbers"),
    ],
)
async def test_an_invalid_answer_is_a_failure_with_its_reason(
    http: httpx.AsyncClient, server: respx.Route, data: object, detail: str
) -> None:
    server.mock(return_value=httpx.Response(200, json={"data": data}))

    failed = await failure_of(embedding_client(http), ["a", "b"])

    assert failed.reason is FailureReason.FAILURE
    assert detail in failed.detail
    assert server.call_count == 1


@pytest.mark.parametrize(
    ("numbers", "unit"),
    [
        ([1e300, 0], [1.0, 0.0]),
        ([3e-320, 4e-320], [0.6, 0.8]),
        ([0, 0], [0.0, 0.0]),
        ([-5, 0.0], [-1.0, 0.0]),
    ],
)
async def test_every_finite_vector_has_length_1_or_none(
    http: httpx.AsyncClient, server: respx.Route, numbers: list[float], unit: list[float]
) -> None:
    server.mock(return_value=answer_embedded(numbers))

    vectors = await embedding_client(http).embed(["text"], 10)

    assert vectors[0].tolist() == pytest.approx(unit, rel=1e-3)
