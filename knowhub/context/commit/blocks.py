"""Texts that are kept up in blocks: entries of a page, values of a profile, figures of a tool."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.wording import join_texts, one_line, shorten
from knowhub.context.model import MemoryCategory
from knowhub.conversations.recalled import normalize_words
from knowhub.conversations.statements import read_values
from knowhub.core import clock
from knowhub.core.operation import Row

_BULLET: Final = "- "
_INDENT: Final = "  "
_HEADING: Final = "## "
_SOURCE: Final = re.compile(r" \((?P<date>\d{4}-\d{2}-\d{2})?(?:, )?(?:session (?P<session>[^\s()]+))?\)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A statement in a content: its text, its source, and its lines from `start` to `end`."""

    text: str
    date: str
    start: int
    end: int
    session: str = ""


def block(text: str, date: str | None, session_id: str) -> str:
    """Write a statement as a block; an empty session is not named."""
    return _format_block(text, date or "", uri.segment(session_id) if session_id else "")


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


def contains_text(content: str, text: str) -> bool:
    """Return whether a content has a statement, ignoring punctuation and filler words."""
    return normalize_words(text) in list_texts(content)


def list_texts(content: str) -> frozenset[str]:
    """Return what the statements of a content say, without punctuation and filler words."""
    return frozenset(normalize_words(item.text) for item in blocks(content))


def add_block(content: str, new: str, topic: str | None = None) -> str:
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


def replace_block(content: str, old: str, new: str) -> str | None:
    """Return a content with the block that says `old` replaced; None if there is no such block."""
    wanted = normalize_words(old)
    standing = next((item for item in blocks(content) if normalize_words(item.text) == wanted), None)
    if standing is None:
        return None
    lines = content.split("\n")
    return "\n".join([*lines[: standing.start], new, *lines[standing.end :]])


def remove_text(content: str, text: str) -> str:
    """Return a content without the blocks that say a text, and without a heading that becomes empty by that.

    Punctuation and filler words of a block do not count.
    """
    wanted = normalize_words(text)
    gone = [item for item in blocks(content) if normalize_words(item.text) == wanted]
    if not gone:
        return content
    lines = content.split("\n")
    # From the end to the beginning. `behind` has the lines that stay behind a block, in reverse: each line moves once.
    behind: list[str] = []
    end = len(lines)
    for item in reversed(gone):
        behind += reversed(lines[item.end : end])
        end = _remove_empty_heading(lines, item.start, behind)
    return "\n".join([*lines[:end], *reversed(behind)])


def _remove_empty_heading(lines: Sequence[str], start: int, behind: list[str]) -> int:
    """Return how many lines stay above a block that is removed at `start`; blank ones behind it go with its heading."""
    above = next((at for at in range(start - 1, -1, -1) if lines[at].strip()), -1)
    if above < 0 or not lines[above].startswith(_HEADING):
        return start
    below = next((line for line in reversed(behind) if line.strip()), "#")
    if not below.startswith("#"):
        return start
    while behind and not behind[-1].strip():
        behind.pop()
    end = above
    while end and not lines[end - 1].strip():
        end -= 1
    if end and behind:
        behind.append("")
    return end


def newest_first(content: str, limit: int) -> str:
    """Return the statements of a content on one line, the newest first, as many as fit.

    What a person wrote beside them, which has no date, comes before them.
    """
    found = blocks(content)
    order = sorted(range(len(found)), key=lambda at: (found[at].date, at), reverse=True)
    texts = [*_list_undated_lines(content, found), *(found[at].text for at in order)]
    return join_texts((" ".join(text.split()) for text in texts), limit)


def list_statements(content: str, limit: int) -> str:
    """Return the statements of a content line by line below their headings, the newest where not all fit."""
    lines = [line for line in content.split("\n") if line.strip()]
    excess = sum(len(line) + 1 for line in lines) - 1 - limit
    # The oldest blocks go first; a heading goes when it is empty.
    dropped: set[int] = set()
    for at in sorted(range(len(lines)), key=lambda at: lines[at].startswith("#")):
        if excess <= 0:
            break
        dropped.add(at)
        excess -= len(lines[at]) + 1
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped) or newest_first(content, limit)


def _list_undated_lines(content: str, found: Sequence[Block]) -> list[str]:
    held = {at for item in found for at in range(item.start, item.end)}
    lines = enumerate(content.split("\n"))
    return [line for at, line in lines if at not in held and line.strip() and not line.startswith("#")]


def _read(lines: Sequence[str], start: int, end: int) -> Block:
    text = "\n".join([lines[0][len(_BULLET) :], *(line[len(_INDENT) :] for line in lines[1:])])
    match = _SOURCE.search(text)
    if match is None:
        return Block(text, "", start, end)
    return Block(text[: match.start()], match["date"] or "", start, end, match["session"] or "")


