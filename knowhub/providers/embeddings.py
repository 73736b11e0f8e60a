"""Embeddings from an OpenAI-compatible server."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import orjson

from knowhub.core.language_models import EmbeddingFailed, TextRefused, Vector
from knowhub.providers.breaker import GuardedClient
from knowhub.providers.http import (
    CallFailed,
    EndpointOptions,
    InvalidResponse,
    RequestRejected,
    RequestTiming,
    estimate_request_tokens,
    get_count,
)


def parse_vectors(answer: Mapping[str, object], count: int) -> list[Vector]:
    """Return the vectors of `count` texts, in the order of these. Raises InvalidResponse where some are missing."""
    rows = [_parse_numbers(part.get("embedding")) for part in read_parts(answer.get("data"), count, "embeddings")]
    if len({len(row) for row in rows}) > 1 or not len(rows[0]):
        raise InvalidResponse("the server's embeddings are not of one dimension")
    matrix = np.array(rows, dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise InvalidResponse("a number in the server's embeddings is not finite")
    return normalize_rows(matrix)


def read_parts(found: object, count: int, what: str) -> list[Mapping[str, object]]:
    """Return the `count` parts of an answer by their `index`, which may be missing everywhere.

    Raises InvalidResponse if there are more or fewer, and unless each index occurs once.
    """
    parts = [part for part in found if isinstance(part, Mapping)] if isinstance(found, list) else []
    if not isinstance(found, list) or not len(parts) == len(found) == count:
        raise InvalidResponse(f"the server's answer holds {len(parts)} {what}, and {count} were asked for")
    indexes = [part.get("index") for part in parts]
    if all(index is None for index in indexes):
        return parts
    placed = {index: part for index, part in zip(indexes, parts, strict=True) if type(index) is int}
    if placed.keys() != set(range(len(parts))):
        raise InvalidResponse("the indexes in the server's answer are not those of what was sent")
    return [placed[index] for index in range(len(parts))]


def normalize_rows(matrix: npt.NDArray[np.float64]) -> list[Vector]:
    """Return the rows as vectors of length 1; a row of zeros stays one."""
    # By the largest number first: the square of one of 1e200 is no number any more.
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scaled = matrix / np.where(largest, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = (scaled / np.where(lengths, lengths, 1.0)).astype(np.float32)
    return [array("f", row.tobytes()) for row in unit]


def _parse_numbers(embedding: object) -> Sequence[float]:
    # The text of an error may repeat what the server sent.
    problem = InvalidResponse("an embedding in the server's answer is no list of numbers")
    if not isinstance(embedding, list):
        raise problem
    try:
        # An array refuses what is no number, where numpy reads "1.5" as one and null as NaN.
        return array("d", embedding)
    except (TypeError, OverflowError):
        raise problem from None


DEFAULT_MODEL = "text-embedding-3-small"
_PATH = "/embeddings"
# A text this short fits every model: what refuses it does not mind its length.
_SHORTEST_CUT = 250


@dataclass(frozen=True, slots=True)
class EmbeddingOptions(EndpointOptions):
    """Where the embedder is and how it wants its texts; lengths are characters.

    `dimensions` is asked for and checked, None takes what comes. A prefix is what a model was trained to see before a
    query or before a text that is to be found.
    """

    max_answer_bytes: int = 16 * 1024 * 1024
    model: str = DEFAULT_MODEL
    dimensions: int | None = None
    query_prefix: str = ""
    text_prefix: str = ""
    batch: int = 64
    batch_characters: int = 100_000
    text_characters: int = 8000


class EmbeddingClient(GuardedClient):
    """Asks one server over `http`, which its maker closes. Raises ValueError for an address or key of no use.

    Two things are learned and kept for the life of the client: how many texts the server takes at a time, and the
    dimension of its vectors.
    """

    peer, error_type, unavailable_type = "embedder", EmbeddingFailed, EmbeddingFailed

    def __init__(self, options: EmbeddingOptions, http: httpx.AsyncClient, timing: RequestTiming) -> None:
        self._options = options
        super().__init__(options, http, timing)
        self._batch = options.batch
        self._dimensions = options.dimensions
        self._has_answered = False
        self._refusals = 0

    @property
    def model(self) -> str:
        """The model's name, with whatever else makes its vectors what they are."""
        asked = "" if self._options.dimensions is None else f"@{self._options.dimensions}"
        prefix = f"|{self._options.text_prefix}" if self._options.text_prefix else ""
        return self._options.model + asked + prefix

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """Return one vector of length 1 for each text within `timeout_s`, retries included.

        Raises EmbeddingFailed, and nothing else, whatever the server does; TextRefused where it is well otherwise.
        """
        if not texts:
            return []
        prefix = self._options.query_prefix if query else self._options.text_prefix
        cut = [prefix + text[: self._options.text_characters] for text in texts]
        try:
            async with self._call(timeout_s) as deadline:
                sent = await self._redact(cut)
                return [vector for batch in self._batches(sent) for vector in await self._embed_batch(batch, deadline)]
        except EmbeddingFailed as failure:
            # A server that has refused everything up to now is not well: its model is named wrongly, say.
            cause = failure.__cause__
            if isinstance(cause, CallFailed) and cause.is_request_error and self._has_answered:
                raise TextRefused(failure.reason, failure.detail) from failure
            raise

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        start = characters = 0
        for at, text in enumerate(texts):
            characters += len(text)
            if at > start and (at - start >= self._batch or characters > self._options.batch_characters):
                yield texts[start:at]
                start, characters = at, len(text)
        yield texts[start:]

    async def _embed_batch(self, texts: Sequence[str], deadline: float) -> list[Vector]:
        try:
            return await self._request_vectors(texts, deadline)
        except RequestRejected as refusal:
            if not refusal.is_request_error or (len(texts) == 1 and len(texts[0]) <= _SHORTEST_CUT):
                raise
        self._refusals += 1
        if len(texts) == 1:
            return await self._embed_batch([texts[0][: len(texts[0]) // 2]], deadline)
        middle, refusals = (len(texts) + 1) // 2, self._refusals
        found = [*await self._embed_batch(texts[:middle], deadline), *await self._embed_batch(texts[middle:], deadline)]
        if self._refusals == refusals:
            # Not one of the texts was at fault: there were too many.
            self._batch = min(self._batch, middle)
        return found

    async def _request_vectors(self, texts: Sequence[str], deadline: float) -> list[Vector]:
        body: dict[str, Any] = {"model": self._options.model, "input": texts}
        if self._options.dimensions is not None:
            body["dimensions"] = self._options.dimensions
        answer = await self._endpoint.post(_PATH, orjson.dumps(body), deadline)
        vectors = parse_vectors(answer, len(texts))
        self._check_dimension(len(vectors[0]))
        self._has_answered = True
        counted = get_count(answer, "prompt_tokens")
        self._prompt_tokens += counted or sum(estimate_request_tokens(text.encode()) for text in texts)
        return vectors

    def _check_dimension(self, dimension: int) -> None:
        if self._dimensions is None:
            self._dimensions = dimension
        if dimension != self._dimensions:
            # Compared with vectors of another model they would mean nothing, and nobody would notice.
            raise InvalidResponse(
                f"the server's embeddings have {dimension} dimensions in place of {self._dimensions}; restart KnowHub "
                "if its model was changed, and correct KNOWHUB_EMBEDDING_DIMENSIONS if that is set"
            )
