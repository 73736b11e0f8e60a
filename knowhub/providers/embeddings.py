"""An embedder behind an OpenAI-compatible server (`core.embedding.Embedder`).

Texts go out in batches, one after the other within one deadline. What a server refuses is tried in smaller pieces: a
batch by halves, a text by its beginning.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from knowhub.core.chat import Usage
from knowhub.core.embedding import EmbeddingFailed, TextRefused, Vector
from knowhub.providers.breaker import Breaker
from knowhub.providers.guard import Guard, GuardedFailure
from knowhub.providers.http import Endpoint, EndpointOptions, Refused, Timing, Unusable
from knowhub.providers.spending import estimated_tokens
from knowhub.providers.vector_answers import vectors_in

DEFAULT_MODEL = "text-embedding-3-small"
_PATH = "/embeddings"
_MOST_TOKENS = 1_000_000_000
# A text this short fits every model: what refuses it does not mind its length.
_SHORTEST_CUT = 250
_ABOUT_FORMAT = re.compile(r"encoding.?format|base64", re.IGNORECASE)


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


class EmbeddingClient:
    """Asks one server over `http`, which its maker closes. Raises ValueError for an address or key of no use.

    Three things are learned and kept for the life of the client: whether the server sends numbers in base64, how many
    texts it takes at a time, and the dimension of its vectors.
    """

    def __init__(self, options: EmbeddingOptions, http: httpx.AsyncClient, timing: Timing) -> None:
        self._options = options
        self._endpoint = Endpoint(options, http, timing)
        breaker = Breaker(options.breaker_failures, options.breaker_cool_down_s, timing.monotonic)
        self._guard = Guard("embedder", breaker)
        self._asks_base64 = True
        self._batch = options.batch
        self._dimensions = options.dimensions
        self._has_answered = False
        self._refusals = self._tokens = 0

    @property
    def model(self) -> str:
        """The model's name, with whatever else makes its vectors what they are."""
        asked = "" if self._options.dimensions is None else f"@{self._options.dimensions}"
        prefix = f"|{self._options.text_prefix}" if self._options.text_prefix else ""
        return self._options.model + asked + prefix

    @property
    def is_open(self) -> bool:
        """Say whether the breaker refuses calls at present."""
        return self._guard.is_open

    @property
    def usage(self) -> Usage:
        """What was asked and counted up to now; calls that were refused here count as failures."""
        return Usage(self._guard.calls, self._guard.failures, self._tokens, 0)

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """Return one vector of length 1 for each text within `timeout_s`, retries included.

        Raises EmbeddingFailed, and nothing else, whatever the server does; TextRefused where it is well otherwise.
        """
        if not texts:
            return []
        prefix = self._options.query_prefix if query else self._options.text_prefix
        sent = [prefix + text[: self._options.text_characters] for text in texts]
        try:
            async with self._guard.call(timeout_s) as deadline:
                return await self._in_batches(sent, deadline)
        except GuardedFailure as failure:
            # A server that has refused everything up to now is not well: its model is named wrongly, say.
            is_of_a_text = failure.is_of_the_request and self._has_answered
            failed = TextRefused if is_of_a_text else EmbeddingFailed
            raise failed(failure.reason, failure.detail) from failure

    async def _in_batches(self, texts: Sequence[str], deadline: float) -> list[Vector]:
        found: list[Vector] = []
        for batch in self._batches(texts):
            found += await self._embedded(batch, deadline)
        return found

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        start = characters = 0
        for at, text in enumerate(texts):
            characters += len(text)
            if at > start and (at - start >= self._batch or characters > self._options.batch_characters):
                yield texts[start:at]
                start, characters = at, len(text)
        yield texts[start:]

    async def _embedded(self, texts: Sequence[str], deadline: float) -> list[Vector]:
        try:
            return await self._asked(texts, deadline)
        except Refused as refusal:
            if not refusal.is_of_the_request or (len(texts) == 1 and len(texts[0]) <= _SHORTEST_CUT):
                raise
        self._refusals += 1
        if len(texts) == 1:
            return await self._embedded([texts[0][: len(texts[0]) // 2]], deadline)
        middle, refusals = (len(texts) + 1) // 2, self._refusals
        found = [*await self._embedded(texts[:middle], deadline), *await self._embedded(texts[middle:], deadline)]
        if self._refusals == refusals:
            # Not one of the texts was at fault: there were too many.
            self._batch = min(self._batch, middle)
        return found

    async def _asked(self, texts: Sequence[str], deadline: float) -> list[Vector]:
        try:
            answer = await self._endpoint.post(_PATH, self._request_body(texts), deadline)
        except Refused as refusal:
            if not (self._asks_base64 and _ABOUT_FORMAT.search(refusal.said)):
                raise
            self._asks_base64 = False
            answer = await self._endpoint.post(_PATH, self._request_body(texts), deadline)
        vectors = vectors_in(answer, len(texts))
        self._check_dimension(len(vectors[0]))
        self._has_answered = True
        self._tokens += _tokens_in(answer) or sum(estimated_tokens(text.encode("utf-8", "replace")) for text in texts)
        return vectors

    def _request_body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {"model": self._options.model, "input": texts}
        if self._asks_base64:
            # A quarter of the bytes, and no text to be read as numbers. Servers that do not know it send lists.
            body["encoding_format"] = "base64"
        if self._options.dimensions is not None:
            body["dimensions"] = self._options.dimensions
        try:
            return orjson.dumps(body)
        except TypeError:
            # Half of a surrogate pair: no JSON text can hold it, and it means nothing to a model.
            return orjson.dumps({**body, "input": [text.encode("utf-8", "replace").decode() for text in texts]})

    def _check_dimension(self, dimension: int) -> None:
        if self._dimensions is None:
            self._dimensions = dimension
        if dimension != self._dimensions:
            # Compared with vectors of another model they would mean nothing, and nobody would notice.
            raise Unusable(f"the server's embeddings have {dimension} dimensions in place of {self._dimensions}")


def _tokens_in(answer: dict[str, Any]) -> int:
    counts = answer.get("usage")
    count = counts.get("prompt_tokens") if isinstance(counts, dict) else None
    return count if type(count) is int and 0 <= count <= _MOST_TOKENS else 0
