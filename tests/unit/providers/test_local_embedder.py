"""The local embedder with the smallest model: pooling, lengths, and unusable directories."""

import json
from pathlib import Path

import numpy as np
import pytest

from knowhub.core.language_models import EmbeddingFailed, FailureReason
from knowhub.providers.local_embedder import LocalEmbedder, find_model
from tests.fakes.tiny_model import write_pooling, write_tiny_model

pytestmark = pytest.mark.anyio


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny")


async def test_mean_pooling_ignores_padding(directory: Path) -> None:
    """Padding is a million in each dimension here."""
    embedder = LocalEmbedder(find_model(directory))

    long, short = await embedder.embed(["the index of a database", "snake"], 30)

    assert short == (await embedder.embed(["snake"], 30))[0]
    assert np.asarray(long) @ np.asarray(short) < 0.99


async def test_cls_pooling_uses_the_first_token(directory: Path) -> None:
    write_pooling(directory, cls_token=True, mean_tokens=False)
    embedder = LocalEmbedder(find_model(directory))

    first, same, other = await embedder.embed(["snake is an animal", "snake", "animal"], 30)

    assert first == same
    assert first != other


async def test_a_text_is_cut_at_the_length_of_the_model(directory: Path) -> None:
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 2}))
    embedder = LocalEmbedder(find_model(directory))

    cut, whole = await embedder.embed(["snake tree animal animal animal", "snake tree"], 30)

    assert cut == whole


async def test_prefixes_go_before_queries_and_texts(directory: Path) -> None:
    embedder = LocalEmbedder(find_model(directory), query_prefix="snake ", text_prefix="tree ")
    plain = LocalEmbedder(find_model(directory))

    text, query = (await embedder.embed(["index"], 30))[0], (await embedder.embed(["index"], 30, query=True))[0]

    assert [text, query] == list(await plain.embed(["tree index", "snake index"], 30))


async def test_another_model_in_the_same_directory_has_another_name(directory: Path) -> None:
    files = find_model(directory)
    names = [LocalEmbedder(files).model, LocalEmbedder(files, text_prefix="passage: ").model]
    write_tiny_model(directory, ("input_ids", "attention_mask", "token_type_ids"))
    names.append(LocalEmbedder(find_model(directory)).model)

    assert len(set(names)) == 3
    assert all(name.startswith("tiny-") for name in names)


async def test_numbers_that_are_not_finite_are_a_failure(tmp_path: Path) -> None:
    embedder = LocalEmbedder(find_model(write_tiny_model(tmp_path / "spoilt", spoilt=True)))

    with pytest.raises(EmbeddingFailed, match="a number in its vectors is not finite") as caught:
        await embedder.embed(["snake"], 30)

    assert caught.value.reason is FailureReason.FAILURE


def test_a_model_whose_tokenizer_is_gone_is_refused_by_its_name(directory: Path) -> None:
    files = find_model(directory)
    files.tokenizer.unlink()

    with pytest.raises(ValueError, match=r"tokenizer\.json is missing"):
        LocalEmbedder(files)


def test_a_model_with_other_inputs_is_refused(tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "images", ("input_ids", "pixel_values"))

    with pytest.raises(ValueError, match="pixel_values"):
        LocalEmbedder(find_model(directory))


def test_an_unknown_pooling_is_refused(directory: Path) -> None:
    write_pooling(directory, max_tokens=True, mean_tokens=False)

    with pytest.raises(ValueError, match="pooling_mode_max_tokens"):
        LocalEmbedder(find_model(directory))
