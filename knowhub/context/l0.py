"""The L0 text of a row: what search looks at and shows first, an abstract or a message (CE-087, CE-091)."""

import re
from datetime import datetime
from typing import Final

from knowhub.context import times
from knowhub.context.model import PARTS
from knowhub.core.clock import parse_iso
from knowhub.core.operation import Row

MAX_SHOWN_CHARS = 300
MAX_MESSAGE_CHARS = 2_000
"""So much of a long message is shown to whoever has not asked for the whole of it."""
_MOST_NAME_WORDS: Final = 4
# A name before a colon, as transcripts have it: «Ada Lovelace: », «小王：».
_SPEAKER: Final = re.compile(r"(?P<name>[^\W\d_][^:：\n]{0,39}?)(?::\s|：)")


def searched_text(collection: str, row: Row) -> str:
    """Return what a node or a part is found by."""
    if collection == PARTS:
        return said(row)
    return f"{row['abstract']}"


def searched_days(collection: str, row: Row) -> list[str]:
    """Return the marks of the days by which a node or a part is found: when it was said, and which days it names.

    A message that says "yesterday" is found by the day before it was said.
    """
    moment = said_at(collection, row)
    if moment is None:
        return []
    # Days are those of where it was said.
    moment += ahead_s(collection, row)
    text = str(row["content"] if collection == PARTS else row["abstract"])
    return times.marks_of(moment, times.named_times(text, moment))


def said_at(collection: str, row: Row) -> float | None:
    """Return when a message was said, or an event took place; None where that is not known, or is no time."""
    sent = _sent(collection, row)
    try:
        return parse_iso(str(sent)) if sent else None
    except (ValueError, OverflowError):
        # A message keeps the words of its time as they were sent; what is no time is not searched by it.
        return None


def ahead_s(collection: str, row: Row) -> float:
    """Return how far clocks were ahead of UTC where it was said, in seconds; 0 where that is not known."""
    if said_at(collection, row) is None:
        return 0.0
    offset = datetime.fromisoformat(str(_sent(collection, row))).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def said(row: Row) -> str:
    """Return a message with who said it before it, where it does not begin so by itself."""
    name, content = str(row["name"]), str(row["content"])
    return content if not name or content.startswith((f"{name}:", f"{name}：")) else f"{name}: {content}"


def speaker(row: Row) -> str:
    """Return who said a message: its name, or the one that its text begins with, or else its role."""
    if row["name"]:
        return str(row["name"])
    begins = _SPEAKER.match(str(row["content"]))
    name = begins["name"].strip() if begins else ""
    is_name = name and (name[0].isupper() or not name.isascii()) and len(name.split()) <= _MOST_NAME_WORDS
    return name if is_name else str(row["role"])


def shown(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    """Shorten a text to what a list shows, or to so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _sent(collection: str, row: Row) -> object:
    return row["timestamp"] if collection == PARTS else row["metadata"].get("said_at")
