"""The transcript of a session, as its L2 shows it: Markdown, a heading for each message, its words as they were sent.

What further messages add stands behind what there was: two transcripts in a row are the transcript of both.
"""

from collections.abc import Iterable

from knowhub.core.operation import Row


def transcript(parts: Iterable[Row]) -> str:
    """Write messages in the order in which they come; none are an empty text."""
    return "".join(map(_message, parts))


def _message(part: Row) -> str:
    said_by = f"{part['name']} ({part['role']})" if part["name"] else str(part["role"])
    message_id = f"`{part['message_id']}`" if part["message_id"] else ""
    heading = " · ".join(filter(None, map(_one_line, (said_by, part["timestamp"] or "", message_id))))
    return f"## {heading}\n\n{part['content']}\n\n"


def _one_line(text: str) -> str:
    # A line break in a name would make a second heading of it.
    return " ".join(str(text).split())
