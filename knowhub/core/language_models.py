"""Language models, embedders and rerankers: the protocols that adapters in `providers` implement."""

import asyncio
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

Message: TypeAlias = Mapping[str, str]
"""`{"role": "system" | "user" | "assistant", "content": "…"}`, as in OpenAI's API."""


class FailureReason(StrEnum):
    """Why a model gave no usable answer, as answers name it."""

    FAILURE = "agent_failure"
    TIMEOUT = "agent_timeout"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call of a model: `function` names what is asked, `schema` is the JSON Schema of the answer."""

    function: str
    messages: Sequence[Message]
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's answer, parsed and valid by the schema. Tokens are None if the server does not count them."""

    data: Mapping[str, Any]
    model: str
    seconds: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls since the start. Tokens are the server's count, or an estimate where it gives none."""

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@runtime_checkable
class CountedModel(Protocol):
    """A model that counts its calls and has a circuit breaker."""

    @property
    def is_open(self) -> bool:
        """Whether the circuit breaker is open: calls fail at once, because the model has failed repeatedly."""

    @property
    def usage(self) -> Usage:
        """The calls so far; those that the circuit breaker refused count as failures."""


def get_counted(model: object) -> CountedModel | None:
    """Return a model if it counts its calls, else None."""
    return model if isinstance(model, CountedModel) else None


class ModelFailed(Exception):
    """A model gave no usable answer: it is down, late, over its budget, or it answered something else."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class ChatFailed(ModelFailed):
    """The language model gave no answer that fits."""


class AnswerRejected(ChatFailed):
    """The model rejects this question, or answers it uselessly. It would do so again: the question is at fault."""


class ModelUnavailable(ChatFailed):
    """The question was not sent to the model."""


class ChatModel(Protocol):
    """A language model that answers in JSON."""

    @property
    def model(self) -> str:
        """The name under which its decisions are recorded."""

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        """Ask, and return an answer that fits the question's schema within `timeout_s`, retries included.

        Raises ChatFailed, and nothing else, whatever the model or its server does.
        """


# In quotes: `array` can be subscripted at run time from Python 3.12 on.
Vector: TypeAlias = "array[float]"
"""32-bit floats (typecode "f"), as many as the model has dimensions."""


class EmbeddingFailed(ModelFailed):
    """The embedder gave no usable vectors."""


class TextRefused(EmbeddingFailed):
    """The embedder works, but rejects one of these texts. It would reject it again; other texts may succeed."""


class Embedder(Protocol):
    """A model that turns texts into vectors; texts of similar meaning get similar vectors."""

    @property
    def model(self) -> str:
        """The name under which its vectors are stored. Vectors of different names must not be compared."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """Return one vector for each text, in their order, within `timeout_s`, retries included.

        All have the same dimensions and length 1, so that their dot product is their cosine similarity. The vector of a
        text without meaning may be all zeros. A `query` may be embedded in another way than a stored text. Raises
        EmbeddingFailed, and nothing else, whatever the model or its server does.
        """


class RerankFailed(ModelFailed):
    """The reranker gave no usable scores."""


class Reranker(Protocol):
    """A model that scores texts by how well they answer a query."""

    @property
    def model(self) -> str:
        """Its name, which explains an order to readers."""

    async def rerank(self, query: str, texts: Sequence[str], timeout_s: float) -> Sequence[float]:
        """Return one score for each text, in their order, within `timeout_s`, retries included; more is better.

        Scores compare the texts of one call, and nothing else: their scale is the model's own. Raises RerankFailed,
        and nothing else, whatever the model or its server does.
        """


async def rank_texts(
    reranker: Reranker, query: str, texts: Sequence[str], budget_s: float
) -> list[tuple[int, float]] | None:
    """Return the index of each text with its score, best first; None if the reranker fails.

    Equal scores keep the order in which the texts came.
    """
    try:
        async with asyncio.timeout(budget_s):
            scores = await reranker.rerank(query, texts, budget_s)
    except (RerankFailed, TimeoutError):
        return None
    if len(scores) != len(texts) or not all(map(math.isfinite, scores)):
        return None
    return sorted(enumerate(scores), key=lambda pair: -pair[1])
