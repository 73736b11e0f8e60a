"""Embedder and reranker over a real socket, against a server process that does all that a bad server does."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.core.language_models import EmbeddingFailed, FailureReason, RerankFailed
from knowhub.providers.embeddings import EmbeddingClient, EmbeddingOptions
from knowhub.providers.http import RequestTiming
from knowhub.providers.rerank import RerankClient, RerankOptions
from tests.e2e.scripted_llm import ScriptedLLM, Step
from tests.fakes.hashing_embedder import hashed_vector

pytestmark = pytest.mark.anyio

A_GIGABYTE = 1024 * 1024 * 1024
TEXTS = ["索引 B-tree", "snake is an animal"]
ENOUGH_S = 60.0

Embed = Callable[..., EmbeddingClient]


@pytest.fixture
def embedder(llm: ScriptedLLM, http: httpx.AsyncClient) -> Embed:
    def build(**options: Any) -> EmbeddingClient:  # noqa: ANN401 -- any option
        given = {"max_attempts": 1, **options}
        return EmbeddingClient(EmbeddingOptions(llm.url, **given), http, RequestTiming(SystemClock(), RandomIds()))

    return build


async def test_vectors_are_those_of_the_hashing_embedder(llm: ScriptedLLM, embedder: Embed) -> None:
    await llm.script_for("embeddings", {"refuse_rung": "encoding_format"})
    asked_before = len(await llm.requests("embeddings"))

    vectors = await embedder().embed(TEXTS, ENOUGH_S)

    assert vectors == [hashed_vector(text) for text in TEXTS]
    assert [list(one["body"]) for one in (await llm.requests("embeddings"))[asked_before:]] == [
        ["model", "input", "encoding_format"],
        ["model", "input"],
    ]


@pytest.mark.parametrize(
    ("step", "detail"),
    [
        ({"garbage": True}, "the server's answer is no JSON object"),
        ({"huge": A_GIGABYTE}, "the answer is over 16777216 bytes"),
        ({"missing": 1}, "holds 1 embeddings, and 2 were asked for"),
        ({"shift": 1}, "the indexes in the server's answer"),
        ({"numbers": ["1.0"]}, "is no list of numbers"),
        ({"numbers": [1.0, 2.0]}, "are not of one dimension"),
        ({"close": True}, "the server cannot be reached"),
        ({"status": 429, "retry_after": 3600}, "the server answered 429"),
        ({"answer": {"error": {"message": "overloaded", "code": 503}}}, "the server answered 503: overloaded"),
    ],
)
async def test_a_hostile_answer_is_a_failure(llm: ScriptedLLM, embedder: Embed, step: Step, detail: str) -> None:
    await llm.script_for("embeddings", step)

    with pytest.raises(EmbeddingFailed) as caught:
        await embedder().embed(TEXTS, ENOUGH_S)

    assert caught.value.reason is FailureReason.FAILURE
    assert detail in caught.value.detail


@pytest.mark.parametrize("step", [{"late": 60}, {"slow_drip": 0.2}])
async def test_a_late_answer_is_a_timeout(llm: ScriptedLLM, embedder: Embed, step: Step) -> None:
    await llm.script_for("embeddings", step)

    with pytest.raises(EmbeddingFailed) as caught:
        await embedder().embed(TEXTS, 1.0)

    assert caught.value.reason is FailureReason.TIMEOUT


async def test_a_server_that_is_down_opens_the_breaker_and_is_asked_again_after_it(
    llm: ScriptedLLM, embedder: Embed
) -> None:
    await llm.script_for("embeddings", {"status": 503, "stays": True})
    asked_before = len(await llm.requests("embeddings"))
    asked = embedder(breaker_failures=2, breaker_cool_down_s=1.0)
    for _ in range(2):
        with pytest.raises(EmbeddingFailed, match="503"):
            await asked.embed(TEXTS, ENOUGH_S)
    with pytest.raises(EmbeddingFailed, match="the breaker is open"):
        await asked.embed(TEXTS, ENOUGH_S)
    await llm.script_for("embeddings")

    while asked.is_open:  # noqa: ASYNC110 -- a breaker closes by the clock and tells nobody
        await asyncio.sleep(0.01)
    vectors = await asked.embed(TEXTS, ENOUGH_S)

    assert vectors == [hashed_vector(text) for text in TEXTS]
    assert len(await llm.requests("embeddings")) == asked_before + 3


async def test_the_reranker_finds_the_shape_that_the_server_takes(llm: ScriptedLLM, http: httpx.AsyncClient) -> None:
    await llm.script_for("rerank", {"refuse_rung": "documents"}, {}, {"garbage": True})
    reranker = RerankClient(RerankOptions(llm.url, max_attempts=1), http, RequestTiming(SystemClock(), RandomIds()))

    scores = await reranker.rerank("索引", TEXTS, ENOUGH_S)
    with pytest.raises(RerankFailed) as caught:
        await reranker.rerank("索引", TEXTS, ENOUGH_S)

    assert scores[0] > scores[1]
    assert caught.value.reason is FailureReason.FAILURE
    assert ["texts" in one["body"] for one in await llm.requests("rerank")] == [False, True, True]
