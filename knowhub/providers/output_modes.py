"""Four ways to ask an OpenAI-compatible server for JSON, the strictest first."""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import orjson

from knowhub.core.language_models import ChatRequest, Message
from knowhub.providers.http import InvalidResponse, RequestRejected, UnusableAnswer
from knowhub.providers.json_answers import is_strict

_INSTRUCTION = (
    "Return one JSON object and nothing else: no prose before or after it, no code fence. It fits this JSON Schema:\n"
)
_REPAIR = (
    "That answer cannot be used: {problem}. Return the corrected JSON object and nothing else; "
    "it fits the JSON Schema of the instructions."
)
_SHOWN_CHARACTERS = 4000
_NAME_CHARACTERS = 64
_REFUSALS = frozenset({400, 404, 422, 501})
_ANY_PARAMETER = (
    r"(unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not implemented|extra)"
    r".{0,80}(param|argument|field|key|input|propert|feature)"
    r"|(param|argument|field|key|input|propert|feature)"
    r".{0,80}(unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not implemented)"
)
_FORMAT_REFUSED = re.compile(
    rf"response.?format|json.?schema|json.?object|json.?mode|structured|schema|grammar|guided|{_ANY_PARAMETER}",
    re.DOTALL,
)
_TOOL_REFUSED = re.compile(rf"tool|function|{_ANY_PARAMETER}", re.DOTALL)
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class OutputMode(IntEnum):
    """A way to ask; the strictest has the lowest number."""

    SCHEMA = 0
    OBJECT = 1
    TOOL = 2
    PROMPT = 3


def make_request_body(mode: OutputMode, model: str, question: ChatRequest, messages: Sequence[Message]) -> bytes:
    """Return the request that asks `question` on this mode, as JSON text."""
    name = _NOT_IN_NAME.sub("_", question.function)[:_NAME_CHARACTERS] or "answer"
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": False}
    match mode:
        case OutputMode.SCHEMA:
            asked = {"name": name, "schema": question.schema, "strict": is_strict(question.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": asked}
        case OutputMode.OBJECT:
            body["response_format"] = {"type": "json_object"}
        case OutputMode.TOOL:
            body["tools"] = [{"type": "function", "function": {"name": name, "parameters": question.schema}}]
            body["tool_choice"] = {"type": "function", "function": {"name": name}}
        case OutputMode.PROMPT:
            # Nothing is asked beside the words: every server takes this one.
            pass
    return orjson.dumps(body, default=dict)


def is_rejected(mode: OutputMode, refusal: RequestRejected) -> bool:
    """Return whether the server refused this way to ask, and not what was asked."""
    pattern = _TOOL_REFUSED if mode is OutputMode.TOOL else _FORMAT_REFUSED
    return refusal.status in _REFUSALS and pattern.search(refusal.said.lower()) is not None


def add_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Append the schema to the end of the system prompt, with the instruction to return JSON."""
    instruction = _INSTRUCTION + orjson.dumps(schema, default=dict).decode()
    for index, message in enumerate(messages):
        if message["role"] == "system":
            instructed = {**message, "content": f"{message['content']}\n\n{instruction}"}
            return [*messages[:index], instructed, *messages[index + 1 :]]
    return [{"role": "system", "content": instruction}, *messages]


def add_repair(messages: Sequence[Message], answer: str, problem: str) -> list[Message]:
    """Add the turn that shows the model its own answer, cut, and what is wrong with it."""
    shown = answer if len(answer) <= _SHOWN_CHARACTERS else answer[:_SHOWN_CHARACTERS] + "…"
    asked = _REPAIR.format(problem=problem)
    return [*messages, {"role": "assistant", "content": shown}, {"role": "user", "content": asked}]


def get_texts(mode: OutputMode, answer: Mapping[str, Any]) -> list[str]:
    """Return what the model wrote, one text or two: its words and the arguments of the tool that it called.

    The arguments come first in the mode of tools, and the words in the others. Raises UnusableAnswer if there is
    neither, and InvalidResponse if this is no answer of a model.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list):
        raise InvalidResponse("the server's answer holds no choices")
    # A server whose filter stopped the answer sends an empty list, or no message.
    first = choices[0] if choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    found = [_get_content(message.get("content")), _get_arguments(message)] if isinstance(message, Mapping) else []
    texts = [text for text in (reversed(found) if mode is OutputMode.TOOL else found) if text.strip()]
    if not texts:
        raise UnusableAnswer("the model answered with no text")
    return texts


def _get_content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        # Parsed already by a server that was asked for JSON.
        return orjson.dumps(content).decode()
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _get_arguments(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and calls else None
    # `function_call` is how servers said it before there were tools.
    function = call.get("function") if isinstance(call, Mapping) else message.get("function_call")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if isinstance(arguments, Mapping):
        return orjson.dumps(arguments).decode()
    return arguments if isinstance(arguments, str) else ""
