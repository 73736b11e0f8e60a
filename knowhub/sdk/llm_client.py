"""The model that a caller in the same process brings along (seed 000 §5)."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knowhub.core.chat import ChatFailed, FailureReason, Question, Reply
from knowhub.providers.rungs import with_schema


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
    """Asks a caller's client in a thread of its own, as a ChatModel."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def model(self) -> str:
        """The client's `model`, else the name of its class."""
        return str(getattr(self._client, "model", type(self._client).__name__))

    async def chat(self, question: Question, timeout_s: float) -> Reply:
        """Ask; see `core.chat.ChatModel`."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        messages = [dict(message) for message in with_schema(question.messages, question.schema)]
        try:
            async with asyncio.timeout(timeout_s):
                answer = await _in_a_thread(lambda: self._client.Chat(messages, dict(question.schema)))
        except TimeoutError as problem:
            raise ChatFailed(FailureReason.TIMEOUT, str(problem) or f"no answer in {timeout_s:g} s") from problem
        except Exception as problem:
            # The client is the caller's own code: whatever it raises, a search goes on without it.
            raise ChatFailed(FailureReason.FAILURE, f"{type(problem).__name__}: {problem}") from problem
        if not isinstance(answer, Mapping):
            raise ChatFailed(FailureReason.FAILURE, f"the answer is no object but {type(answer).__name__}")
        return Reply(answer, self.model, loop.time() - started)


async def _in_a_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in a daemon thread: a client that never answers must not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(answer: Any, problem: Exception | None) -> None:
        if future.done():
            # Nobody waits any more.
            return
        if problem is None:
            future.set_result(answer)
        else:
            future.set_exception(problem)

    def run() -> None:
        answer, problem = None, None
        try:
            answer = work()
        except Exception as raised:  # noqa: BLE001 -- it is raised again where it is waited for
            problem = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, answer, problem)

    threading.Thread(target=run, name="llm-client", daemon=True).start()
    return await future
