"""The model that a caller in the same process brings along (seed 000 §5)."""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from knowhub.core.chat import ChatFailed, FailureReason, Question, Reply
from knowhub.providers.rungs import with_schema

MAX_STUCK: Final = 8


class LLMClient(ABC):
    """A language model that answers in JSON; any object with this method will do (KT-100…103)."""

    @abstractmethod
    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> dict[str, Any]:
        """Answer OpenAI-style messages with an object that fits the schema.

        The schema stands at the end of the system message too. Whatever is raised makes a search answer `not_found`,
        with the reason `agent_timeout` for a TimeoutError and `agent_failure` for all else.
        """


class StubLLMClient(LLMClient):
    """Answers with what it was given, in order, for tests (KT-104…106).

    A decision is an object to answer with, an exception to raise, or a function of the messages. `calls` holds the
    messages and the schema of every call. With no decision left it answers that the keyword is missing.
    """

    def __init__(self, decisions: Sequence[Any] = ()) -> None:
        self._decisions = list(decisions)
        self.calls: list[tuple[list[dict[str, str]], dict[str, Any]]] = []

    def decide(self, decisions: Sequence[Any]) -> None:
        """Put more decisions behind those that are left."""
        self._decisions += decisions

    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> dict[str, Any]:
        """Return the next decision."""
        self.calls.append((messages, json_schema))
        if not self._decisions:
            return {"action": "missing", "reason": "stub exhausted"}
        decision = self._decisions.pop(0)
        if isinstance(decision, BaseException) or (isinstance(decision, type) and issubclass(decision, BaseException)):
            raise decision
        answer: dict[str, Any] = decision(messages) if callable(decision) else decision
        return answer


class InjectedModel:
    """Asks a caller's client in a thread of its own, as a ChatModel.

    A call that nobody waits for any more cannot be ended. While MAX_STUCK of them have not returned, the client is
    not asked: a search then fails at once, and no thread is added.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._stuck = 0

    @property
    def model(self) -> str:
        """The client's `model`, else the name of its class."""
        kind = type(self._client).__name__
        try:
            return str(getattr(self._client, "model", kind))
        except BaseException:  # noqa: BLE001 -- the caller's own code, as `Chat` is
            return kind

    async def chat(self, question: Question, timeout_s: float) -> Reply:
        """Ask; see `core.chat.ChatModel`."""
        if self._stuck >= MAX_STUCK:
            raise ChatFailed(FailureReason.FAILURE, f"{self._stuck} calls are still waiting for an answer")
        loop = asyncio.get_running_loop()
        started = loop.time()
        # The client's own: what it does to them must not reach the next call, nor the log.
        messages = [dict(message) for message in with_schema(question.messages, question.schema)]
        schema = deepcopy(dict(question.schema))
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._in_a_thread(lambda: self._client.Chat(messages, schema))
        except TimeoutError as problem:
            raise ChatFailed(FailureReason.TIMEOUT, f"no answer in {timeout_s:g} s") from problem
        if isinstance(answer, _Raised):
            raise ChatFailed(answer.reason, answer.detail)
        if not isinstance(answer, Mapping):
            raise ChatFailed(FailureReason.FAILURE, f"the answer is no object but {type(answer).__name__}")
        return Reply(answer, self.model, loop.time() - started)

    async def _in_a_thread(self, work: Callable[[], Any]) -> Any:
        """Run `work` in a daemon thread: a client that never answers must not keep the process from ending."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Any] = loop.create_future()

        def settle(answer: Any) -> None:
            if waiting.cancelled():
                self._stuck -= 1
            else:
                waiting.set_result(answer)

        def run() -> None:
            answer = _answer_of(work)
            # A loop that is closed has no use for it: the tree was closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, answer)

        try:
            threading.Thread(target=run, name="llm-client", daemon=True).start()
        except RuntimeError as problem:
            raise ChatFailed(FailureReason.FAILURE, str(problem)) from problem
        try:
            return await waiting
        finally:
            if waiting.cancelled():
                self._stuck += 1


@dataclass(frozen=True, slots=True)
class _Raised:
    """What a client raised, in words: the exception itself leads to frames that would live as long as it."""

    reason: FailureReason
    detail: str


def _answer_of(work: Callable[[], Any]) -> Any:
    try:
        answer = work()
        # An object of the client's own may take as long to be read as it likes: it is read here, and not on the loop.
        return dict(answer) if isinstance(answer, Mapping) else answer
    except TimeoutError as problem:
        return _Raised(FailureReason.TIMEOUT, _in_words(problem))
    except BaseException as problem:  # noqa: BLE001 -- the caller's own code: whatever it raises, the tree goes on
        return _Raised(FailureReason.FAILURE, _in_words(problem))


def _in_words(problem: BaseException) -> str:
    try:
        return f"{type(problem).__name__}: {problem}"
    except Exception:  # noqa: BLE001 -- an exception of the caller's own that cannot even be shown
        return type(problem).__name__
