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
_SOURCE: Final = re.compile(r" \((?P<date>\d{4}-\d{2}-\d{2})?(?:, )?(?:session (?P<session>[^\s()]+))?\)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A statement as it stands in a content: what it says, its source, and its lines there from `start` to `end`."""

    text: str
    date: str
    start: int
    end: int
    session: str = ""


def block(text: str, date: str | None, session_id: str) -> str:
    """Write a statement as a block; an empty session is not named."""
    return _written(text, date or "", uri.segment(session_id) if session_id else "")


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


def unsaid(content: str, text: str) -> str:
    """Return a content without the blocks that say a text, whatever their marks and fillers."""
    wanted = plain(text)
    for one in reversed(blocks(content)):
        content = without(content, one) if plain(one.text) == wanted else content
    return content


def without(content: str, one: Block) -> str:
    """Return a content without a block of it, and without its heading where nothing else stands below that."""
    lines = content.split("\n")
    start, end = one.start, one.end
    above = next((at for at in range(start - 1, -1, -1) if lines[at].strip()), -1)
    below = next((at for at in range(end, len(lines)) if lines[at].strip()), len(lines))
    if above >= 0 and lines[above].startswith(_HEADING) and (below == len(lines) or lines[below].startswith("#")):
        start, end = above, below
        while start and not lines[start - 1].strip():
            start -= 1
        if start and end < len(lines):
            return "\n".join([*lines[:start], "", *lines[end:]])
    return "\n".join([*lines[:start], *lines[end:]])


def resourced(content: str, one: Block, date: str, session: str) -> str:
    """Return a content with another source of a block of it."""
    lines = content.split("\n")
    return "\n".join([*lines[: one.start], _written(one.text, date, session), *lines[one.end :]])


def written(content: str, one: Block) -> str:
    """Return a block as it is written in a content."""
    return "\n".join(content.split("\n")[one.start : one.end])


def topic_of(content: str, one: Block) -> str | None:
    """Return the topic in whose section a block stands; None where there are no sections."""
    above = content.split("\n")[: one.start]
    return next((line.removeprefix(_HEADING) for line in reversed(above) if line.startswith(_HEADING)), None)


def is_bare(content: str) -> bool:
    """Tell whether a content has no more than headings."""
    return all(not line.strip() or line.startswith("#") for line in content.split("\n"))


def newest_first(content: str, limit: int) -> str:
    """Return the statements of a content on one line, the newest first, as many as fit.

    What a person wrote beside them, which has no date, comes before them.
    """
    found = blocks(content)
    order = sorted(range(len(found)), key=lambda at: (found[at].date, at), reverse=True)
    texts = [*_beside(content, found), *(found[at].text for at in order)]
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


def _beside(content: str, found: Sequence[Block]) -> list[str]:
    held = {at for one in found for at in range(one.start, one.end)}
    lines = enumerate(content.split("\n"))
    return [line for at, line in lines if at not in held and line.strip() and not line.startswith("#")]


def _read(lines: Sequence[str], start: int, end: int) -> Block:
    text = "\n".join([lines[0][len(_BULLET) :], *(line[len(_INDENT) :] for line in lines[1:])])
    match = _SOURCE.search(text)
    if match is None:
        return Block(text, "", start, end)
    return Block(text[: match.start()], match["date"] or "", start, end, match["session"] or "")


def _written(text: str, date: str, session: str) -> str:
    source = ", ".join(part for part in (date, f"session {session}" if session else "") if part)
    return _BULLET + text.strip().replace("\n", f"\n{_INDENT}") + (f" ({source})" if source else "")
