"""The hosts of hooks: the events of each, the form of its answers, and the entries of its transcripts.

Claude Code keeps `~/.claude/projects/*/*.jsonl`, Codex `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, and Cursor
`~/.cursor/projects/*/agent-transcripts/*/*.jsonl`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from knowhub.conversations.messages import Message

# What Claude Code writes into the user's messages. It is not what a person said.
_CLAUDE_MESSAGES: Final = ("<command-", "<local-command-", "<bash-", "Caveat: The messages below were generated")
_CLAUDE_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)\s*", re.DOTALL)
# Work of a sub-agent, texts of Claude Code, and the summary of a compaction.
CLAUDE_LEFT_OUT: Final = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_CODEX_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_CODEX_ANSWERS: Final = frozenset({f"{call}_output" for call in _CODEX_CALLS})
# Older rollouts do not say who wrote a user's message; these are Codex's own.
_CODEX_MESSAGES: Final = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>")
# Cursor puts what a person typed into this tag.
_TYPED: Final = re.compile(r"<user_query>\s*(.*?)\s*(?:</user_query>|\Z)", re.DOTALL)


class Action(StrEnum):
    """What KnowHub does at an event."""

    START = "start"  # show the profile, and what fits the project
    PROMPT = "prompt"  # show what fits the prompt
    CAPTURE = "capture"  # commit what is new in the transcript
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Host:
    """A program with hooks.

    `events` are its names of events. `session_field` is where its payloads name the session. `make_answer(event, text)`
    returns its form of an answer that shows a text, or shows nothing. `read_entry(entry, tools)` yields the messages of
    an entry of a transcript, and keeps the names of tools by the ids of their calls in `tools`.
    """

    name: str
    events: Mapping[str, Action]
    session_field: str
    make_answer: Callable[[str, str], dict[str, Any]]
    read_entry: Callable[[Mapping[str, Any], MutableMapping[str, str]], Iterator[Message]]

    def find_event(self, written: str) -> str | None:
        """Return the event with this name, in any case, with or without hyphens and underscores."""
        wanted = _normalize_name(written)
        return next((event for event in self.events if _normalize_name(event) == wanted), None)


def read_claude_entry(entry: Mapping[str, Any], tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what an entry of Claude Code says. What a hook showed is an attachment and no message."""
    said = entry.get("message")
    if str(entry.get("type")) not in {"user", "assistant"} or not isinstance(said, dict):
        return
    if any(entry.get(flag) for flag in CLAUDE_LEFT_OUT):
        return
    message = Message(str(entry["type"]), "", "", get_text(entry, "uuid"), get_text(entry, "timestamp"))
    for read in read_blocks(message, said.get("content"), tools):
        if not read.is_user:
            yield read
        elif not read.content.lstrip().startswith(_CLAUDE_MESSAGES):
            content = _CLAUDE_REMINDER.sub("", read.content)
            yield Message(read.role, content, read.name, read.message_id, read.timestamp)


