"""What is said of a tool or a skill: how often it was called, how well that went, and what was noted."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.wording import join_texts, one_line, shorten
from knowhub.context.model import MemoryCategory

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
