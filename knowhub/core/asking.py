"""The calls that make up one decision: they share a deadline, and each is kept as the log shows it (KT-251)."""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from knowhub.core.chat import ChatFailed, ChatModel, FailureReason, Question, Reply
from knowhub.core.choices import short_text
from knowhub.core.operation import Row

MAX_RECORDED_TEXT = 4_000
MAX_RECORDED_VALUES = 2_000
MAX_RECORDED_CHARS = 65_536
_MAX_RECORDED_DEPTH = 8
_MAX_DETAIL = 500
_BIGGEST_INT = 2**63

AnswerT = TypeVar("AnswerT")


class Asking:
    """One decision's talk with a model. `calls` are its calls so far, one JSON object each, failed ones too."""

    def __init__(self, chat: ChatModel, budget_s: float) -> None:
        self._chat = chat
        self._budget_s = budget_s
        self._deadline = asyncio.get_running_loop().time() + budget_s
        self.calls: list[Row] = []

    @property
    def model(self) -> str:
        """The name of the model that is asked."""
        return self._chat.model

    async def ask(
        self, question: Question, choices: Mapping[str, str], read: Callable[[Mapping[str, Any]], AnswerT | None]
    ) -> AnswerT:
        """Ask within what is left of the budget and return the answer as `read` understands it.

        `choices` says what each idx of the prompt stands for. Raises ChatFailed, and nothing else: a budget that
        is spent or a call that is late is a TIMEOUT, an answer that `read` returns None for, or stumbles over, is a
        FAILURE. So whatever is taken out of an answer is to be taken within `read`.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        if self._deadline <= started:
            raise ChatFailed(FailureReason.TIMEOUT, f"the budget of {self._budget_s:g} s is spent")
        try:
            reply = await self._reply(question)
        except ChatFailed as failed:
            self._note(question, choices, failed, loop.time() - started)
            raise
        answer = _understood(reply.data, read)
        if answer is None:
            unusable = ChatFailed(FailureReason.FAILURE, f"the answer is none that {question.function} can have")
            self._note(question, choices, unusable, loop.time() - started, reply)
            raise unusable
        self._note(question, choices, None, loop.time() - started, reply)
        return answer

    async def _reply(self, question: Question) -> Reply:
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._deadline):
                reply: object = await self._chat.chat(question, left)
        except ChatFailed:
            raise
        except TimeoutError as late:
            raise ChatFailed(FailureReason.TIMEOUT, f"no answer within {left:.1f} s") from late
        except Exception as broken:  # the port promises ChatFailed only; a caller's own client need not keep that
            raise ChatFailed(FailureReason.FAILURE, _named(broken)) from broken
        if not isinstance(reply, Reply):
            raise ChatFailed(FailureReason.FAILURE, f"the model's client returned a {type(reply).__name__}")
        return reply

    def _note(
        self,
        question: Question,
        choices: Mapping[str, str],
        failed: ChatFailed | None,
        seconds: float,
        reply: Reply | None = None,
    ) -> None:
        self.calls.append(
            {
                "function": question.function,
                "model": short_text(reply.model if reply is not None else self._chat.model, _MAX_DETAIL),
                "messages": [dict(message) for message in question.messages],
                "output": None if reply is None else recordable(reply.data),
                "failure": None if failed is None else failed.reason.value,
                "detail": "" if failed is None else short_text(failed.detail, _MAX_DETAIL),
                "prompt_tokens": None if reply is None else recordable(reply.prompt_tokens),
                "completion_tokens": None if reply is None else recordable(reply.completion_tokens),
                "seconds": round(seconds, 3),
                "choices": dict(choices),
            }
        )


def recordable(value: object) -> Any:  # noqa: ANN401 -- any JSON
    """Return what of a model's answer the log can hold: JSON of bounded depth and size.

    What is over a bound, or is not JSON, is replaced by a word about it, so that no answer breaks a log line.
    """
    try:
        return _Recording().copy(value, 0)
    except Exception:  # noqa: BLE001 -- a mapping of a caller's own client may raise anything where it is read
        return f"a {type(value).__name__} that cannot be read"


def _understood(data: object, read: Callable[[Mapping[str, Any]], AnswerT | None]) -> AnswerT | None:
    try:
        return read(data) if isinstance(data, Mapping) else None
    except Exception:  # noqa: BLE001 -- what reading an answer raises is the answer's fault, whatever it is
        return None


def _named(broken: Exception) -> str:
    name = type(broken).__name__
    try:
        return f"{name}: {broken}"
    except Exception:  # noqa: BLE001 -- an error of a caller's own client need not even have a text
        return name


class _Recording:
    def __init__(self) -> None:
        self._left = MAX_RECORDED_VALUES
        self._chars_left = MAX_RECORDED_CHARS

    def copy(self, value: object, depth: int) -> Any:  # noqa: ANN401 -- any JSON
        self._left -= 1
        if isinstance(value, Mapping | list | tuple):
            return self._many(value, depth)
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if abs(value) < _BIGGEST_INT else f"an int of {value.bit_length()} bits"
        return float(value) if isinstance(value, float) and math.isfinite(value) else f"a {type(value).__name__}"

    def _many(self, value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:  # noqa: ANN401 -- any JSON
        if depth == _MAX_RECORDED_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return self._object(value, depth + 1)
        return self._array(value, depth + 1)

    def _text(self, value: str) -> str:
        kept = value[: min(MAX_RECORDED_TEXT, self._chars_left)]
        self._chars_left -= len(kept)
        # A lone half of a surrogate pair is text that no file can hold.
        return kept.encode("utf-8", "replace").decode()

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, one in value.items():
            if self._left <= 0:
                copied["…"] = "…"
                break
            copied[str(self.copy(key, _MAX_RECORDED_DEPTH))] = self.copy(one, depth)
        return copied

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        copied: list[Any] = []
        for one in value:
            if self._left <= 0:
                copied.append("…")
                break
            copied.append(self.copy(one, depth))
        return copied
