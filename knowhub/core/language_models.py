"""Language models, embedders and rerankers: the protocols that adapters in `providers` implement."""

import asyncio
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

Message: TypeAlias = Mapping[str, str]
"""`{"role": "system" | "user" | "assistant", "content": "…"}`, as OpenAI's interface has it."""


class FailureReason(StrEnum):
    """Why a model gave no usable answer, as answers name it."""

    FAILURE = "agent_failure"
    TIMEOUT = "agent_timeout"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call of a model: `function` names what is asked, `schema` is the JSON Schema that the answer fits."""

    function: str
    messages: Sequence[Message]
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's answer, parsed and fitting the schema. Tokens are None where the server does not count them."""

    data: Mapping[str, Any]
    model: str
    seconds: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What was asked since the start. Tokens are the server's count, or an estimate where it gives none."""

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@runtime_checkable
class CountedModel(Protocol):
    """A model that tells what it was asked, and whether it is asked at present; not every one does."""

    @property
    def is_open(self) -> bool:
        """Whether calls are refused without asking, because the model has failed again and again."""

    @property
    def usage(self) -> Usage:
        """What was asked up to now; calls that were refused without asking count as failures."""


def get_counted(model: object) -> CountedModel | None:
    """Return a model if it counts its calls; None for any other, and for none."""
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
    """The model answered, or refused to, and asked the same again it would: the fault is in what is asked."""


class ModelUnavailable(ChatFailed):
    """The model was never asked: nothing was sent, so that this says nothing about what it would answer."""


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
    """The embedder is well and does not want one of these texts: asked again it says the same, others may go well."""


class Embedder(Protocol):
    """A model that gives every text its place among the meanings."""

    @property
    def model(self) -> str:
        """The name under which its vectors are kept: those of another name are not to be compared with them."""

    async def embed(self, texts: Sequence[str], timeout_s: float, *, query: bool = False) -> Sequence[Vector]:
        """Return one vector for each text, in their order, within `timeout_s`, retries included.

        All have one dimension and length 1, so that their product is their likeness; one of a text without meaning may
        be all zeros. A `query` may be read otherwise than what is to be found by it. Raises EmbeddingFailed, and
        nothing else, whatever the model or its server does.
        """


class RerankFailed(ModelFailed):
    """The reranker gave no usable scores."""


class Reranker(Protocol):
    """A model that scores texts by how well they answer a query."""

    @property
    def model(self) -> str:
        """Its name, for whoever wants to know why an order is as it is."""

    async def rerank(self, query: str, texts: Sequence[str], timeout_s: float) -> Sequence[float]:
        """Return one score for each text, in their order, within `timeout_s`, retries included; more is better.

        Scores compare the texts of one call, and nothing else: their scale is the model's own. Raises RerankFailed,
        and nothing else, whatever the model or its server does.
        """


async def rank_texts(
    reranker: Reranker, query: str, texts: Sequence[str], budget_s: float
) -> list[tuple[int, float]] | None:
    """Return the place of each text with its score, the best first; None where the reranker fails.

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
