"""Which messages a model is shown, and what of them: bounded, without credentials (CE-166)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from knowhub.context import prompts
from knowhub.context.ports import SecretFinder
from knowhub.core.messages import Message

_PART_CHARS: Final = 24_000
_MAX_PARTS: Final = 4
_WITHHELD: Final = "[withheld]"
_PIECE_CHARS: Final = 4_000
COVER: Final = "\ufffc"
"""What stands where a credential stood: no sign at which a sentence or a word ends."""


def without_secrets(messages: Sequence[Message], find_secrets: SecretFinder) -> list[Message]:
    """Return the messages without the lines in which a credential stands."""
    return [replace(one, content=_safe(one.content, find_secrets)) for one in messages]


def parts(messages: Sequence[Message], most: int = _MAX_PARTS) -> list[list[tuple[int, Message]]]:
    """Cut the newest messages into up to four parts of 24,000 characters, in their order, each with its number.

    System messages are an application's words, and nobody's memories.
    """
    cut: list[list[tuple[int, Message]]] = [[]]
    room = _PART_CHARS
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if not message.content.strip() or message.is_system:
            continue
        size = min(len(message.content), prompts.SHOWN_CHARS)
        if size > room and cut[-1]:
            if len(cut) == most:
                break
            cut.append([])
            room = _PART_CHARS
        cut[-1].append((number, message))
        room -= size
    return [part[::-1] for part in reversed(cut) if part]


def holds_secret(text: str, find_secrets: SecretFinder) -> bool:
    """Tell whether a credential stands in a text."""
    return any(find_secrets(text[at : at + 2 * _PIECE_CHARS]) for at in range(0, max(len(text), 1), _PIECE_CHARS))


def covered(text: str, find_secrets: SecretFinder) -> str:
    """Return a text with every credential in it covered as a whole, however many lines and full stops it has.

    Taken apart into sentences first, a key of several lines is none in any of them, nor is the end of a password.
    """
    starts = range(0, max(len(text), 1), _PIECE_CHARS)
    found = [(at + one.start, at + one.end) for at in starts for one in find_secrets(text[at : at + 2 * _PIECE_CHARS])]
    parts: list[str] = []
    shown_to = 0
    for start, end in sorted(found):
        if end > shown_to:
            parts += (text[shown_to:start], COVER) if start >= shown_to else (COVER,)
            shown_to = end
    return "".join([*parts, text[shown_to:]])


def _safe(content: str, find_secrets: SecretFinder) -> str:
    text = content[: prompts.SHOWN_CHARS]
    if not holds_secret(text, find_secrets):
        return text
    kept = "\n".join(_WITHHELD if holds_secret(line, find_secrets) else line for line in text.split("\n"))
    # A key of several lines is none in any of them.
    return _WITHHELD if holds_secret(kept, find_secrets) else kept
