"""What somebody says in a message, sentence by sentence: without code, quotes, data and KnowHub's own words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowhub.core.messages import Message
from knowhub.knowledge import recalled, spoken_others, spoken_patterns
from knowhub.knowledge.extraction_model import Fold

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
_QUOTED = re.compile(
    r"[“”„][^“”\n]*[“”]|「[^」\n]*」|『[^』\n]*』|\"\"\"[^\n]*?\"\"\"|[\"＂][^\"＂\n]*[\"＂]|‘[^’\n]{4,}’"
    r"|(?<![\w'])'[^'\n]{4,}'(?!\w)"
    r"|《[^》\n]*》|«[^»\n]*»"
)
_END = re.compile(r"(?<=[。！？!?])(?![”」』\"'’)）])|(?<=\.)(?=\s+[\"“A-Z(\u4e00-\u9fff])")
_BULLET = re.compile(r"^\s*(?:\*(?=\s)|[-+•·]|\d{1,2}[.)、．]|[（(]\d{1,2}[)）]|\#{1,6}(?=\s))\s*")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]{1,400}?)(?<=\S)\1(?![\w*])")
# What looks like letters, spaces and apostrophes, character for character.
_LOOKS = (
    {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}
    | dict.fromkeys((0x00A0, 0x3000, 0x202F, 0x205F, *range(0x2000, 0x200B)), " ")
    | dict.fromkeys(map(ord, "‘’ʼ＇"), "'")
)
_UNSEEN = dict.fromkeys((0x00AD, 0x180E, *range(0x200B, 0x2010), 0x2060, 0xFEFF))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it was said, word for word, and as it is understood.

    In `bare` what stands in quotation marks is masked, letters are lower case, and what looks alike is the same:
    spaces, apostrophes and letters of any width, traditional and simplified characters.
    """

    text: str
    bare: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """A message with what is said in it."""

    message: Message
    said: Sequence[Sentence]


def heard(messages: Sequence[Message], fold: Fold = str) -> list[Heard]:
    """Take every message apart, once; `fold` brings variants of characters to one."""
    return [Heard(one, () if one.is_tool else sentences(one.content, fold)) for one in messages]


def sentences(content: str, fold: Fold = str) -> list[Sentence]:
    """Return what is said in a message, of its first 16,384 characters; sentences over 400 characters are data."""
    text = content[:READ_CHARS]
    understood = fold(text.translate(_LOOKS)).lower()
    if spoken_others.is_mail(understood):
        return []
    # A letter whose lower case is longer (İ) would shift what follows; then nothing is cut.
    material = spoken_others.MATERIAL.search(understood) if len(understood) == len(text) else None
    if material is not None:
        text = text[: material.end()]
    said: list[Sentence] = []
    for line in _spoken_lines(text):
        for part in _END.split(_EMPHASIS.sub(r"\2", _INLINE_CODE.sub(r"\1", line))):
            one = part.strip()
            if one and len(one) <= MAX_SENTENCE_CHARS:
                said.append(Sentence(one, _understood(one, fold), is_first=not said))
    # What somebody asks to keep to oneself says nothing to anybody.
    return [] if any(spoken_patterns.PRIVATE_ALL.search(one.bare) for one in said) else said


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
    lines = list(bare_lines(text))
    for line, is_others in zip(lines, spoken_others.of_others(lines), strict=True):
        if line.strip() and not is_others and not _NOT_SPOKEN.match(line):
            yield _BULLET.sub("", line)


def _understood(said: str, fold: Fold) -> str:
    return fold(masked(said).translate(_LOOKS)).translate(_UNSEEN).lower()


def _is_name(quoted: str) -> bool:
    inner = quoted.strip("“”„\"＂「」『』‘’'《》«»")
    return len(inner) <= _SHORT_QUOTE_CHARS and not re.search(
        r"[，。,.!！?？]|我|必须|不得|\b(?:i|must|always|never)\b", inner, re.IGNORECASE
    )
