"""What is said to a language model and what it answers; the models themselves are adapters (seed 000 §5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, runtime_checkable

Message: TypeAlias = Mapping[str, str]
"""`{"role": "system" | "user" | "assistant", "content": "…"}`, as OpenAI's interface has it."""


class FailureReason(StrEnum):
    """Why a model gave no usable answer, in the words of seed 000 §6.2."""

    FAILURE = "agent_failure"
    TIMEOUT = "agent_timeout"


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a model: `function` names what is asked, `schema` is the JSON Schema that the answer fits."""

    function: str
    messages: Sequence[Message]
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
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


class ChatFailed(Exception):
    """The model gave no answer that fits: it is down, late, over its budget, or it answered something else."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class NotAsked(ChatFailed):
    """The model was never asked: nothing was sent, so that this says nothing about what it would answer."""


class ChatModel(Protocol):
    """A language model that answers in JSON (KT-100…103)."""

    @property
    def model(self) -> str:
        """The name under which its decisions are recorded."""

    async def chat(self, question: Question, timeout_s: float) -> Reply:
        """Ask, and return an answer that fits the question's schema within `timeout_s`, retries included.

        Raises ChatFailed, and nothing else, whatever the model or its server does.
        """


@runtime_checkable
class CountedChatModel(ChatModel, Protocol):
    """A model that tells what it was asked and whether it is left alone at present; not every one does."""

    @property
    def is_open(self) -> bool:
        """Whether calls are refused without asking, because the model has failed again and again."""

    @property
    def usage(self) -> Usage:
        """What was asked up to now; calls that were refused without asking count as failures."""
