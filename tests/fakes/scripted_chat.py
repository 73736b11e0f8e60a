"""A language model that answers from a script; the script names candidates by their names."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core.language_models import ChatFailed, ChatReply, ChatRequest, FailureReason
from knowhub.providers.json_answers import SCHEMA_WORDS, find_mismatch, open_items

Answer: TypeAlias = Mapping[str, Any] | Exception | Callable[[ChatRequest], Mapping[str, Any]]
EXHAUSTED = {"action": "missing", "reason": "script exhausted"}
_EMPTY: Mapping[str, object] = {"null": None, "array": [], "string": "", "integer": 0, "boolean": False, "object": {}}


class ScriptedChat:
    """Gives `answers` in their order, then `EXHAUSTED`; `questions` are what it was asked, `model` is its name.

    An exception is raised as a ChatFailed: as it is, or TIMEOUT for a TimeoutError and FAILURE for any other. An
    answer that does not fit the question's schema fails as one does that a real model gives twice.
    """

    def __init__(self, answers: Iterable[Answer] = (), model: str = "scripted") -> None:
        self._answers = list(answers)
        self._model = model
        self.questions: list[ChatRequest] = []

    @property
    def model(self) -> str:
        return self._model

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        self.questions.append(question)
        if not timeout_s > 0:
            raise ChatFailed(FailureReason.TIMEOUT, "no time is left to ask the model")
        answer = self._answers.pop(0) if self._answers else answer_exhausted
        if isinstance(answer, ChatFailed):
            raise answer
        if isinstance(answer, Exception):
            reason = FailureReason.TIMEOUT if isinstance(answer, TimeoutError) else FailureReason.FAILURE
            raise ChatFailed(reason, f"{type(answer).__name__}: {answer}")
        data = answer(question) if callable(answer) else answer
        _check_words(question.schema)
        problem = find_mismatch(dict(data), open_items(question.schema))
        if problem:
            raise ChatFailed(FailureReason.FAILURE, f"the scripted answer does not fit: {problem}")
        return ChatReply(dict(data), self.model, 0.0, 100, 10)


def _check_words(schema: Mapping[str, Any]) -> None:
    """Fail for a prompt whose schema says what nothing checks."""
    assert schema.keys() <= SCHEMA_WORDS
    for part in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        _check_words(part)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line of the prompt, as the model sees it."""

    idx: int
    name: str
    path: str


def missing(name: str | None = None, reason: str = "") -> Callable[[ChatRequest], Mapping[str, Any]]:
    """Say that there is no such keyword, and suggest this name for it."""
    return lambda question: answer_missing(name, question.schema, reason)


def answer_exhausted(question: ChatRequest) -> Mapping[str, Any]:
    return fit_to_schema(EXHAUSTED, question.schema)


def choose(
    action: str, name: str, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any], reason: str
) -> dict[str, Any]:
    """Return the decision that points at this name by the number that the prompt gives it."""
    chosen = _number_of(name, candidates_in(messages))
    return fit_to_schema({"action": action, "reason": reason, "node_id": chosen}, schema)


def answer_missing(name: str | None, schema: Mapping[str, Any], reason: str) -> dict[str, Any]:
    suggested = {} if name is None else {"suggest_name": name}
    return fit_to_schema({"action": "missing", **suggested, "reason": reason}, schema)


def candidates_in(messages: Sequence[Mapping[str, str]]) -> list[Candidate]:
    """Find every JSON object with `idx` and `name` in the user messages."""
    found = []
    decoder = json.JSONDecoder()
    for text in (message["content"] for message in messages if message["role"] == "user"):
        at = text.find("{")
        while at >= 0:
            try:
                value, _ = decoder.raw_decode(text, at)
            except ValueError:
                value = None
            if isinstance(value, dict) and "idx" in value and "name" in value:
                found.append(Candidate(value["idx"], value["name"], _path(value.get("path", ""))))
            # One character further, not past the object: candidates may be nested in another object.
            at = text.find("{", at + 1)
    return found


def fit_to_schema(answer: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add empty values for missing fields of the schema; drop an empty reason that the schema does not have."""
    known = _properties(schema)
    fitting = {name: value for name, value in answer.items() if name in known or value != ""}
    lacking = {name: _empty(known.get(name, {})) for name in schema.get("required", ()) if name not in fitting}
    return {**fitting, **lacking}


def _number_of(name: str, candidates: Sequence[Candidate]) -> int:
    for candidate in candidates:
        if name in {candidate.name, candidate.path}:
            return candidate.idx
    raise AssertionError(f"{name!r} is not among the candidates {[candidate.name for candidate in candidates]}")


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    return properties


def _path(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def _empty(schema: Mapping[str, Any]) -> object:
    if schema.get("enum"):
        return None if None in schema["enum"] else schema["enum"][0]
    types = schema.get("type", "null")
    named = [types] if isinstance(types, str) else types
    return _EMPTY["null"] if "null" in named else _EMPTY.get(named[0])
