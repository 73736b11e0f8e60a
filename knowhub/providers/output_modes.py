"""Three ways to ask an OpenAI-compatible server for JSON, the strictest first."""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import orjson

from knowhub.core.language_models import ChatRequest, Message
from knowhub.providers.http import InvalidResponse, RequestRejected
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
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class OutputMode(IntEnum):
    """A way to ask; the strictest has the lowest number."""

    SCHEMA = 0
    OBJECT = 1
    PROMPT = 2


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
        case OutputMode.PROMPT:
            # Nothing is asked beside the words: every server takes this one.
            pass
    return orjson.dumps(body, default=dict)


def is_rejected(refusal: RequestRejected) -> bool:
    """Say whether the server refused the way to ask, and not what was asked."""
    return refusal.status in _REFUSALS and _FORMAT_REFUSED.search(refusal.said.lower()) is not None


def add_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Append the schema to the end of the system prompt, with the instruction to return JSON."""
    instruction = _INSTRUCTION + orjson.dumps(schema, default=dict).decode()
    for index, message in enumerate(messages):
        if message["role"] == "system":
            told = {**message, "content": f"{message['content']}\n\n{instruction}"}
            return [*messages[:index], told, *messages[index + 1 :]]
    return [{"role": "system", "content": instruction}, *messages]


def add_repair(messages: Sequence[Message], answer: str, problem: str) -> list[Message]:
    """Add the turn that shows the model its own answer, cut, and what is wrong with it."""
    shown = answer if len(answer) <= _SHOWN_CHARACTERS else answer[:_SHOWN_CHARACTERS] + "…"
    asked = _REPAIR.format(problem=problem)
    return [*messages, {"role": "assistant", "content": shown}, {"role": "user", "content": asked}]


def get_text(answer: Mapping[str, Any]) -> str:
    """Return what the model wrote. Raises InvalidResponse if there is no text."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(message, Mapping):
        raise InvalidResponse("the server's answer holds no choice with a message")
    text = _content_text(message.get("content"))
    if not text.strip():
        raise InvalidResponse("the model answered with no text")
    return text


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        # Parsed already by a server that was asked for JSON.
        return orjson.dumps(content).decode()
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))
