"""The language model of a caller in the same process."""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from knowhub.core.language_models import ChatFailed, ChatReply, ChatRequest, FailureReason
from knowhub.providers.output_modes import add_schema

MAX_STUCK: Final = 8


class LLMClient(ABC):
    """A language model that answers in JSON. Any object with this method will do."""

    @abstractmethod
    def Chat(self, messages: list[dict[str, str]], json_schema: dict[str, Any]) -> dict[str, Any]:
        """Answer OpenAI-style messages with an object that fits the schema.

        The system message also ends with the schema. If this raises, a search answers `not_found` with the reason
        `agent_timeout` for a TimeoutError, and `agent_failure` for any other error.
        """


class StubLLMClient(LLMClient):
    """A client for tests that gives prepared answers in order.

    A decision is an object to answer with, an exception to raise, or a function of the messages. `calls` has the
    messages and the schema of every call. Without a decision left it answers that the keyword is missing.
    """

    def __init__(self, decisions: Sequence[Any] = ()) -> None:
        self._decisions = list(decisions)
        self.calls: list[tuple[list[dict[str, str]], dict[str, Any]]] = []

    def decide(self, decisions: Sequence[Any]) -> None:
        """Add decisions after those that are left."""
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
    """A ChatModel that calls the client of the caller in a thread.

    A call that is not awaited any more cannot be stopped. While MAX_STUCK of them still run, the client is not called:
    then a search fails at once, and no thread is added.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._stuck = 0

    @property
    def model(self) -> str:
        """The `model` of the client, or the name of its class."""
        kind = type(self._client).__name__
        try:
            return str(getattr(self._client, "model", kind))
        except BaseException:  # noqa: BLE001 -- the caller's own code may raise anything
            return kind

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        """Ask; see `core.language_models.ChatModel`."""
        if self._stuck >= MAX_STUCK:
            raise ChatFailed(FailureReason.FAILURE, f"{self._stuck} calls are still waiting for an answer")
        loop = asyncio.get_running_loop()
        started = loop.time()
        # Copies: a client that changes them must not change the next call or the log.
        messages = [dict(message) for message in add_schema(question.messages, question.schema)]
        schema = deepcopy(dict(question.schema))
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._run_in_thread(lambda: self._client.Chat(messages, schema))
        except TimeoutError as error:
            raise ChatFailed(FailureReason.TIMEOUT, f"no answer in {timeout_s:g} s") from error
        if isinstance(answer, ChatFailed):
            raise answer
        if not isinstance(answer, Mapping):
            raise ChatFailed(FailureReason.FAILURE, f"the answer must be an object, not {type(answer).__name__}")
        return ChatReply(answer, self.model, loop.time() - started)

    async def _run_in_thread(self, work: Callable[[], Any]) -> Any:
        """Run `work` in a daemon thread: a client that never answers must not keep the process alive."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Any] = loop.create_future()

        def settle(answer: Any) -> None:
            if waiting.cancelled():
                self._stuck -= 1
            else:
                waiting.set_result(answer)

        def run() -> None:
            answer = _call_client(work)
            # The loop is closed if the tree was closed meanwhile: then nobody needs the answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, answer)

        try:
            threading.Thread(target=run, name="llm-client", daemon=True).start()
        except RuntimeError as error:
            raise ChatFailed(FailureReason.FAILURE, str(error)) from error
        try:
            return await waiting
        finally:
            if waiting.cancelled():
                self._stuck += 1


def _call_client(work: Callable[[], Any]) -> Any:
    """Return the answer, or a ChatFailed with the text of an error, whose traceback would keep its frames alive."""
    try:
        answer = work()
        # Reading an object of the client may take long: read it here, and not on the loop.
        return dict(answer) if isinstance(answer, Mapping) else answer
    except TimeoutError as error:
        return ChatFailed(FailureReason.TIMEOUT, _describe(error))
    except BaseException as error:  # noqa: BLE001 -- the caller's own code may raise anything, and the tree goes on
        return ChatFailed(FailureReason.FAILURE, _describe(error))


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 -- an exception of the caller that cannot be shown
        return type(error).__name__
