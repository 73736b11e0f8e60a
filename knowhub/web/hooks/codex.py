"""Codex: its events, and its rollouts `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

from knowhub.conversations.messages import Message
from knowhub.web.hooks.host import Action, Host, get_text, join_texts, make_hook_output

_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_ANSWERS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
# Older rollouts do not say who wrote a user's message; these are the program's.
_OWN_MESSAGES: Final = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>")


def read_entry(entry: Mapping[str, Any], tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what an entry says: a user, an assistant, or a tool."""
    item = entry.get("payload")
    if entry.get("type") != "response_item" or not isinstance(item, dict):
        return
    kind, role, said_at = str(item.get("type")), str(item.get("role")), get_text(entry, "timestamp")
    call_id = str(item.get("call_id"))
    if kind == "message" and role in {"user", "assistant"}:
        text = join_texts(item.get("content"))
        if text and not _is_own(item, text):
            yield Message(role, text, timestamp=said_at)
    elif kind in _CALLS:
        # A tool of an MCP server has its server in front, or in a field of its own.
        server = get_text(item, "namespace")
        name = get_text(item, "name") or "shell"
        tools[call_id] = f"{server}__{name}" if server else name
    elif kind in _ANSWERS:
        output = item.get("output")
        inner = output.get("content") if isinstance(output, dict) else output
        yield Message("tool", join_texts(inner), tools.get(call_id, ""), timestamp=said_at)


def _is_own(item: Mapping[str, Any], text: str) -> bool:
    """Return whether the program or a hook wrote a message, not a person."""
    if item["role"] != "user":
        return False
    told = item.get("internal_chat_message_metadata_passthrough")
    parts = told.get("content_item_metadata") if isinstance(told, dict) else None
    origins = [part.get("provenance") for part in parts or [] if isinstance(part, dict)]
    named = [origin for origin in origins if isinstance(origin, dict)]
    if named:
        return all(origin.get("type") == "harness" or origin.get("hook") is True for origin in named)
    return text.lstrip().startswith(_OWN_MESSAGES)


HOST: Final = Host(
    "codex",
    {
        "SessionStart": Action.START,
        "UserPromptSubmit": Action.PROMPT,
        "PreCompact": Action.CAPTURE,
        "Stop": Action.CAPTURE,
        "SessionEnd": Action.CAPTURE,
        **dict.fromkeys(("PreToolUse", "PostToolUse", "PostCompact", "SubagentStart", "SubagentStop"), Action.NOTHING),
    },
    "session_id",
    make_hook_output,
    read_entry,
)
