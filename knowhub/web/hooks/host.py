"""What the hooks know of a host: its events, the form of its answers, and the entries of its transcripts."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from knowhub.conversations.messages import Message


class Action(StrEnum):
    """What KnowHub does at an event."""

    START = "start"  # show the profile, and what fits the project
    PROMPT = "prompt"  # show what fits the prompt
    CAPTURE = "capture"  # commit what is new in the transcript
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Host:
    """A program with hooks.

    `events` are its names of events. `session_field` is where its payloads name the session. `make_answer(event, text)`
    returns its form of an answer that shows a text, or shows nothing. `read_entry(entry, tools)` yields the messages of
    an entry of a transcript, and keeps the names of tools by the ids of their calls in `tools`.
    """

    name: str
    events: Mapping[str, Action]
    session_field: str
    make_answer: Callable[[str, str], dict[str, Any]]
    read_entry: Callable[[Mapping[str, Any], MutableMapping[str, str]], Iterator[Message]]

    def find_event(self, written: str) -> str | None:
        """Return the event with this name, in any case, with or without hyphens and underscores."""
        wanted = _plain(written)
        return next((event for event in self.events if _plain(event) == wanted), None)


def make_hook_output(event: str, text: str) -> dict[str, Any]:
    """Return the answer of Claude Code, which Codex shares."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else {}


def read_blocks(
    message: Message, content: object, tools: MutableMapping[str, str], suffix: str = "-"
) -> Iterator[Message]:
    """Yield what the content blocks of Anthropic's API say: the answers of tools, and `message` with the texts.

    Thoughts, images and calls of tools are left out. The ids of answers are that of `message` with `suffix` and a
    number, where it has one.
    """
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for number, block in enumerate(filter(_is_object, blocks)):
        if block.get("type") == "tool_use":
            tools[str(block.get("id"))] = str(block.get("name") or "")
        elif block.get("type") == "tool_result":
            own_id = f"{message.message_id}{suffix}{number}" if message.message_id else None
            name = tools.get(str(block.get("tool_use_id")), "")
            yield Message("tool", join_texts(block.get("content")), name, own_id, message.timestamp)
    if text := join_texts([block for block in blocks if _is_object(block) and block.get("type") == "text"]):
        yield Message(message.role, text, message.name, message.message_id, message.timestamp)


def join_texts(content: object) -> str:
    """Return the text of a text, or of a list of objects that have a `text`."""
    if isinstance(content, str):
        return content
    blocks: Sequence[object] = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def get_text(entry: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text, else None."""
    value = entry.get(name)
    return value if isinstance(value, str) and value else None


def _is_object(block: object) -> bool:
    return isinstance(block, dict)


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()
