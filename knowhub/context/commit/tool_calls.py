"""Calls of tools and skills: each counts once, by its own id, and the text of a tool says what they add up to."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory, ToolUse, UsedTool
from knowhub.context.model import MemoryCategory
from knowhub.context.texts import MAX_ABSTRACT, MAX_OVERVIEW, cut_at_word, join_texts, one_line
from knowhub.conversations.language import dates
from knowhub.conversations.messages import Message, is_own_tool
from knowhub.conversations.recalled import is_recall_answer
from knowhub.conversations.statements.lessons import find_failure

_CALL: Final = "call:"
"""How the id of a call begins that the commit names; that of an answer of a tool is the URI of its part."""
_NUMBERED: Final = "-"
_ID_DIGITS: Final = 12
_MAX_NOTES: Final = 200
_MAX_NOTE: Final = 500


def find_tool_calls(
    session_uri: str, messages: Sequence[Message], used_tools: Sequence[UsedTool]
) -> list[CandidateMemory]:
    """Return the tools and skills that were used, one candidate for each.

    Where the commit names calls of a tool, messages of that tool are the answers to those calls, and no more calls.
    Calls of KnowHub's own tools do not count.
    """
    grouped: dict[tuple[str, str], list[ToolUse]] = defaultdict(list)
    for used, use in zip(used_tools, _name_calls(used_tools), strict=True):
        if used.kind != "tool" or not is_own_tool(used.name):
            grouped[used.kind, used.name].append(use)
    named = {name for _, name in grouped}
    for message in messages:
        is_call = message.is_tool and message.name.strip() and message.name not in named
        if is_call and not is_recall_answer(message):
            part, at = uri.part_uri(session_uri, message.message_id or ""), dates.read_moment(message.timestamp)
            grouped["tool", message.name].append(ToolUse(part, not find_failure(message.content), at=at))
    return [_make_candidate(kind, name, calls) for (kind, name), calls in grouped.items()]


def _name_calls(used_tools: Sequence[UsedTool]) -> list[ToolUse]:
    """Return the named calls: with their ids, else with an id of their content and number among equal calls."""
    occurrences: dict[str, int] = defaultdict(int)
    calls = []
    for used in used_tools:
        said = used.call_id or uri.stable_hash(used.ok, used.seconds, used.note)
        call_id = f"{_CALL}{uri.stable_hash(used.kind, used.name, said)[:_ID_DIGITS]}"
        if not used.call_id:
            occurrences[call_id] += 1
            call_id = f"{call_id}{_NUMBERED}{occurrences[call_id]}"
        calls.append(ToolUse(call_id, used.ok, used.seconds, used.note))
    return calls


def list_call_ids(candidates: Iterable[CandidateMemory]) -> list[str]:
    """Return the ids of the calls of tools that the commit names."""
    return [use.use_id for item in candidates for use in item.uses if use.use_id.startswith(_CALL)]


def renumber_calls(candidates: Sequence[CandidateMemory], counted: Iterable[str]) -> list[CandidateMemory]:
    """Return the candidates with calls that nothing names but their order numbered after those that are counted."""
    last: dict[str, int] = {}
    for use_id in counted:
        name, separator, number = use_id.rpartition(_NUMBERED)
        if separator:
            last[name] = max(last.get(name, 0), int(number))

    def renumber(use: ToolUse) -> ToolUse:
        name, separator, number = use.use_id.rpartition(_NUMBERED)
        is_numbered = separator and name.startswith(_CALL)
        return replace(use, use_id=f"{name}{_NUMBERED}{last.get(name, 0) + int(number)}") if is_numbered else use

    return [replace(item, uses=[renumber(use) for use in item.uses]) for item in candidates]


def _make_candidate(kind: str, name: str, uses: Sequence[ToolUse]) -> CandidateMemory:
    category = MemoryCategory.SKILLS if kind == "skill" else MemoryCategory.TOOLS
    sources = [use.use_id for use in uses if not use.use_id.startswith(_CALL)]
    said_at = max(use.at or "" for use in uses)
    return CandidateMemory(category, name, f"{name}: {len(uses)}", sources, said_at=said_at, uses=uses)


def count_uses(earlier: Mapping[str, Any], uses: Sequence[ToolUse], recorded_at: str) -> dict[str, Any]:
    """Return statistics with further calls in them; a call whose time is not known was made when it was noted."""
    times = [time for time in (earlier.get("last_used"), *(use.at or recorded_at for use in uses)) if time]
    seconds = [float(use.seconds) for use in uses if use.seconds is not None]
    return {
        "calls": earlier.get("calls", 0) + len(uses),
        "success": earlier.get("success", 0) + sum(use.ok for use in uses),
        "failure": earlier.get("failure", 0) + sum(not use.ok for use in uses),
        "last_used": max(times) if times else None,
        "total_seconds": round(earlier.get("total_seconds", 0.0) + sum(seconds), 6),
    }


def make_layers(
    candidate: CandidateMemory, before: str, earlier: Mapping[str, Any], stats: Mapping[str, Any]
) -> dict[str, str]:
    """Return the layers of a skill or a tool: new statistics, and its notes and a person's text unchanged."""
    name = candidate.routing_key
    kind = "Skill" if candidate.category is MemoryCategory.SKILLS else "Tool"
    old = before.removeprefix(_format_statistics(kind, name, earlier))
    notes = [line for line in old.split("\n") if line]
    for use in candidate.uses:
        note = f"- {'' if use.ok else 'failed: '}{cut_at_word(one_line(use.note), _MAX_NOTE)}"
        if use.note.strip() and len(notes) < _MAX_NOTES and note not in notes:
            notes.append(note)
    said = _format_statistics(kind, name, stats)
    return split_layers("\n".join([said, "", *notes]) if notes else said)


def split_layers(content: str) -> dict[str, str]:
    """Return the layers of a content: its first line says what it is, the last of its notes comes next."""
    first_line, *notes = [line for line in content.split("\n") if line.strip()] or [""]
    return {
        "abstract": cut_at_word(first_line, MAX_ABSTRACT),
        "overview": join_texts([first_line, *notes[::-1]], MAX_OVERVIEW, "\n"),
        "content": content,
    }


def _format_statistics(kind: str, name: str, stats: Mapping[str, Any]) -> str:
    if not stats:
        return ""
    pace = f", {stats['total_seconds']:.2f} s in all" if stats["total_seconds"] else ""
    last = f"; last used {stats['last_used'][:10]}" if stats.get("last_used") else ""
    calls = f"{stats['calls']} call{'s' if stats['calls'] != 1 else ''}"
    return f"{kind} {name}: {calls}, {stats['success']} succeeded, {stats['failure']} failed{pace}{last}."
