"""Cursor: its events, and its transcripts `~/.cursor/projects/*/agent-transcripts/*/*.jsonl`.

Cursor takes text from a hook when a session starts, not when a prompt is sent.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

from knowhub.conversations.messages import Message
from knowhub.web.hooks.host import Action, Host, get_text, read_blocks

# The program puts what a person typed into this tag.
_TYPED: Final = re.compile(r"<user_query>\s*(.*?)\s*(?:</user_query>|\Z)", re.DOTALL)


def read_entry(entry: Mapping[str, Any], tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what an entry says: a user, an assistant, or a tool."""
    said = entry.get("message")
    if entry.get("role") not in {"user", "assistant"} or not isinstance(said, dict):
        return
    message = Message(str(entry["role"]), "", timestamp=get_text(entry, "timestamp"))
    for read in read_blocks(message, said.get("content"), tools):
        typed = _TYPED.findall(read.content) if read.is_user else None
        yield Message(read.role, "\n".join(typed), timestamp=read.timestamp) if typed else read


def _make_answer(event: str, text: str) -> dict[str, Any]:
    if event == "beforeSubmitPrompt":
        return {"continue": True}
    return {"additional_context": text} if text else {}


HOST: Final = Host(
    "cursor",
    {
        "sessionStart": Action.START,
        "preCompact": Action.CAPTURE,
        "stop": Action.CAPTURE,
        "sessionEnd": Action.CAPTURE,
        **dict.fromkeys(
            ("beforeSubmitPrompt", "afterAgentResponse", "preToolUse", "postToolUse", "subagentStop"), Action.NOTHING
        ),
    },
    "conversation_id",
    _make_answer,
    read_entry,
)
