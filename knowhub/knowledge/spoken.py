"""What somebody says in a message, sentence by sentence: without code, quotes, data and KnowHub's own words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowhub.knowledge import recalled
from knowhub.knowledge.extraction_model import Message

READ_CHARS = 16_384
MAX_SENTENCE_CHARS = 400
MASK = "▪"
_SHORT_QUOTE_CHARS = 16

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_INLINE_CODE = re.compile(r"`([^`\n]{1,60})`")
# What is data, code, a log or a quotation by its beginning; nobody speaks so.
_NOT_SPOKEN = re.compile(
    r"""^(?:
      \s*[>|]                                          # a quotation, a table
    | \s{4,}\S | \t                                    # indented code
    | \s*(?:[\[{}\]<]|//|/\*|\#include|\#!|\$\s|>>>|@\w+[(\n])
    | \s*"[^"]{1,60}"\s*:                              # JSON
    | \s*(?:Traceback|File\s"|at\s\w+[.(]|import\s\w+$|from\s\S+\simport|def\s\w+\(|class\s\w+[:(]|return\b|SELECT\s)
    | \s*\[?\d{4}-\d\d-\d\d[T\s]\d\d:\d\d              # a log
    | \s*[A-Za-z_]\w*(?:\.\w+)*\s?=[^=]                # an assignment
    | \s*(?:https?://\S+\s*$)
    | \s*(?:\w+(?:Error|Exception)):
    )""",
    re.VERBOSE,
)
# From here on, the rest of the message is what shall be worked on.
_MATERIAL = re.compile(
    r"(?i)(?:翻译|译成|译为|改写|润色|总结|概括|校对|解释|分析|translate|rewrite|proofread|paraphrase|summari[sz]e"
    r"|explain|analy[sz]e"
    r"|correct|classify)[^。.!！?？\n:：]{0,60}[:：]"
)
_QUOTED = re.compile(r"“[^”\n]*”|「[^」\n]*」|『[^』\n]*』|\"\"\"[^\n]*?\"\"\"|\"[^\"\n]*\"|‘[^’\n]{4,}’|《[^》\n]*》")
_END = re.compile(r"(?<=[。！？!?])(?![”」』\"'’)）])|(?<=\.)(?=\s+[\"“A-Z(\u4e00-\u9fff])")
_BULLET = re.compile(r"^\s*(?:[-*+•·]|\d{1,2}[.)、．]|[（(]\d{1,2}[)）])\s*")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it was said; in `bare` what stands in quotation marks is masked, and letters are lower case."""

    text: str
    bare: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """A message with what is said in it."""

    message: Message
    said: Sequence[Sentence]


def heard(messages: Sequence[Message]) -> list[Heard]:
    """Take every message apart, once."""
    return [Heard(one, () if one.is_tool else sentences(one.content)) for one in messages]


def sentences(content: str) -> list[Sentence]:
    """Return what is said in a message, of its first 16,384 characters; sentences over 400 characters are data."""
    text = content[:READ_CHARS]
    material = _MATERIAL.search(text)
    if material is not None:
        text = text[: material.end()]
    said: list[Sentence] = []
    for line in _spoken_lines(text):
        for part in _END.split(_INLINE_CODE.sub(r"\1", line)):
            one = part.strip()
            if one and len(one) <= MAX_SENTENCE_CHARS:
                said.append(Sentence(one, masked(one).lower(), is_first=not said))
    return said


def masked(text: str) -> str:
    """Return a text of the same length in which what is quoted cannot be taken for the speaker's own words.

    A short quotation is a name («dark mode»), and stays.
    """
    return _QUOTED.sub(lambda quote: quote[0] if _is_name(quote[0]) else MASK * len(quote[0]), text)


def bare_lines(content: str) -> Iterator[str]:
    """Yield the lines of a message that are no code and none of KnowHub's, as they are."""
    fenced = False
    for line in recalled.without_recalled(content).splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def _spoken_lines(text: str) -> Iterator[str]:
    for line in bare_lines(text):
        if line.strip() and not _NOT_SPOKEN.match(line):
            yield _BULLET.sub("", line)


def _is_name(quoted: str) -> bool:
    inner = quoted.strip('“”"「」『』‘’《》')
    return len(inner) <= _SHORT_QUOTE_CHARS and not re.search(
        r"[，。,.!！?？]|我|必须|不得|\b(?:i|must|always|never)\b", inner, re.IGNORECASE
    )
