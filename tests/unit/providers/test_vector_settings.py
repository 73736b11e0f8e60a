"""The settings of an embedder and a reranker, as they arrive at what is built from them."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import respx

from knowhub.core.errors import InvalidInput
from knowhub.settings import Settings
from knowhub.wiring.models import open_embedder, open_reranker
from tests.fakes.model_server import BASE_URL, sent
from tests.fakes.tiny_model import write_tiny_model
from tests.fakes.vector_server import EMBEDDINGS_URL, RERANK_URL, hashed, reranked
from tests.opened_models import opened_model

pytestmark = pytest.mark.anyio


@pytest.fixture
async def router() -> AsyncIterator[respx.MockRouter]:
    async with respx.mock(assert_all_called=False) as router:
        router.post(EMBEDDINGS_URL).mock(side_effect=hashed)
        router.post(RERANK_URL).mock(side_effect=reranked)
        yield router


async def test_without_a_place_there_is_none() -> None:
    async with opened_model(open_embedder, Settings()) as embedder, opened_model(open_reranker, Settings()) as reranker:
        assert (embedder, reranker) == (None, None)


async def test_what_is_set_for_the_embedder_is_sent(router: respx.MockRouter) -> None:
    settings = Settings(
        embedding_base_url=BASE_URL,
        embedding_model="e5",
        embedding_dimensions=32,
        embedding_text_prefix="passage: ",
        embedding_text_characters=100,
        embedding_batch=2,
    )

    async with opened_model(open_embedder, settings) as embedder:
        assert embedder is not None
        await embedder.embed(["x" * 200, "b", "c"], 30)

    bodies = [sent(call) for call in router.calls]
    assert [body["input"] for body in bodies] == [["passage: " + "x" * 100, "passage: b"], ["passage: c"]]
    assert {(body["model"], body["dimensions"]) for body in bodies} == {("e5", 32)}


async def test_what_is_set_for_the_reranker_is_sent(router: respx.MockRouter) -> None:
    settings = Settings(rerank_base_url=BASE_URL, rerank_style="tei")

    async with opened_model(open_reranker, settings) as reranker:
        assert reranker is not None
        await reranker.rerank("query", ["a"], 30)

    assert sent(router.calls[0])["texts"] == ["a"]


async def test_a_directory_is_an_embedder_too(tmp_path: Path) -> None:
    async with opened_model(open_embedder, Settings(embedding_dir=write_tiny_model(tmp_path / "tiny"))) as embedder:
        assert embedder is not None
        assert embedder.model.startswith("tiny-")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"embedding_base_url": BASE_URL, "embedding_dir": "/nowhere"}, "set one of them"),
        ({"embedding_dir": "/nowhere"}, r"does not hold tokenizer\.json and model\.onnx"),
        ({"embedding_base_url": "http://user:word@model.test"}, "without a user, password"),
        ({"embedding_base_url": BASE_URL, "embedding_ca_file": "/nowhere"}, "No such file"),
    ],
)
async def test_an_embedder_that_cannot_be_built_ends_the_start(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        async with opened_model(open_embedder, Settings(**given)):
            pass


async def test_a_reranker_that_cannot_be_built_ends_the_start() -> None:
    with pytest.raises(InvalidInput, match="without a user, password"):
        async with opened_model(open_reranker, Settings(rerank_base_url="http://user:word@model.test")):
            pass


async def test_without_the_libraries_the_start_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write_tiny_model(tmp_path / "tiny")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(InvalidInput, match=r"pip install knowhub\[local\]"):
        async with opened_model(open_embedder, Settings(embedding_dir=directory)):
            pass
