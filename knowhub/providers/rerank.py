"""A reranker behind a server with `/rerank`, of Cohere's shape or of TEI's (`core.language_models.Reranker`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx
import orjson

from knowhub.core.language_models import RerankFailed
from knowhub.providers.breaker import GuardedClient
from knowhub.providers.embeddings import read_parts
from knowhub.providers.http import (
    EndpointOptions,
    InvalidResponse,
    RequestRejected,
    RequestTiming,
    estimate_request_tokens,
)

DEFAULT_MODEL = "rerank-v3.5"
_PATH = "/rerank"
# How many texts Hugging Face's server takes at a time unless it was started otherwise; scores do not depend on it.
_TEI_BATCH = 32
# A server of the other shape misses its fields: what it says then differs, and that it refuses does not.
_OF_ANOTHER_SHAPE = frozenset({400, 404, 415, 422})


class RerankStyle(StrEnum):
    """How a server wants to be asked; AUTO tries Cohere's shape, then TEI's, and keeps what worked."""

    AUTO = "auto"
    COHERE = "cohere"
    TEI = "tei"


@dataclass(frozen=True, slots=True)
class RerankOptions(EndpointOptions):
    """Where the reranker is and how it is asked; lengths are characters."""

    attempt_timeout_s: float = 10.0
    max_attempts: int = 2
    max_answer_bytes: int = 16 * 1024 * 1024
    model: str = DEFAULT_MODEL
    style: RerankStyle = RerankStyle.AUTO
    text_characters: int = 4000


class RerankClient(GuardedClient):
    """Asks one server over `http`, which its maker closes. Raises ValueError for an address or key of no use."""

    peer, error_type, unavailable_type = "reranker", RerankFailed, RerankFailed

    def __init__(self, options: RerankOptions, http: httpx.AsyncClient, timing: RequestTiming) -> None:
        self._options = options
        super().__init__(options, http, timing)
        self._style = options.style

    @property
    def model(self) -> str:
        """Its name, as the server has it."""
        return self._options.model

    async def rerank(self, query: str, texts: Sequence[str], timeout_s: float) -> Sequence[float]:
        """Return one score for each text within `timeout_s`, retries included; more is better.

        Raises RerankFailed, and nothing else, whatever the server does.
        """
        if not texts:
            return []
        cut = [text[: self._options.text_characters] for text in (query, *texts)]
        async with self._call(timeout_s) as deadline:
            asked, *sent = await self._redact(cut)
            return await self._request_scores(asked, sent, deadline)

    async def _request_scores(self, query: str, texts: Sequence[str], deadline: float) -> list[float]:
        style = RerankStyle.COHERE if self._style is RerankStyle.AUTO else self._style
        try:
            scores = await self._try_style(style, query, texts, deadline)
        except RequestRejected as refusal:
            if self._style is not RerankStyle.AUTO or refusal.status not in _OF_ANOTHER_SHAPE:
                raise
            style = RerankStyle.TEI
            scores = await self._try_style(style, query, texts, deadline)
        self._style = style
        return scores

    async def _try_style(self, style: RerankStyle, query: str, texts: Sequence[str], deadline: float) -> list[float]:
        batch = _TEI_BATCH if style is RerankStyle.TEI else len(texts)
        scores: list[float] = []
        for start in range(0, len(texts), batch):
            some = texts[start : start + batch]
            body = orjson.dumps(self._make_request(style, query, some))
            scores += _parse_scores(await self._endpoint.post_for_any(_PATH, body, deadline), len(some))
            self._prompt_tokens += estimate_request_tokens(body)
        return scores

    def _make_request(self, style: RerankStyle, query: str, texts: Sequence[str]) -> dict[str, Any]:
        if style is RerankStyle.TEI:
            return {"query": query, "texts": texts, "truncate": True}
        # All of them: without `top_n` some servers score a few.
        return {"model": self._options.model, "query": query, "documents": texts, "top_n": len(texts)}


def _parse_scores(answer: dict[str, Any] | list[Any], count: int) -> list[float]:
    """Read `{"results": [{"index", "relevance_score"}]}` or `[{"index", "score"}]`, whatever was asked for."""
    # Voyage's server says `data` where the others say `results`.
    results = (answer.get("results") or answer.get("data")) if isinstance(answer, dict) else answer
    scores = [part.get("relevance_score", part.get("score")) for part in read_parts(results, count, "scores")]
    numbers = [float(score) for score in scores if isinstance(score, int | float) and not isinstance(score, bool)]
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise InvalidResponse("a score in the server's answer is no number")
    return numbers
