"""A directory with the smallest embedding model: every known word has a vector, and a text is their mean."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.fakes.onnx_file import Graph

WORDS = ("[PAD]", "[UNK]", "the", "index", "tree", "of", "a", "database", "蟒蛇", "snake", "is", "an", "animal")
DIMENSIONS = 16


def write_tiny_model(
    directory: Path, inputs: Sequence[str] = ("input_ids", "attention_mask"), *, spoilt: bool = False
) -> Path:
    """Write tokenizer and model; a broken model answers with infinities."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    table = np.random.default_rng(7).normal(size=(len(WORDS), DIMENSIONS))
    # What the mask must keep out of every mean.
    table[0] = 1e6
    graph = Graph(inputs)
    found = graph.node("Gather", graph.tensor(table * (np.inf if spoilt else 1.0)), inputs[0])
    # A runtime drops inputs that nothing reads.
    seen = graph.node("Mul", graph.node("Cast", inputs[-1], to=1), graph.tensor(0.0))
    (directory / "model.onnx").write_bytes(
        graph.build_model(graph.node("Add", found, graph.node("Unsqueeze", seen, graph.tensor([2], np.int64))))
    )
    return directory


def write_pooling(directory: Path, **modes: bool) -> None:
    """Say how the vectors of the tokens become one, as sentence-transformers does."""
    (directory / "1_Pooling").mkdir(exist_ok=True)
    pooling = {f"pooling_mode_{name}": is_on for name, is_on in modes.items()}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": DIMENSIONS} | pooling))
