"""The messages of a host as the server takes them: a bad one is mended or left out, and the others are sent."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from agent_tools import sendable

MAX_BODY_CHARS: Final = 8 * 1024 * 1024
MAX_MESSAGES: Final = 2_000
# Above it a number of seconds would lie beyond the year 5000: it counts milliseconds.
_MILLISECONDS_FROM: Final = 100_000_000_000
_SHOWN_NOTES: Final = 10


def sendable_messages(messages: Iterable[object] | None, trace_id: str | None) -> tuple[list[dict[str, str]], str]:
    """Return the newest messages, those without text left out, and a word on what was not sent as it is.

    A message without an id gets one from its text and the trace, and none where there is no trace. The JSON text of
    messages, and one message alone, will do.
    """
    given = _listed(messages)
    if given is None:
        return [], "The messages are no list of objects with role and content."
    kept: list[dict[str, str]] = []
    notes: list[str] = []
    left = MAX_BODY_CHARS
    for number, message in reversed(list(enumerate(given, 1))):
        said, problems = _fitted(message, trace_id)
        notes += [f"message {number} {problem}" for problem in problems]
        if said is None:
            continue
        left -= len(said["content"])
        if left < 0 or len(kept) == MAX_MESSAGES:
            notes.append(f"message {number} and those before it were left out: there is no room for more")
            break
        kept.append(said)
    return kept[::-1], _told(notes)


def _listed(messages: object) -> list[object] | None:
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except (ValueError, RecursionError):
            return None
    if isinstance(messages, Mapping):
        return [messages]
    return list(messages) if isinstance(messages, Iterable) and not isinstance(messages, str | bytes) else None


def _fitted(message: object, trace_id: str | None) -> tuple[dict[str, str] | None, list[str]]:
    """Return a message as it can be sent, None for one that cannot or says nothing, and what had to be done to it."""
    if not isinstance(message, Mapping):
        return None, ["was left out: it is no object with role and content"]
    role, text = message.get("role"), _text(message.get("content"))
    if not text.strip():
        # Such as one that only calls tools: nothing is lost.
        return None, []
    if not isinstance(role, str) or not role or len(role) > sendable.MAX_ID_CHARS:
        return None, ["was left out: its role is no name"]
    if len(text) > MAX_BODY_CHARS:
        return None, [f"was left out: it has over {MAX_BODY_CHARS} characters"]
    said = {"role": sendable.plain_text(role), "content": sendable.plain_text(text)}
    problems = [] if said["content"] == text else ["was sent with characters replaced that no text holds"]
    if message.get("name"):
        said["name"] = sendable.plain_text(str(message["name"]))[: sendable.MAX_ID_CHARS]
    # Hosts call it `id` too; without any, the same words count once a trace.
    made = None if trace_id is None else _digest(trace_id, role, text)
    message_id = message.get("message_id") or message.get("id") or made
    if message_id is not None:
        said["message_id"] = sendable.entity_id(message_id)
    if message.get("timestamp"):
        moment = _moment(message["timestamp"])
        if moment is None:
            problems.append("was sent without its timestamp, which is no date or time")
        else:
            said["timestamp"] = moment
    return said, problems


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _digest(trace_id: str, role: str, text: str) -> str:
    said = f"{trace_id}\x1f{role}\x1f{text}"
    return "text-" + sha256(said.encode("utf-8", "replace")).hexdigest()[:32]


def _moment(given: object) -> str | None:
    """Return a time in ISO 8601; a number counts seconds or milliseconds since 1970. None for what is no time."""
    try:
        if isinstance(given, int | float):
            seconds = given / 1000 if given >= _MILLISECONDS_FROM else given
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        moment = datetime.fromisoformat(str(given))
        # Near the ends of the calendar a time with a zone has no place in UTC, where the server keeps it.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _told(notes: list[str]) -> str:
    if not notes:
        return ""
    more = f"; and {len(notes) - _SHOWN_NOTES} more" if len(notes) > _SHOWN_NOTES else ""
    return f"Not everything was sent as it is: {'; '.join(notes[:_SHOWN_NOTES])}{more}."
