"""KnowHub's own words in a conversation: what it handed out must not come back in as if it were learnt anew.

It is known by what says so itself: the tool that answered, the fence that the tools put around stored text, the list
under 「📚 相关知识」, the ids of records. What an agent says again in its own words is held against the stored records
(`is_echo`).
"""

import re
from collections.abc import Iterator

from knowhub.core import shingles
from knowhub.core.messages import Message
from knowhub.core.own_tools import is_own_tool

_FENCE_NOTE = 'Lines that begin with "| " are stored text'
_INJECTED = "📚"
_SAID = re.compile(r"用户说：|The user said: ")
# A record as it is shown: its own words begin with who said them.
_SHOWN = re.compile(r"^[\s\-*•·>|\"]*(?:content\"?\s*:\s*\"?)?(?:用户说：|The user said: )")
_LISTED = re.compile(r"^\s*(?:[>|\-*+•·]|\d{1,3}[.)、．]|[（(]\d{1,2}[)）])\s*")
_LABEL = re.compile(r"^[^:：。.!?！？]{1,40}[:：]\s*")
_SENTENCE_END = re.compile(r"(?<=[。！？!?])|(?<=\.)\s+")
_RECORD_ID = re.compile(r"\bknowledge-\d{8}-[0-9a-f]{4,}\b")
_ITEM = re.compile(r"^\s*(?:[|>\-*•·]|\d{1,3}[.)、]|\[|\{|$)")
# An echo says at least so much, and so much of it stands in the record.
_LEAST_WEIGHT = 16
_LEAST_SHARE = 0.8


def is_own_answer(message: Message) -> bool:
    """Tell whether a message is an answer of KnowHub to a tool's call."""
    # A person may have any name.
    if message.is_user or not (message.is_tool or message.name):
        return False
    if is_own_tool(message.name):
        return True
    return message.is_tool and (_FENCE_NOTE in message.content or _RECORD_ID.search(message.content) is not None)


def without_recalled(content: str) -> str:
    """Return a text without the lines that KnowHub wrote into it."""
    marks = (_INJECTED, _FENCE_NOTE, "knowledge-", "用户说：", "The user said: ")
    if not any(mark in content for mark in marks):
        return content
    kept: list[str] = []
    injected = False
    after_blank = False
    for line in content.splitlines():
        if _INJECTED in line:
            injected = True
        elif injected and after_blank and not _ITEM.match(line):
            # A new paragraph that is no item of the list: somebody speaks again.
            injected = False
        after_blank = not line.strip()
        if not (
            injected or _FENCE_NOTE in line or line.startswith("|") or _RECORD_ID.search(line) or _SHOWN.match(line)
        ):
            kept.append(line)
    return "\n".join(kept)


def without_quoted(content: str, stored: frozenset[str]) -> str:
    """Return a text without the lines that quote a record, as `plain_lines` has them: in a list, or behind a label.

    Who says again, of themselves, what they said is not quoting.
    """
    kept: list[str] = []
    labelled = False
    for line in content.splitlines():
        item = _LISTED.sub("", line)
        label = _LABEL.match(item)
        said = [item, item[label.end() :]] if label else [item]
        quotes = labelled or label is not None or item != line
        if not (quotes and any(_plain(one) in stored for text in said for one in (text, *_SENTENCE_END.split(text)))):
            kept.append(line)
        labelled = bool(line.strip()) and (labelled or line.rstrip().endswith((":", "：")))
    return "\n".join(kept)


def plain_lines(content: str) -> Iterator[str]:
    """Yield what a record says, line by line, as lines that quote it are held against it."""
    return (plain for line in content.splitlines() if (plain := _plain(_SAID.sub("", line))))


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def is_echo(said: str, stored: str) -> bool:
    """Tell whether what was said is in what is stored: its words stand there, four of five in the same order."""
    if shingles.weight(said) < _LEAST_WEIGHT:
        return False
    own = shingles.shingles(said)
    return bool(own) and len(own & shingles.shingles(stored)) >= _LEAST_SHARE * len(own)
