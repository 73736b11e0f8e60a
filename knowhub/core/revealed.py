"""What is sealed stays out of transcripts: a tool that was asked for it has shown it to one agent, once."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from knowhub.core.messages import Message

WITHHELD: Final = "[withheld: it is sealed]"
_NAME: Final = "secure_body"
# As KnowHub's tools show it: one line, and those behind it that are indented behind the bar.
_FENCED: Final = re.compile(rf"^([ \t]*\|[ ]{_NAME}: )[^\n]*(?:\n[ \t]*\|   [^\n]*)*", re.MULTILINE)
# As JSON and as Python has it, cut off somewhere perhaps; and JSON in a text of JSON.
_QUOTED: Final = tuple(
    re.compile(rf"({quote}{_NAME}{quote}\s*:\s*)(?:{text})", re.DOTALL)
    for quote, text in (
        ("[\"']", r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)' + r"|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)"),
        (r'\\"', r'\\"[^"\\]*(?:\\\\\\?.[^"\\]*)*(?:\\"|\\*\Z)'),
    )
)


def without_revealed(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without the sealed bodies that tools have shown; what a person says stays as it is."""
    return [
        replace(one, content=_without(one.content)) if _NAME in one.content and not one.is_user else one
        for one in messages
    ]


def _without(content: str) -> str:
    content = _FENCED.sub(lambda found: found[1] + WITHHELD, content)
    content = _QUOTED[0].sub(lambda found: f'{found[1]}"{WITHHELD}"', content)
    return _QUOTED[1].sub(lambda found: f'{found[1]}\\"{WITHHELD}\\"', content)
