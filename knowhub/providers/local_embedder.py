"""An embedder out of a directory of this machine, without a server: a tokenizer and a model in ONNX.

The libraries it runs on are the extra `local`; they are imported when a directory is opened, and not before.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowhub.core.language_models import EmbeddingFailed, FailureReason, Usage, Vector
from knowhub.providers.embeddings import unit_vectors

_TOKENIZER = "tokenizer.json"
_MODELS = ("model.onnx", "onnx/model.onnx")
_LENGTH = "sentence_bert_config.json"
_POOLING = "1_Pooling/config.json"
_USUAL_TOKENS = 256
_MOST_TOKENS = 512
_BATCH = 16
_TEXT_CHARACTERS = 8000
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_IN_SENTENCES, _IN_TOKENS = 2, 3


class LocalEmbedder:
    """Runs the model of one directory in a thread of its own.

    Construction reads the whole model. Raises ImportError without the extra `local`, ValueError or OSError for a
    directory of no use.
    """

    def __init__(self, directory: Path, *, query_prefix: str = "", text_prefix: str = "") -> None:
        path = next((directory / name for name in _MODELS if (directory / name).is_file()), None)
        if path is None or not (directory / _TOKENIZER).is_file():
            raise ValueError(f"{directory} does not hold {_TOKENIZER} and {_MODELS[0]}")
        written = path.read_bytes()
        self._model = _OnnxModel(directory, written)
        digest = hashlib.sha256(written).hexdigest()[:12]
        self._name = f"{directory.resolve().name}-{digest}" + (f"|{text_prefix}" if text_prefix else "")
        self._query_prefix = query_prefix
        self._text_prefix = text_prefix
        # One call at a time, since each uses every core; but a query, which somebody waits for, is not held up.
        self._turn = asyncio.Lock()
        self._calls = self._failures = self._tokens = 0

    @property
    def model(self) -> str:
        """The directory's name and a digest of the model: another model in the same place has another name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Say that it may be asked: there is no server that could be spared."""
        return False

    @property
    def usage(self) -> Usage:
        """What was asked and counted up to now."""
        return Usage(self._calls, self._failures, self._tokens, 0)

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
            async with asyncio.timeout(max(0, timeout_s)), nullcontext() if query else self._turn:
                vectors, tokens = await asyncio.to_thread(self._model.embed, sent, deadline)
        except TimeoutError as error:
            self._failures += 1
            detail = f"the embedder did not answer within {timeout_s:g} s"
            raise EmbeddingFailed(FailureReason.TIMEOUT, detail) from error
        # The runtime raises what it likes, and the port promises one error.
        except Exception as error:
            self._failures += 1
            detail = f"the local model failed: {type(error).__name__}: {error}"[:200]
            raise EmbeddingFailed(FailureReason.FAILURE, detail) from error
        self._tokens += tokens
        return vectors


class _OnnxModel:
    """Tokenizer, session and pooling of one directory; blocks, so it is called in a thread."""

    def __init__(self, directory: Path, written: bytes) -> None:
        # An extra: whoever has a server for this does not need 80 MB of libraries.
        import onnxruntime  # noqa: PLC0415 -- see above
        from tokenizers import Tokenizer  # noqa: PLC0415 -- see above

        try:
            self._tokenizer = Tokenizer.from_file(str(directory / _TOKENIZER))
            options = onnxruntime.SessionOptions()
            # Its threads would spin while they wait for each other, on cores that the server has other work for.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both libraries raise bare exceptions for a file that they cannot read
            raise ValueError(f"the model in {directory} cannot be loaded: {error}") from error
        self._tokenizer.enable_truncation(_read_max_tokens(directory))
        padding = self._tokenizer.padding or {}
        # Their own padding goes to one fixed length, and short texts would cost as much as long ones.
        self._tokenizer.enable_padding(pad_id=padding.get("pad_id", 0), pad_token=padding.get("pad_token", "[PAD]"))
        self._inputs = {get_input.name for get_input in self._session.get_inputs()}
        self._is_cls = _is_cls(directory)
        if not self._inputs <= _INPUTS:
            raise ValueError(f"the model in {directory} wants {sorted(self._inputs - _INPUTS)}, which nobody gives it")

    def embed(self, texts: Sequence[str], deadline: float) -> tuple[list[Vector], int]:
        """Return the vectors in the order of the texts, and how many tokens were read."""
        # Texts of like length share a batch, which is as long as its longest.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        found: dict[int, Vector] = {}
        tokens = 0
        for start in range(0, len(order), _BATCH):
            if not time.monotonic() < deadline:
                # Nobody waits for it any more, and it would keep the cores from those who do.
                raise TimeoutError
            some = order[start : start + _BATCH]
            vectors, read = self._embed_batch([texts[at] for at in some])
            found.update(zip(some, vectors, strict=True))
            tokens += read
        return [found[at] for at in range(len(texts))], tokens

    def _embed_batch(self, texts: Sequence[str]) -> tuple[list[Vector], int]:
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([encoding.attention_mask for encoding in encoded], dtype=np.int64)
        given: dict[str, npt.NDArray[np.int64]] = {
            "input_ids": np.array([encoding.ids for encoding in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([encoding.type_ids for encoding in encoded], dtype=np.int64),
        }
        output = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        pooled = np.asarray(self._pool(np.asarray(output), mask), dtype=np.float64)
        if not np.isfinite(pooled).all():
            raise ValueError("a number in its vectors is not finite")
        return unit_vectors(pooled), int(mask.sum())

    def _pool(self, output: npt.NDArray[Any], mask: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if output.ndim == _IN_SENTENCES:
            return output
        if output.ndim != _IN_TOKENS:
            raise ValueError(f"its output has {output.ndim} axes")
        if self._is_cls:
            pooled: npt.NDArray[Any] = output[:, 0]
            return pooled
        weights = mask[:, :, np.newaxis].astype(output.dtype)
        mean: npt.NDArray[Any] = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        return mean


def _read_max_tokens(directory: Path) -> int:
    length = _read_json(directory / _LENGTH).get("max_seq_length")
    return min(length, _MOST_TOKENS) if type(length) is int and length > 0 else _USUAL_TOKENS


def _is_cls(directory: Path) -> bool:
    """Say whether the first token's vector is the text's, as with the BGE models, and not the mean of all."""
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
