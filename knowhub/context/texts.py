"""The texts of a row: what search looks at and shows first, and the transcript of a session."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from knowhub.context import times
from knowhub.context.model import NODES, PARTS
from knowhub.core.clock import parse_iso
from knowhub.core.operation import Row, is_live

MAX_SHOWN_CHARS = 300
MAX_ABSTRACT = 300
MAX_OVERVIEW = 1_500
MAX_DATED_CHARS = 65_536
"""So much of a message is looked through for the days that it names."""
MAX_MESSAGE_CHARS = 2_000
"""So much of a long message is shown to whoever has not asked for the whole of it."""
_MAX_NAME_WORDS: Final = 4
# A name before a colon, as transcripts have it: «Ada Lovelace: », «小王：».
_SPEAKER: Final = re.compile(r"(?P<name>[^\W\d_][^:：\n]{0,39}?)(?::\s|：)")

_SPACES: Final = re.compile(r"\s+")


def get_indexed_text(collection: str, row: Row) -> str:
    """Return the text by which a node or a part is found."""
    if collection == PARTS:
        return format_message(row)
    return f"{row['abstract']}"


def get_indexed_node(row: Row) -> tuple[bool, str]:
    """Return what search looks at of a node."""
    return is_live(row), get_indexed_text(NODES, row)


def get_indexed_part(row: Row) -> tuple[bool, str]:
    """Return what search looks at of a part."""
    return is_live(row), get_indexed_text(PARTS, row)


def get_indexed_dates(collection: str, row: Row) -> list[str]:
    """Return the marks of the days by which a node or a part is found: when it was said, and which days it names.

    A message that says "yesterday" is found by the day before it was said.
    """
    moment = get_time(collection, row)
    if moment is None:
        return []
    # Days are those of where it was said.
    moment += get_utc_offset_s(collection, row)
    text = str(row["content"] if collection == PARTS else row["abstract"])[:MAX_DATED_CHARS]
    return times.list_day_marks(moment, [time for _, time in times.list_named_times(text, moment)])


def get_time(collection: str, row: Row) -> float | None:
    """Return when a message was said, or an event took place; None where that is not known, or is no time."""
    sent = _get_sent_time(collection, row)
    try:
        return parse_iso(str(sent)) if sent else None
    except ValueError:
        # A message keeps the words of its time as they were sent; what is no time is not searched by it.
        return None


def get_utc_offset_s(collection: str, row: Row) -> float:
    """Return how far clocks were ahead of UTC where it was said, in seconds; 0 where that is not known."""
    if get_time(collection, row) is None:
        return 0.0
    offset = datetime.fromisoformat(str(_get_sent_time(collection, row))).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def format_message(row: Row) -> str:
    """Return a message with who said it before it, where it does not begin so by itself."""
    name, content = str(row["name"]), str(row["content"])
    return content if not name or content.startswith((f"{name}:", f"{name}：")) else f"{name}: {content}"


def find_speaker(row: Row) -> str:
    """Return the speaker of a message: its name, else the name at the start of its text, else its role."""
    if row["name"]:
        return str(row["name"])
    begins = _SPEAKER.match(str(row["content"]))
    name = begins["name"].strip() if begins else ""
    is_name = name and (name[0].isupper() or not name.isascii()) and len(name.split()) <= _MAX_NAME_WORDS
    return name if is_name else str(row["role"])


def _get_sent_time(collection: str, row: Row) -> object:
    return row["timestamp"] if collection == PARTS else row["metadata"].get("said_at")


# The beginning of a line that looks like a heading of the transcript, after any kind of line break. It gets a
# backslash, or one more if it has some, so that the original can be restored.
_BREAKS: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LIKE_HEADING: Final = re.compile(rf"(?:^|(?<=[{_BREAKS}]))([^\S{_BREAKS}]*)(\\*##(?!#))")


def format_transcript(parts: Iterable[Row]) -> str:
    """Write messages in the order in which they come; none are an empty text."""
    return "".join(map(_format_part, parts))


def _format_part(part: Row) -> str:
    said_by = f"{part['name']} ({part['role']})" if part["name"] else part["role"]
    message_id = f"`{part['message_id']}`" if part["message_id"] else ""
    heading = " · ".join([one_line(text) for text in (said_by, part["timestamp"], message_id) if text])
    content = str(part["content"])
    # Few messages have two hashes at all, and those are found many times faster than a heading is.
    if "##" in content:
        content = _LIKE_HEADING.sub(r"\1\\\2", content)
    return f"## {heading}\n\n{content}\n\n"


def one_line(text: str) -> str:
    """Return a text on one line."""
    # Without spaces and control characters, as most roles, times and ids are.
    if " " not in text and text.isprintable():
        return text
    return _SPACES.sub(" ", text).strip()


def cut_at_word(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut at a word."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    word = cut.rfind(" ")
    return f"{cut[:word] if word > limit // 2 else cut}…"


def join_texts(texts: Iterable[str], limit: int, between: str = " ") -> str:
    """Join as many of the texts as fit, the first in any case."""
    said = ""
    for text in texts:
        longer = f"{said}{between}{text}" if said else text
        if len(longer) > limit:
            return said or cut_at_word(text, limit)
        said = longer
    return said
