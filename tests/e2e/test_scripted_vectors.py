"""Embedder and reranker over a real socket, against a server process that does all that a bad server does."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.core.language_models import EmbeddingFailed, FailureReason
from knowhub.providers.embeddings import EmbeddingClient, EmbeddingOptions
from knowhub.providers.http import RequestTiming
from tests.e2e.scripted_llm import ScriptedLLM, Step
from tests.fakes.hashing_embedder import hash_vector

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

    assert vectors == [hash_vector(text) for text in TEXTS]
    assert [list(request["body"]) for request in (await llm.requests("embeddings"))[asked_before:]] == [
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
