"""Recognises KnowHub's own texts in a conversation, so that they are not learnt again.

It knows them by the answering tool, the fence around stored text, the list under 「📚 相关知识」, and
the ids of records. Text that an agent repeats in its own words is compared with the stored records (`is_copy`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent_tools.fences import FENCE_NOTE, find_fence, remove_fenced
from knowhub.conversations.language.sentence_ends import SENTENCE_END
from knowhub.conversations.messages import Message, is_own_tool
from knowhub.core import near_duplicates

_JSON: Final = re.compile(r"^[ \t]*+[\[{]", re.MULTILINE)
_INJECTED: Final = re.compile("📚")
_SAID = re.compile(r"用户说：|The user said: ")
# A rendered record begins with who said it.
_SHOWN = re.compile(r"^[\s\-*•·>|\"]*(?:content\"?\s*:\s*\"?)?(?:用户说：|The user said: )")
_LISTED = re.compile(r"^\s*(?:[>|\-*+•·]|\d{1,3}[.)、．]|[（(]\d{1,2}[)）])\s*")
_LABEL = re.compile(r"^[^:：。.!?！？]{1,40}[:：]\s*")
_RECORD_ID = re.compile(r"\bknowledge-\d{8}-[0-9a-f]{4,}\b")
# Files of Claude's memory tool. Its model expects this form (see agent_tools/integrations/anthropic_memory.py), so
# there is no other fence: each line of a file has its number before it.
_FILE_HEADING: Final = re.compile(
    r"Here's the content of /memories\b[^\n]{0,1000} with line numbers:"
    r"|Here is the snippet showing the change \(with line numbers\):"
)
_FILE_LINE: Final = re.compile(r"^ *[0-9]+\t")
_ITEM = re.compile(r"^\s*(?:[|>\-*•·]|\d{1,3}[.)、]|\[|\{|$)")
# A copy has at least this length, and shares at least this part with the record.
_MIN_WEIGHT = 16
_MIN_SHARE = 0.8
_MEMORY_SCHEME: Final = "ctx://"
# What can be left out of a statement without changing what it says.
_FILLERS: Final = re.compile(
    r"\b(?:really|very|just|also|actually|honestly|definitely|absolutely|personally|so much|a lot|well|oh|yes|yeah"
    r"|and|but|so)\b"
    r"|真的|非常|特别|其实|还是|确实|的确|比较|很|挺|也|呢|啊|哦|嗯"
)
# As hosts write recalled text into a prompt: between tags, or below a heading up to the next paragraph.
_TAGGED: Final = re.compile(
    r"<(?P<tag>(?:relevant|recalled|long[-_ ]?term|user|retrieved|injected)?[-_ ]?(?:memor(?:y|ies)|context"
    r"|knowledge))\b[^<>]{0,400}>"
    r".*?(?:</(?P=tag)>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_HEADED: Final = re.compile(
    r"^[#>*\s\[(]*(?:(?:relevant|recalled|related|retrieved|stored) (?:memor(?:y|ies)|context|knowledge)"
    r"|(?:相关|召回|检索到)的?(?:记忆|上下文|知识)|memory context)[^\n]{0,40}$"
    # A heading that is this one word.
    r"|^#{1,6}\s*(?:long[- ]term )?(?:memory|memories|记忆|长期记忆)\s*(?:[:：]\s*)?$",
    re.IGNORECASE,
)
_MIN_CHARS: Final = 8
_MAX_TEXTS: Final = 400


def is_recall_answer(message: Message) -> bool:
    """Return whether a message is KnowHub's answer to a tool call, as text or as JSON."""
    # A person may have any name.
    if message.is_user or not (message.is_tool or message.name):
        return False
    content = message.content
    return is_own_tool(message.name) or (
        message.is_tool
        and (
            _RECORD_ID.search(content) is not None
            or _FILE_HEADING.search(content) is not None
            or any(FENCE_NOTE in text or find_fence(text) is not None for text in _list_texts(content))
        )
    )


def _list_texts(content: str) -> Iterator[str]:
    """Yield an output, and if it is JSON its objects as rows and its strings, also those of JSON in a string."""
    yield content
    begin = _JSON.search(content)
    if begin is None:
        return
    try:
        waiting = [json.loads(content[begin.start() :])]
    except (ValueError, RecursionError):
        # It may be cut off.
        yield content.replace("\\n", "\n").replace('\\"', '"')
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield from _list_texts(value)
        elif isinstance(value, dict):
            yield "\n".join(f"| {name}: {item}" for name, item in value.items() if isinstance(item, str))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def keep_own_words(message: Message) -> tuple[str, int]:
    """Return what a message says without what KnowHub showed, and how many lines are left out."""
    if is_recall_answer(message):
        return "", sum(bool(line.strip()) for line in message.content.splitlines())
    return remove_fenced(message.content)


