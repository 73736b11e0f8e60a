"""KnowHub's own words in a session: what was recalled into it must not be remembered as if it were said anew."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context import uri
from knowhub.context.extraction.wording import plain
from knowhub.context.ports import SpokenReader
from knowhub.core import shingles
from knowhub.core.messages import Message
from knowhub.core.own_tools import is_own_tool

# As hosts write recalled text into a prompt: between tags, or below a heading up to the next paragraph.
_TAGGED: Final = re.compile(
    r"<(?P<tag>(?:relevant|recalled|long[-_ ]?term|user|retrieved|injected)?[-_ ]?(?:memor(?:y|ies)|context"
    r"|knowledge))\b[^>]*>"
    r".*?(?:</(?P=tag)>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_HEADED: Final = re.compile(
    r"^[#>*\s\[(]*(?:(?:relevant|recalled|related|retrieved|stored) (?:memor(?:y|ies)|context|knowledge)"
    r"|(?:相关|召回|检索到)的?(?:记忆|上下文|知识)|memory context)[^\n]{0,40}$"
    # A heading that is this one word.
    r"|^#{1,6}\s*(?:long[- ]term )?(?:memory|memories|记忆|长期记忆)\s*[:：]?\s*$",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"^\s*(?:[|>*•·-]|\d{1,3}[.)、]|\[|\{|$)")
_LEAST_CHARS: Final = 8
_LEAST_ECHO: Final = 16
_ECHO_SHARE: Final = 0.8
_MAX_TEXTS: Final = 400


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was recalled into a session: its lines, as they are compared, and its longer texts."""

    lines: frozenset[str]
    texts: Sequence[frozenset[int]]

    def is_said_in(self, text: str) -> bool:
        """Tell whether a text only repeats what was recalled."""
        if plain(text) in self.lines:
            return True
        if shingles.weight(text) < _LEAST_ECHO:
            return False
        own = shingles.shingles(text)
        return bool(own) and any(len(own & theirs) >= _ECHO_SHARE * len(own) for theirs in self.texts)


def recalled(texts: Iterable[str]) -> Recalled:
    """Take in the texts that were recalled, the first 400 of them."""
    kept = [text for text, _ in zip((one for one in texts if one.strip()), range(_MAX_TEXTS), strict=False)]
    lines = {plain(line) for text in kept for line in (text, *text.splitlines())}
    return Recalled(
        frozenset(line for line in lines if len(line) >= _LEAST_CHARS), [shingles.shingles(text) for text in kept]
    )


def without_recalled(messages: Sequence[Message], reader: SpokenReader, known: Recalled) -> list[Message]:
    """Return the messages without what KnowHub said; each keeps its place, though nothing may be left of it."""
    return [_cleaned(message, reader, known) for message in messages]


def _cleaned(message: Message, reader: SpokenReader, known: Recalled) -> Message:
    if (not message.is_user and is_own_tool(message.name)) or reader.is_own_answer(message):
        return replace(message, content="")
    content = message.content
    if "<" in content:
        content = _TAGGED.sub("", content)
    content = reader.without_recalled(content)
    kept = list(_own_lines(content.splitlines(), known))
    content = "\n".join(kept)
    return message if content == message.content else replace(message, content=content)


def _own_lines(lines: Iterable[str], known: Recalled) -> Iterable[str]:
    injected = False
    after_blank = False
    for line in lines:
        if _HEADED.match(line):
            injected = True
        elif injected and after_blank and not _ITEM.match(line):
            # A new paragraph that is no item of the list: somebody speaks again.
            injected = False
        after_blank = not line.strip()
        if not (injected or uri.SCHEME in line or plain(line) in known.lines):
            yield line
