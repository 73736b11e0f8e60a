"""Transcripts of coding agents: Claude Code, and the rollouts of Codex.

The entries are read as the hooks read them, so that what a hook captured and what is imported is one conversation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from knowhub.cli.importers.model import Conversation, get_object, list_objects
from knowhub.cli.importers.source import ImportSource, SourceFile
from knowhub.conversations.messages import Message
from knowhub.web.hooks.hosts import CLAUDE_LEFT_OUT, read_claude_entry, read_codex_entry
from knowhub.web.hooks.transcripts import clean_messages, parse_entry

_KIND_CHARS: Final = 40
_NOT_JSON: Final = "lines that are no JSON objects, or cut off"


def read_claude_code(source: ImportSource) -> Iterator[Conversation]:
    """Yield the sessions of transcripts, each entry once: a resumed session may begin with a copy of another."""
    seen: set[str] = set()
    # Copies are in the newer file.
    for file in sorted(source.list_files(".jsonl"), key=lambda file: file.modified_at or ""):
        sessions: defaultdict[str, list[Message]] = defaultdict(list)
        entries = list(_read_entries(file, source.left_out))
        current = _find_current(entries)
        for entry in entries:
            uuid = entry.uuid
            if uuid in seen:
                source.left_out["entries that another session has too"] += 1
            elif uuid and uuid not in current:
                source.left_out["entries of branches that were given up"] += bool(entry.messages)
            else:
                sessions[entry.session_id].extend(entry.messages)
            seen.update([uuid] if uuid else [])
        for session_id, messages in sessions.items():
            if messages:
                yield Conversation(session_id, messages)


@dataclass(frozen=True, slots=True)
class _TranscriptEntry:
    """A line of a transcript. `turn` is the id of the model's message, which several lines share."""

    uuid: str
    parent: str
    session_id: str
    turn: str
    is_tool_answer: bool
    messages: Sequence[Message]


def _read_entries(file: SourceFile, left_out: Counter[str]) -> Iterator[_TranscriptEntry]:
    tools: dict[str, str] = {}
    for offset, line in file.iterate_lines():
        entry = parse_entry(line)
        if entry is None:
            left_out[_NOT_JSON] += bool(line.strip())
            continue
        why = _find_reason(entry)
        messages: Sequence[Message] = ()
        if why:
            left_out[why] += 1
        else:
            messages = clean_messages(read_claude_entry(entry, tools), left_out, line, offset)
        message = get_object(entry.get("message"))
        yield _TranscriptEntry(
            str(entry.get("uuid") or ""),
            str(entry.get("parentUuid") or entry.get("logicalParentUuid") or ""),
            str(entry.get("sessionId") or file.path.stem),
            str(message.get("id") or ""),
            any(block.get("type") == "tool_result" for block in list_objects(message.get("content"))),
            messages,
        )


def _find_reason(entry: Mapping[str, Any]) -> str:
    """Return why an entry is left out; nothing for a message."""
    kind = str(entry.get("type"))[:_KIND_CHARS]
    if entry.get("isSidechain"):
        return "entries of sub-agents"
    if kind == "attachment":
        return f"attachments {str(get_object(entry.get('attachment')).get('type'))[:_KIND_CHARS]}"
    if kind not in {"user", "assistant"}:
        return f"entries {kind}"
    return next((f"entries with {flag}" for flag in CLAUDE_LEFT_OUT if entry.get(flag)), "")


def _find_current(entries: Sequence[_TranscriptEntry]) -> set[str]:
    """Return the entries of the conversation as it went on, without the branches that the user took back.

    The last message leads back to the first. Beside that path are the tools that were called together, which stay.
    """
    parents = {entry.uuid: entry.parent for entry in entries if entry.uuid}
    path: set[str] = set()
    at = next((entry.uuid for entry in reversed(entries) if entry.messages and entry.uuid), "")
    while at in parents and at not in path:
        path.add(at)
        at = parents[at]
    turns = {entry.turn for entry in entries if entry.uuid in path and entry.turn}
    current = set(path)
    for entry in entries:
        # A parent that is not in the file begins a conversation of its own.
        is_beside = entry.parent in parents and not (entry.is_tool_answer or entry.turn in turns)
        is_given_up = entry.parent in parents and entry.parent not in current
        if not is_given_up and not (is_beside and entry.parent in path):
            current.add(entry.uuid)
    return current


_CODEX_ITEMS: Final = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")


def read_codex(source: ImportSource) -> Iterator[Conversation]:
    """Yield the sessions of rollouts, also of the first versions, whose lines are bare items."""
    for file in source.list_files(".jsonl"):
        session_id, tools = "", dict[str, str]()
        messages: list[Message] = []
        for offset, line in file.iterate_lines():
            entry = parse_entry(line)
            if entry is None:
                source.left_out[_NOT_JSON] += bool(line.strip())
                continue
            kind = str(entry.get("type"))
            if kind in _CODEX_ITEMS:
                entry = {"type": "response_item", "timestamp": entry.get("timestamp"), "payload": entry}
            payload = get_object(entry.get("payload"))
            read = clean_messages(read_codex_entry(entry, tools), source.left_out, line, offset)
            messages += read
            if kind == "session_meta" or (not session_id and kind == "None"):
                session_id = session_id or str((payload or entry).get("id") or "")
            elif not read:
                inner = str(payload.get("type") or "")[:_KIND_CHARS]
                source.left_out[f"entries {kind[:_KIND_CHARS]} {inner}".rstrip()] += 1
        if messages:
            yield Conversation(session_id or file.path.stem, messages)
