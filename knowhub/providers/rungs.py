"""The ladder for JSON output: four ways to ask an OpenAI-compatible server for it, the strictest first."""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import orjson

from knowhub.core.chat import Message, Question
from knowhub.providers.http import Refused, Unusable
from knowhub.providers.json_schema import is_strict

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
_OF_FORMAT = r"response.?format|json.?schema|json.?object|json.?mode|structured|schema|grammar|guided"
_OF_TOOL = r"tool|function"


class Rung(IntEnum):
    """A way to ask; the number is its place on the ladder."""

    SCHEMA = 0
    OBJECT = 1
    TOOL = 2
    PROMPT = 3


def request_body(rung: Rung, model: str, question: Question, messages: Sequence[Message]) -> bytes:
    """Return the request that asks `question` on this rung, as JSON text."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", question.function)[:_NAME_CHARACTERS] or "answer"
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": False}
    match rung:
        case Rung.SCHEMA:
            asked = {"name": name, "schema": question.schema, "strict": is_strict(question.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": asked}
        case Rung.OBJECT:
            body["response_format"] = {"type": "json_object"}
        case Rung.TOOL:
            body["tools"] = [{"type": "function", "function": {"name": name, "parameters": question.schema}}]
            body["tool_choice"] = {"type": "function", "function": {"name": name}}
        case Rung.PROMPT:
            # Nothing is asked beside the words: every server takes this one.
            pass
    try:
        return orjson.dumps(body, default=dict)
    except TypeError:
        # Half of a surrogate pair: no JSON text can hold it, and it means nothing to a model.
        body["messages"] = [
            {name: text.encode("utf-8", "replace").decode() for name, text in one.items()} for one in messages
        ]
        return orjson.dumps(body, default=dict)


def refuses(rung: Rung, refusal: Refused) -> bool:
    """Say whether the server refused this way to ask, and not what was asked."""
    words = _OF_TOOL if rung is Rung.TOOL else _OF_FORMAT
    said = refusal.said.lower()
    return refusal.status in _REFUSALS and re.search(f"{words}|{_ANY_PARAMETER}", said, re.DOTALL) is not None


def with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Append the schema to the end of the system prompt, with the instruction to return JSON (KT-102)."""
    instruction = _INSTRUCTION + orjson.dumps(schema, default=dict).decode()
    for index, one in enumerate(messages):
        if one["role"] == "system":
            told = {**one, "content": f"{one['content']}\n\n{instruction}"}
            return [*messages[:index], told, *messages[index + 1 :]]
    return [{"role": "system", "content": instruction}, *messages]


def with_repair(messages: Sequence[Message], answer: str, problem: str) -> list[Message]:
    """Add the turn that shows the model its own answer, cut, and what is wrong with it."""
    shown = answer if len(answer) <= _SHOWN_CHARACTERS else answer[:_SHOWN_CHARACTERS] + "…"
    asked = _REPAIR.format(problem=problem)
    return [*messages, {"role": "assistant", "content": shown}, {"role": "user", "content": asked}]


def texts_of(rung: Rung, answer: Mapping[str, Any]) -> list[str]:
    """Return what the model wrote, one text or two: its words and the arguments of the tool that it called.

    First comes where this rung asks for the answer: on that of tools the arguments, since words beside a call are
    mere company, elsewhere the words. Raises Unusable when there is neither.
    """
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(message, Mapping):
        raise Unusable("the server's answer holds no choice with a message")
    found = [_content_text(message.get("content")), _arguments(message)]
    texts = [text for text in (reversed(found) if rung is Rung.TOOL else found) if text.strip()]
    if not texts:
        raise Unusable("the model answered with no text")
    return texts


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        # Parsed already by a server that was asked for JSON.
        return orjson.dumps(content).decode()
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _arguments(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and calls else None
    # `function_call` is how servers said it before there were tools.
    function = call.get("function") if isinstance(call, Mapping) else message.get("function_call")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if isinstance(arguments, Mapping):
        return orjson.dumps(arguments).decode()
    return arguments if isinstance(arguments, str) else ""
