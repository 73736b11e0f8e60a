"""The transcript of a session, as its L2 shows it: Markdown, a heading for each message, its words as they were sent.

What further messages add stands behind what there was: two transcripts in a row are the transcript of both. No message
can make a heading of its own: a line of it that begins like one has a backslash before it, which Markdown hides.
"""

import re
from collections.abc import Iterable
from typing import Final

from knowhub.core.operation import Row

# A line, after whatever any reader takes for its break, that begins like a heading of the transcript. What has
# backslashes already gets one more, so that what was said can be told from what is shown.
_BREAKS: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LIKE_HEADING: Final = re.compile(rf"(?:^|(?<=[{_BREAKS}]))([^\S{_BREAKS}]*)(\\*##(?!#))")


def transcript(parts: Iterable[Row]) -> str:
    """Write messages in the order in which they come; none are an empty text."""
    return "".join(map(_message, parts))


def _message(part: Row) -> str:
    said_by = f"{part['name']} ({part['role']})" if part["name"] else str(part["role"])
    message_id = f"`{part['message_id']}`" if part["message_id"] else ""
    heading = " · ".join(filter(None, map(_one_line, (said_by, part["timestamp"] or "", message_id))))
    content = str(part["content"])
    # Few messages have two hashes at all, and those are found many times faster than a heading is.
    if "##" in content:
        content = _LIKE_HEADING.sub(r"\1\\\2", content)
    return f"## {heading}\n\n{content}\n\n"


def _one_line(text: str) -> str:
    # A line break in a name would make a second heading of it.
    return " ".join(str(text).split())
