"""Recognise text that KnowHub showed, so that it is not saved again.

The server does the same (`knowhub/conversations/recalled.py`); the two share no code, and a test compares them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent_tools.records import FENCE_NOTE
from agent_tools.results import ToolFailure

_NOTE_BEGINS: Final = FENCE_NOTE.partition(":")[0]
# A fence is recognised in a quote, indented and in a block of code too.
_FENCED: Final = re.compile(r"\A[ \t>]*\|(?: |[ \t]*\Z)")
_FIELD: Final = re.compile(r"\A[ \t>]*\| [^\s:|][^:|]{0,39}:(?: |\Z)")
_NEXT_LINE: Final = re.compile(r"\A[ \t>]*\|(?:   |[ \t]*\Z)")
_ROW_ID: Final = re.compile(r"\A[ \t>]*\| (?:id|uri): ")
_ROW_FIELDS: Final = 2
_COUNT: Final = re.compile(r"\A[ \t>]*[0-9]{1,6} found\.")
_EMPTY_QUOTE: Final = re.compile(r"\A[ \t]*>[ \t>]*")
_EMPTY_BLOCK: Final = re.compile(r"^[ \t>]*(```|~~~)[^\n`]*\n(?:[ \t>]*\n)*[ \t>]*\1[ \t]*(?:\n|\Z)", re.MULTILINE)


def keep_own_words(text: str) -> tuple[str, str]:
    """Return a text without what KnowHub showed, and a notice if something was left out.

    Raises ToolFailure if nothing else is left.
    """
    rest, dropped = without_fenced(text)
    if dropped and not rest:
        raise ToolFailure(
            "This text came from KnowHub, so nothing was saved. Use knowledge_update to say if it helped."
        )
    return rest, f" Left out: {dropped} lines that came from KnowHub." if dropped else ""


def without_fenced(text: str) -> tuple[str, int]:
    """Return a text without the lines that KnowHub fenced, and how many they were.

    A fence without its note is recognised by the id of a row. Tables stay. The text is empty if no word is left.
    """
    fenced = dict(_list_fenced(text))
    if not fenced:
        return text, 0
    rest = "\n".join(
        line
        for number, line in enumerate(text.splitlines())
        if number not in fenced and not _EMPTY_QUOTE.fullmatch(line)
    )
    rest = _EMPTY_BLOCK.sub("", rest).strip()
    return rest if any(map(str.isalnum, rest)) else "", len(fenced)


def _list_fenced(text: str) -> Iterator[tuple[int, str]]:
    if "|" not in text:
        return
    has_note = _NOTE_BEGINS in text
    row: list[tuple[int, str]] = []
    for number, line in enumerate((*text.splitlines(), "")):
        if _FIELD.match(line) or (row and _NEXT_LINE.match(line)):
            row.append((number, line))
            continue
        if has_note or _is_row(row):
            yield from row
        row = []
        is_table = line.rstrip().endswith("|")
        if has_note and (_NOTE_BEGINS in line or _COUNT.match(line) or (_FENCED.match(line) and not is_table)):
            yield number, line


def _is_row(lines: Sequence[tuple[int, str]]) -> bool:
    has_id = any(_ROW_ID.match(line) for _, line in lines)
    return has_id and sum(_FIELD.match(line) is not None for _, line in lines) >= _ROW_FIELDS