def read_codex_entry(entry: Mapping[str, Any], tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what an entry of Codex says."""
    item = entry.get("payload")
    if entry.get("type") != "response_item" or not isinstance(item, dict):
        return
    kind, role, said_at = str(item.get("type")), str(item.get("role")), get_text(entry, "timestamp")
    call_id = str(item.get("call_id"))
    if kind == "message" and role in {"user", "assistant"}:
        text = join_texts(item.get("content"))
        if text and not _is_from_codex(item, text):
            yield Message(role, text, timestamp=said_at)
    elif kind in _CODEX_CALLS:
        # A tool of an MCP server has its server in front, or in a field of its own.
        server = get_text(item, "namespace")
        name = get_text(item, "name") or "shell"
        tools[call_id] = f"{server}__{name}" if server else name
    elif kind in _CODEX_ANSWERS:
        output = item.get("output")
        inner = output.get("content") if isinstance(output, dict) else output
        yield Message("tool", join_texts(inner), tools.get(call_id, ""), timestamp=said_at)


def _is_from_codex(item: Mapping[str, Any], text: str) -> bool:
    """Return whether the program or a hook wrote a message, not a person."""
    if item["role"] != "user":
        return False
    passthrough = item.get("internal_chat_message_metadata_passthrough")
    parts = passthrough.get("content_item_metadata") if isinstance(passthrough, dict) else None
    origins = [part.get("provenance") for part in parts or [] if isinstance(part, dict)]
    named = [origin for origin in origins if isinstance(origin, dict)]
    if named:
        return all(origin.get("type") == "harness" or origin.get("hook") is True for origin in named)
    return text.lstrip().startswith(_CODEX_MESSAGES)


def _read_cursor_entry(entry: Mapping[str, Any], tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what an entry of Cursor says."""
    said = entry.get("message")
    if entry.get("role") not in {"user", "assistant"} or not isinstance(said, dict):
        return
    message = Message(str(entry["role"]), "", timestamp=get_text(entry, "timestamp"))
    for read in read_blocks(message, said.get("content"), tools):
        typed = _TYPED.findall(read.content) if read.is_user else None
        yield Message(read.role, "\n".join(typed), timestamp=read.timestamp) if typed else read


def read_blocks(message: Message, content: object, tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what the content blocks of Anthropic's API say: the answers of tools, and `message` with the texts.

    Thoughts, images and calls of tools are left out. The ids of answers are that of `message` with a number
    behind it, where it has one.
    """
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for number, block in enumerate(filter(_is_object, blocks)):
        if block.get("type") == "tool_use":
            tools[str(block.get("id"))] = str(block.get("name") or "")
        elif block.get("type") == "tool_result":
            own_id = f"{message.message_id}-{number}" if message.message_id else None
            name = tools.get(str(block.get("tool_use_id")), "")
            yield Message("tool", join_texts(block.get("content")), name, own_id, message.timestamp)
    if text := join_texts([block for block in blocks if _is_object(block) and block.get("type") == "text"]):
        yield Message(message.role, text, message.name, message.message_id, message.timestamp)


def join_texts(content: object) -> str:
    """Return the text of a text, or of a list of objects that have a `text`."""
    if isinstance(content, str):
        return content
    blocks: Sequence[object] = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def get_text(entry: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text, else None."""
    value = entry.get(name)
    return value if isinstance(value, str) and value else None


def _is_object(block: object) -> bool:
    return isinstance(block, dict)


def _normalize_name(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def _answer_claude(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else {}


def _answer_cursor(event: str, text: str) -> dict[str, Any]:
    """Answer Cursor, which takes text when a session starts, not when a prompt is sent."""
    if event == "beforeSubmitPrompt":
        return {"continue": True}
    return {"additional_context": text} if text else {}


_EVENTS: Final = {
    "SessionStart": Action.START,
    "UserPromptSubmit": Action.PROMPT,
    "PreCompact": Action.CAPTURE,
    "Stop": Action.CAPTURE,
    "SessionEnd": Action.CAPTURE,
    **dict.fromkeys(("PreToolUse", "PostToolUse", "SubagentStop"), Action.NOTHING),
}
_CLAUDE_EVENTS: Final = {**_EVENTS, "Notification": Action.NOTHING}
_CODEX_EVENTS: Final = {**_EVENTS, "PostCompact": Action.NOTHING, "SubagentStart": Action.NOTHING}
_CURSOR_EVENTS: Final = {
    "sessionStart": Action.START,
    **dict.fromkeys(("preCompact", "stop", "sessionEnd"), Action.CAPTURE),
    **dict.fromkeys(
        ("beforeSubmitPrompt", "afterAgentResponse", "preToolUse", "postToolUse", "subagentStop"), Action.NOTHING
    ),
}
_HOSTS: Final = (
    Host("claude", _CLAUDE_EVENTS, "session_id", _answer_claude, read_claude_entry),
    Host("codex", _CODEX_EVENTS, "session_id", _answer_claude, read_codex_entry),
    Host("cursor", _CURSOR_EVENTS, "conversation_id", _answer_cursor, _read_cursor_entry),
)
HOSTS: Final = {host.name: host for host in _HOSTS}
