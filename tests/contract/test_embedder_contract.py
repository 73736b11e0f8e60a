"""What every embedder promises (`core.embedding.Embedder`), run on the client, the local model and the fake."""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
import respx

from knowhub.core.language_models import CountedModel, Embedder, EmbeddingFailed, FailureReason, Vector
from knowhub.providers.http import make_client
from knowhub.providers.local_embedder import LocalEmbedder, find_model
from tests.fakes.hashing_embedder import HashingEmbedder
from tests.fakes.tiny_model import write_tiny_model
from tests.fakes.vector_server import EMBEDDINGS_URL, answer_hashed, embedding_client

pytestmark = pytest.mark.anyio


class CountedEmbedder(Embedder, CountedModel, Protocol):
    """An embedder that counts its calls."""


TEXTS = ["the index of a database", "snake is an animal", "a database index"]


@pytest.fixture(params=["client", "local", "hashing"])
async def embedder(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CountedEmbedder]:
    async with respx.mock(assert_all_called=False) as router, make_client() as http:
        if request.param == "hashing":
            yield HashingEmbedder()
        elif request.param == "local":
            yield LocalEmbedder(find_model(write_tiny_model(tmp_path / "tiny")))
        else:
            router.post(EMBEDDINGS_URL).mock(side_effect=answer_hashed)
            yield embedding_client(http, batch=2)


def similarity(first: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(first, other, strict=True))


async def test_each_text_has_a_vector_of_length_1_and_all_have_one_dimension(embedder: CountedEmbedder) -> None:
    vectors = await embedder.embed(TEXTS, 30)

    assert len(vectors) == len(TEXTS)
    assert {vector.typecode for vector in vectors} == {"f"}
    assert len({len(vector) for vector in vectors}) == 1
    assert all(math.isclose(similarity(vector, vector), 1.0, rel_tol=1e-5) for vector in vectors)


async def test_vectors_come_in_the_order_of_their_texts_and_do_not_depend_on_their_company(
    embedder: CountedEmbedder,
) -> None:
    together = await embedder.embed(TEXTS, 30)
    alone = [(await embedder.embed([text], 30))[0] for text in TEXTS]

    assert all(similarity(item, other) > 0.9999 for item, other in zip(together, alone, strict=True))


async def test_texts_with_words_in_common_lie_closer_than_others(embedder: CountedEmbedder) -> None:
    query = (await embedder.embed(["index of a database"], 30, query=True))[0]
    vectors = await embedder.embed(TEXTS, 30)

    alike = [similarity(query, vector) for vector in vectors]
    assert min(alike[0], alike[2]) > alike[1]


async def test_no_texts_have_no_vectors(embedder: CountedEmbedder) -> None:
    assert list(await embedder.embed([], 30)) == []


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
async def test_a_timeout_of_zero_is_a_timeout(embedder: CountedEmbedder, timeout_s: float) -> None:
    with pytest.raises(EmbeddingFailed) as caught:
        await embedder.embed(TEXTS, timeout_s)

    assert caught.value.reason is FailureReason.TIMEOUT
    assert str(caught.value) == caught.value.detail
    assert embedder.usage.failures == 1


@pytest.mark.parametrize("text", ["half of a pair: \ud800 database", "\x00", "database " * 5000, "🐍 \u202e"])
async def test_any_text_is_accepted(embedder: CountedEmbedder, text: str) -> None:
    vectors = await embedder.embed([text, "database"], 30)

    assert [len(vector) for vector in vectors] == [len(vectors[1])] * 2


async def test_batches_may_be_asked_for_side_by_side_and_are_counted(embedder: CountedEmbedder) -> None:
    answers = await asyncio.gather(*(embedder.embed(TEXTS, 60, query=at % 2 == 0) for at in range(6)))

    assert all(
        similarity(item, other) > 0.9999 for found in answers for item, other in zip(found, answers[0], strict=True)
    )
    assert (embedder.usage.calls, embedder.usage.failures) == (6, 0)
    assert embedder.usage.prompt_tokens > 0
    assert not embedder.is_open
    assert embedder.model
