"""Calls of tools and skills as candidates: each counts once, by its own id."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory, UsedTool
from knowhub.context.extraction.candidates import CandidateFactory
from knowhub.context.model import MemoryCategory
from knowhub.conversations import dates
from knowhub.conversations.lessons import find_failure
from knowhub.conversations.messages import Message, is_own_tool

USES: Final = "tool_uses"
"""The key among an archive's stats of the calls that the commit names; it is for the extraction alone."""
CALL: Final = "call:"
"""How the id of a call begins that the commit names; that of an answer of a tool is the URI of its part."""
_NUMBERED: Final = "-"
_ID_DIGITS: Final = 12


def list_named_uses(used_tools: Sequence[UsedTool]) -> list[dict[str, Any]]:
    """Return the named calls: with their ids, else with an id of their content and number among equal calls."""
    occurrences: dict[str, int] = defaultdict(int)
    uses = []
    for used in used_tools:
        told = used.call_id or uri.stable_hash(used.ok, used.seconds, used.note)
        whole = f"{CALL}{uri.stable_hash(used.kind, used.name, told)[:_ID_DIGITS]}"
        if not used.call_id:
            occurrences[whole] += 1
            whole = f"{whole}{_NUMBERED}{occurrences[whole]}"
        uses.append(
            {
                "id": whole,
                "name": used.name,
                "kind": used.kind,
                "ok": used.ok,
                "seconds": used.seconds,
                "note": used.note,
            }
        )
    return uses


def continue_use_ids(use_ids: Iterable[str], counted: Iterable[str]) -> dict[str, str]:
    """Return what calls without ids of their own are called where they go on behind those that are counted already."""
    last: dict[str, int] = {}
    for use_id in counted:
        told, numbered, number = use_id.rpartition(_NUMBERED)
        if numbered:
            last[told] = max(last.get(told, 0), int(number))
    split = ((use_id, use_id.rpartition(_NUMBERED)) for use_id in use_ids if use_id.startswith(CALL))
    return {
        use_id: f"{told}{_NUMBERED}{last.get(told, 0) + int(number)}"
        for use_id, (told, numbered, number) in split
        if numbered
    }


def find_tool_uses(telling: CandidateFactory) -> list[CandidateMemory]:
    """Return the tools and skills that were used, one candidate for each.

    Where the commit names calls of a tool, messages of that tool are the answers to those calls, and no more calls.
    Calls of KnowHub's own tools are left out, as what these answered is: they are how it remembers, and no memory.
    """
    named = [item for item in telling.archive.stats.get(USES, ()) if not _is_own(item)]
    names = {str(use["name"]) for use in named}
    uses = [*named, *(_message_use(telling, number, answer) for number, answer in _answers(telling.messages, names))]
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for use in uses:
        grouped[str(use["kind"]), str(use["name"])].append(use)
    return [_candidate(kind, name, calls) for (kind, name), calls in grouped.items()]


def _answers(messages: Sequence[Message], named: set[str]) -> Iterable[tuple[int, Message]]:
    return (
        (number, message)
        for number, message in enumerate(messages)
        if message.is_tool and message.name.strip() and message.name not in named and not is_own_tool(message.name)
    )


def _is_own(use: Mapping[str, Any]) -> bool:
    return use["kind"] == "tool" and is_own_tool(str(use["name"]))


def _message_use(telling: CandidateFactory, number: int, message: Message) -> dict[str, Any]:
    at = dates.moment_of(message.timestamp)
    use = {"name": message.name, "kind": "tool", "ok": not find_failure(message.content), "seconds": None, "note": ""}
    return {"id": telling.part(number), **use, "at": at}


def _candidate(kind: str, name: str, uses: Sequence[Mapping[str, Any]]) -> CandidateMemory:
    category = MemoryCategory.SKILLS if kind == "skill" else MemoryCategory.TOOLS
    calls = [{key: value for key, value in use.items() if key not in ("name", "kind")} for use in uses]
    told = f"{name}: {len(calls)}"
    sources = [use["id"] for use in uses if not str(use["id"]).startswith(CALL)]
    facts = {"uses": calls, "name": name, "said_at": max((use.get("at") or "" for use in uses), default="") or None}
    return CandidateMemory(category, "agent", name, told, told, told, 1.0, sources, facts=facts)
