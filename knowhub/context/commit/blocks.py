"""The content of a memory that grows: blocks behind hyphens, each with the date and session of its source.

Whatever else stands there, because a person wrote it, stays where it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.context import uri
from knowhub.context.extraction.wording import joined, plain

_BULLET: Final = "- "
_INDENT: Final = "  "
_HEADING: Final = "## "
_SOURCE: Final = re.compile(r" \((?P<date>\d{4}-\d{2}-\d{2})?(?:, )?(?:session [^\s()]+)?\)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A statement as it stands in a content: what it says, of when, and its lines there from `start` up to `end`."""

    text: str
    date: str
    start: int
    end: int


def block(text: str, date: str | None, session_id: str) -> str:
    """Write a statement as a block; an empty session is not named."""
    session = f"session {uri.segment(session_id)}" if session_id else ""
    source = ", ".join(part for part in (date, session) if part)
    return _BULLET + text.strip().replace("\n", f"\n{_INDENT}") + (f" ({source})" if source else "")


def blocks(content: str) -> list[Block]:
    """Return the statements of a content, in their order."""
    lines = content.split("\n")
    found: list[Block] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if lines[at].startswith(_BULLET):
            while end < len(lines) and lines[end].startswith(_INDENT):
                end += 1
            found.append(_read(lines[at:end], at, end))
        at = end
    return found


def says(content: str, text: str) -> bool:
    """Tell whether a statement stands in a content, whatever its marks and fillers."""
    wanted = plain(text)
    return any(plain(one.text) == wanted for one in blocks(content))


def added(content: str, new: str, topic: str | None = None) -> str:
    """Return a content with one more block: at its end, or at the end of the section of a topic."""
    if topic is None:
        return f"{content.rstrip()}\n{new}" if content.strip() else new
    lines = content.split("\n") if content.strip() else []
    heading = f"{_HEADING}{topic}"
    if heading not in lines:
        return "\n".join([*lines, *([""] if lines else []), heading, new])
    end = lines.index(heading) + 1
    while end < len(lines) and not lines[end].startswith("#"):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return "\n".join([*lines[:end], new, *lines[end:]])


def replaced(content: str, old: str, new: str) -> str | None:
    """Return a content with a block in the place of the one that says `old`; None where none does."""
    wanted = plain(old)
    standing = next((one for one in blocks(content) if plain(one.text) == wanted), None)
    if standing is None:
        return None
    lines = content.split("\n")
    return "\n".join([*lines[: standing.start], new, *lines[standing.end :]])


def newest_first(content: str, limit: int) -> str:
    """Return the statements of a content on one line, the newest first, as many as fit.

    What a person wrote beside them, which has no date, comes before them.
    """
    found = blocks(content)
    order = sorted(range(len(found)), key=lambda at: (found[at].date, at), reverse=True)
    texts = [*_written(content, found), *(found[at].text for at in order)]
    return joined((" ".join(text.split()) for text in texts), limit)


def listed(content: str, limit: int) -> str:
    """Return the statements of a content line by line below their headings, the newest where not all fit."""
    lines = [line for line in content.split("\n") if line.strip()]
    excess = sum(len(line) + 1 for line in lines) - 1 - limit
    # The oldest go first, and headings only when nothing stands below any.
    dropped: set[int] = set()
    for at in sorted(range(len(lines)), key=lambda at: lines[at].startswith("#")):
        if excess <= 0:
            break
        dropped.add(at)
        excess -= len(lines[at]) + 1
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped) or newest_first(content, limit)


def _written(content: str, found: Sequence[Block]) -> list[str]:
    held = {at for one in found for at in range(one.start, one.end)}
    lines = enumerate(content.split("\n"))
    return [line for at, line in lines if at not in held and line.strip() and not line.startswith("#")]


def _read(lines: Sequence[str], start: int, end: int) -> Block:
    text = "\n".join([lines[0][len(_BULLET) :], *(line[len(_INDENT) :] for line in lines[1:])])
    match = _SOURCE.search(text)
    if match is None:
        return Block(text, "", start, end)
    return Block(text[: match.start()], match["date"] or "", start, end)
