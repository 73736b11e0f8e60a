"""A model that gives the answers of a queue and records its questions."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from knowhub.core.language_models import ChatReply, ChatRequest

Answer: TypeAlias = object | Exception | Callable[[ChatRequest], object]
NEVER = object()
"""In a queue: this call is not answered at all."""


class QueuedChat:
    """Implements `ChatModel`, and breaks its promises where the queue says so: an answer may be any object.

    An exception is raised, a function, which may be async, is called with the question. Behind the end of the queue
    nothing is found.
    """

    model = "queued"

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self._answers = iter(answers)
        self.questions: list[ChatRequest] = []
        self.budgets: list[float] = []

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        self.questions.append(question)
        self.budgets.append(timeout_s)
        await asyncio.sleep(0)
        answer = next(self._answers, {"action": "missing", "reason": "queue exhausted"})
        if callable(answer):
            answer = answer(question)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is NEVER:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        data: Any = answer
        return ChatReply(data, self.model, 0.01, 12, 3)

    def read_prompt(self, number: int = -1) -> dict[str, Any]:
        """Return the JSON that the prompt of a call fenced."""
        return read_fenced(self.questions[number])

    def names(self, number: int = -1) -> list[str]:
        """Return the names of the candidates of a call, in their order."""
        return [candidate["name"] for candidate in self.read_prompt(number)["candidates"]]


def read_fenced(question: ChatRequest) -> dict[str, Any]:
    """Read the data of a prompt. Fails on a second fence and on text outside the fence."""
    before, opened, rest = question.messages[1]["content"].partition("<data>\n")
    data, closed, after = rest.partition("\n</data>")
    assert (before, opened, closed, after) == ("", "<data>\n", "\n</data>", "")
    assert "\n" not in data
    assert "<" not in data
    prompt: dict[str, Any] = json.loads(data)
    return prompt


def point_to(name: str, action: str = "match", **fields: object) -> Callable[[ChatRequest], object]:
    """Answer with the candidate of this name: `pointing("Python", "jump")`."""

    def answer(question: ChatRequest) -> object:
        idx = next(candidate["idx"] for candidate in read_fenced(question)["candidates"] if candidate["name"] == name)
        return {"action": action, "node_id": idx} | fields

    return answer


def point_to_all(
    names: Iterable[str], action: str = "match", field: str = "node_ids"
) -> Callable[[ChatRequest], object]:
    """Answer with several candidates by their names."""
    wanted = list(names)

    def answer(question: ChatRequest) -> object:
        by_name = {candidate["name"]: candidate["idx"] for candidate in read_fenced(question)["candidates"]}
        return {"action": action, field: [by_name[name] for name in wanted]}

    return answer


class RefilledQueueChat(QueuedChat):
    """Reads its script when it is asked; raises after the end of the script."""

    def __init__(self, script: list[Answer]) -> None:
        super().__init__(iter(lambda: script.pop(0) if script else RuntimeError("exhausted"), None))