def _format_block(text: str, date: str, session: str) -> str:
    source = ", ".join(part for part in (date, f"session {session}" if session else "") if part)
    return _BULLET + text.strip().replace("\n", f"\n{_INDENT}") + (f" ({source})" if source else "")


VALUES: Final = "values"
"""The key of a profile's metadata that holds the values by their names."""
# So much of a profile is read for values, from its end: new statements are added there.
_READ_CHARS: Final = 100_000
# What is longer is a document and no statement: it is kept as it is, and read for no value.
_MAX_STATEMENT_CHARS: Final = 1_000


def correct_values(before: Row, after: Row, now: float) -> Row:
    """Return a profile with another content: a value goes with its statement, that of a new one holds from now on.

    Else what was corrected away would go on replacing, and keeping out, what is said.
    """
    content, metadata = str(after["content"]), after["metadata"]
    if content == before["content"]:
        return after
    known: Mapping[str, Mapping[str, str]] = metadata.get(VALUES, {})
    read = content[-_READ_CHARS:]
    said, said_before = list_texts(read), list_texts(str(before["content"])[-_READ_CHARS:])
    values = {name: value for name, value in known.items() if normalize_words(value["text"]) in said}
    for block in blocks(read):
        if len(block.text) <= _MAX_STATEMENT_CHARS and normalize_words(block.text) not in said_before:
            for name, value in read_values(block.text)[0]:
                values[name] = {"value": value, "text": block.text, "said_at": clock.iso(now)}
    return {**after, "metadata": {**metadata, VALUES: values}} if values or known else after


_MAX_ABSTRACT: Final = 300
_MAX_OVERVIEW: Final = 1_500
_MAX_NOTES: Final = 200
_MAX_NOTE: Final = 500


def count_uses(earlier: Mapping[str, Any], uses: Sequence[Mapping[str, Any]], noted_at: str | None) -> dict[str, Any]:
    """Return statistics with further calls in them; a call whose time is not known was made when it was noted."""
    times = [time for time in (earlier.get("last_used"), *(use.get("at") or noted_at for use in uses)) if time]
    seconds = [float(use["seconds"]) for use in uses if use.get("seconds") is not None]
    return {
        "calls": earlier.get("calls", 0) + len(uses),
        "success": earlier.get("success", 0) + sum(1 for use in uses if use["ok"]),
        "failure": earlier.get("failure", 0) + sum(1 for use in uses if not use["ok"]),
        "last_used": max(times) if times else None,
        "total_seconds": round(earlier.get("total_seconds", 0.0) + sum(seconds), 6),
    }


def layers(
    candidate: CandidateMemory, before: str, earlier: Mapping[str, Any], stats: Mapping[str, Any]
) -> dict[str, str]:
    """Return the layers of a skill or a tool: new statistics, and its notes and a person's text unchanged."""
    name, is_skill = (
        str(candidate.facts.get("name") or candidate.routing_key),
        candidate.category is MemoryCategory.SKILLS,
    )
    notes = _lines(before.removeprefix(_format_statistics(name, earlier, is_skill=is_skill)))
    for note in notes_of(candidate):
        if len(notes) < _MAX_NOTES and note not in notes:
            notes.append(note)
    return render_layers(name, notes, stats, is_skill=is_skill)


def notes_of(candidate: CandidateMemory) -> list[str]:
    """Return the lines that are noted about the calls of a candidate."""
    return [f"- {_format_note(use)}" for use in candidate.facts.get("uses", ()) if str(use.get("note", "")).strip()]


def render_layers(name: str, notes: Sequence[str], stats: Mapping[str, Any], *, is_skill: bool) -> dict[str, str]:
    """Return the layers of a skill or a tool with these statistics and lines."""
    told = _format_statistics(name, stats, is_skill=is_skill)
    return layers_of("\n".join([told, "", *notes]) if notes else told)


def layers_of(content: str) -> dict[str, str]:
    """Return the layers of a content: its first line says what it is, the last of its notes comes next."""
    told, *notes = [line for line in content.split("\n") if line.strip()] or [""]
    return {
        "abstract": shorten(told, _MAX_ABSTRACT),
        "overview": join_texts([told, *notes[::-1]], _MAX_OVERVIEW, "\n"),
        "content": content,
    }


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _format_statistics(name: str, stats: Mapping[str, Any], *, is_skill: bool) -> str:
    if not stats:
        return ""
    pace = f", {stats['total_seconds']:.2f} s in all" if stats["total_seconds"] else ""
    last = f"; last used {stats['last_used'][:10]}" if stats.get("last_used") else ""
    kind = "Skill" if is_skill else "Tool"
    calls = f"{stats['calls']} call{'s' if stats['calls'] != 1 else ''}"
    return f"{kind} {name}: {calls}, {stats['success']} succeeded, {stats['failure']} failed{pace}{last}."


def _format_note(use: Mapping[str, Any]) -> str:
    outcome = "" if use["ok"] else "failed: "
    return f"{outcome}{shorten(one_line(str(use['note'])), _MAX_NOTE)}"