def remove_recalled_lines(content: str) -> str:
    """Return a text without the lines that KnowHub wrote into it."""
    content, _ = remove_fenced(content)
    marks = (_INJECTED.pattern, "knowledge-", "用户说：", "The user said: ", "with line numbers")
    if not any(mark in content for mark in marks):
        return content
    has_file = _FILE_HEADING.search(content) is not None
    return "\n".join(
        line
        for line in _iter_unlisted(content, _INJECTED)
        if not (
            _RECORD_ID.search(line)
            or _SHOWN.match(line)
            or (has_file and (_FILE_LINE.match(line) or _FILE_HEADING.search(line)))
        )
    )


def _iter_unlisted(content: str, heading: re.Pattern[str]) -> Iterator[str]:
    """Yield the lines of a text that are in no list below a heading. A new paragraph that is no item ends the list."""
    is_listed = after_blank = False
    for line in content.splitlines():
        if heading.search(line):
            is_listed = True
        elif is_listed and after_blank and not _ITEM.match(line):
            is_listed = False
        after_blank = not line.strip()
        if not is_listed:
            yield line


def remove_quoted_lines(content: str, stored: frozenset[str]) -> str:
    """Return a text without the lines that quote a record of `stored`, in a list or after a label.

    `stored` holds lines as `list_plain_lines` returns them. Users who repeat their own statement do not quote it.
    """
    kept: list[str] = []
    labelled = False
    for line in content.splitlines():
        item = _LISTED.sub("", line)
        label = _LABEL.match(item)
        said = [item, item[label.end() :]] if label else [item]
        quotes = labelled or label is not None or item != line
        if not (
            quotes
            and any(_keep_letters(entry) in stored for text in said for entry in (text, *SENTENCE_END.split(text)))
        ):
            kept.append(line)
        labelled = bool(line.strip()) and (labelled or line.rstrip().endswith((":", "：")))
    return "\n".join(kept)


def list_plain_lines(content: str) -> Iterator[str]:
    """Yield the lines of a record, reduced to letters and digits."""
    return (plain for line in content.splitlines() if (plain := _keep_letters(_SAID.sub("", line))))


def is_copy(said: str, stored: Iterable[frozenset[int]]) -> bool:
    """Return whether a stored text, given by its word pairs, contains at least 80 % of those of a statement."""
    if not near_duplicates.is_long_enough(said, _MIN_WEIGHT):
        return False
    own = near_duplicates.shingles(said)
    return any(near_duplicates.share_contained(own, theirs) >= _MIN_SHARE for theirs in stored)


@dataclass(frozen=True, slots=True)
class RecalledTexts:
    """What was recalled into a session: its lines, as they are compared, and its longer texts."""

    lines: frozenset[str]
    texts: Sequence[frozenset[int]]

    def is_said_in(self, text: str) -> bool:
        """Return whether a text only repeats what was recalled."""
        return normalize_words(text) in self.lines or is_copy(text, self.texts)


NOTHING_RECALLED: Final = RecalledTexts(frozenset(), ())


def index_recalled(texts: Iterable[str]) -> RecalledTexts:
    """Take in the texts that were recalled, the first 400 of them."""
    kept = [text for text, _ in zip((item for item in texts if item.strip()), range(_MAX_TEXTS), strict=False)]
    lines = {normalize_words(line) for text in kept for line in (text, *text.splitlines())}
    return RecalledTexts(
        frozenset(line for line in lines if len(line) >= _MIN_CHARS),
        [near_duplicates.shingles(text) for text in kept],
    )


def remove_recalled(messages: Sequence[Message], recalled: RecalledTexts) -> list[Message]:
    """Return the messages without what KnowHub said; each keeps its place, though nothing may be left of it."""
    return [_clean_message(message, recalled) for message in messages]


def _clean_message(message: Message, recalled: RecalledTexts) -> Message:
    if is_recall_answer(message):
        return replace(message, content="")
    content = remove_recalled_lines(_TAGGED.sub("", message.content) if "<" in message.content else message.content)
    content = "\n".join(
        line
        for line in _iter_unlisted(content, _HEADED)
        if _MEMORY_SCHEME not in line and normalize_words(line) not in recalled.lines
    )
    return message if content == message.content else replace(message, content=content)


def normalize_words(text: str) -> str:
    """Return the letters and digits of a text without filler words, in lower case, for comparing texts."""
    folded = text.casefold()
    return _keep_letters(_FILLERS.sub("", folded)) or _keep_letters(folded)


def _keep_letters(text: str) -> str:
    # A commit compares all texts: a generator takes several times as long.
    return "".join(filter(str.isalnum, text.casefold()))
