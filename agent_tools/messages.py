"""Make the messages of a host acceptable to the server. A bad message is corrected or left out."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Literal, TypedDict

from agent_tools import arguments, fences

MAX_BODY_CHARS: Final = 8 * 1024 * 1024
MAX_MESSAGES: Final = 2_000
# A larger number counts milliseconds: as seconds it would be after the year 5000.
_MILLISECONDS_FROM: Final = 100_000_000_000
_MAX_CHANGES: Final = 10


class _SpokenMessage(TypedDict):
    role: Literal["user", "assistant", "system", "tool"]
    content: str


class Message(_SpokenMessage, total=False):
    """A message as a model writes it. A host may send more; see `prepare_messages`."""

    name: str
    timestamp: str


def prepare_messages(messages: Iterable[object] | None, trace_id: str | None) -> tuple[list[dict[str, str]], str]:
    """Return the newest messages that have text, and a notice about every change.

    A message without an id gets an id made of its text and the trace, if there is a trace. The messages may also be
    JSON text, or a single message.
    """
    given = _list_messages(messages)
    if given is None:
        return [], "The messages are not a list of objects with role and content."
    sent: list[dict[str, str]] = []
    changes: list[str] = []
    left = MAX_BODY_CHARS
    for number, message in reversed(list(enumerate(given, 1))):
        prepared, problems = _prepare_message(message, trace_id)
        changes += [f"message {number} {problem}" for problem in problems]
        if prepared is None:
            continue
        left -= len(prepared["content"])
        if left < 0 or len(sent) == MAX_MESSAGES:
            changes.append(f"message {number} and those before it were left out: the request would be too large")
            break
        sent.append(prepared)
    return sent[::-1], _make_notice(changes)


def _list_messages(messages: object) -> list[object] | None:
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except (ValueError, RecursionError):
            return None
    if isinstance(messages, Mapping):
        return [messages]
    return list(messages) if isinstance(messages, Iterable) and not isinstance(messages, str | bytes) else None


def _prepare_message(message: object, trace_id: str | None) -> tuple[dict[str, str] | None, list[str]]:
    """Return a message that the server accepts, or None, and what was changed."""
    if not isinstance(message, Mapping):
        return None, ["was left out: it is not an object with role and content"]
    role, text = message.get("role"), _join_text(message.get("content"))
    if not text.strip():
        # For example a message that only calls tools: nothing is lost.
        return None, []
    if not isinstance(role, str) or not role or len(role) > arguments.MAX_ID_CHARS:
        return None, ["was left out: its role is not a name"]
    if len(text) > MAX_BODY_CHARS:
        return None, [f"was left out: it has over {MAX_BODY_CHARS} characters"]
    own, fenced = fences.remove_fenced(text)
    if fenced and not own:
        return None, ["was left out: it came from KnowHub"]
    prepared = {"role": arguments.clean_text(role), "content": arguments.clean_text(own)}
    problems = [] if prepared["content"] == own else ["was sent with invalid characters replaced"]
    problems += [f"was sent without {fenced} lines that came from KnowHub"] if fenced else []
    if message.get("name"):
        prepared["name"] = arguments.clean_text(str(message["name"]))[: arguments.MAX_ID_CHARS]
    # Some hosts call it `id`. Without an id, the same text counts once in a trace.
    text_id = None if trace_id is None else _make_id(trace_id, role, text)
    message_id = message.get("message_id") or message.get("id") or text_id
    if message_id is not None:
        prepared["message_id"] = arguments.clean_id(message_id)
    if message.get("timestamp"):
        time = _format_time(message["timestamp"])
        if time is None:
            problems.append("was sent without its timestamp, which is not a date or time")
        else:
            prepared["timestamp"] = time
    return prepared, problems


def _join_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _make_id(trace_id: str, role: str, text: str) -> str:
    source = f"{trace_id}\x1f{role}\x1f{text}"
    return "text-" + sha256(source.encode("utf-8", "replace")).hexdigest()[:32]


def _format_time(given: object) -> str | None:
    """Return a time in ISO 8601, or None. A number counts seconds or milliseconds since 1970."""
    try:
        if isinstance(given, int | float):
            seconds = given / 1000 if given >= _MILLISECONDS_FROM else given
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        moment = datetime.fromisoformat(str(given))
        # Near the ends of the calendar a time with a zone does not exist in UTC, which the server uses.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _make_notice(changes: list[str]) -> str:
    if not changes:
        return ""
    more = f"; and {len(changes) - _MAX_CHANGES} more" if len(changes) > _MAX_CHANGES else ""
    return f"Some messages were changed: {'; '.join(changes[:_MAX_CHANGES])}{more}."
