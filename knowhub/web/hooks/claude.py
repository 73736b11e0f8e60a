"""Claude Code: its events, and its transcripts `~/.claude/projects/*/*.jsonl`."""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

from knowhub.conversations.messages import Message
from knowhub.web.hooks.host import Action, Host, get_text, make_hook_output, read_blocks

# What the program writes into the user's messages. It is not what a person said.
_OWN_MESSAGES: Final = ("<command-", "<local-command-", "<bash-", "Caveat: The messages below were generated")
_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)\s*", re.DOTALL)
# Work of a sub-agent, texts of the program, and the summary of a compaction.
LEFT_OUT: Final = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")


def read_entry(entry: Mapping[str, Any], tools: MutableMapping[str, str]) -> Iterator[Message]:
    """Yield what an entry says: a user, an assistant, or a tool. What a hook showed is an attachment and no message."""
    said = entry.get("message")
    if str(entry.get("type")) not in {"user", "assistant"} or not isinstance(said, dict):
        return
    if any(entry.get(flag) for flag in LEFT_OUT):
        return
    message = Message(str(entry["type"]), "", "", get_text(entry, "uuid"), get_text(entry, "timestamp"))
    for read in read_blocks(message, said.get("content"), tools):
        if not read.is_user:
            yield read
        elif not read.content.lstrip().startswith(_OWN_MESSAGES):
            content = _REMINDER.sub("", read.content)
            yield Message(read.role, content, read.name, read.message_id, read.timestamp)


HOST: Final = Host(
    "claude",
    {
        "SessionStart": Action.START,
        "UserPromptSubmit": Action.PROMPT,
        "PreCompact": Action.CAPTURE,
        "Stop": Action.CAPTURE,
        "SessionEnd": Action.CAPTURE,
        **dict.fromkeys(("PreToolUse", "PostToolUse", "SubagentStop", "Notification"), Action.NOTHING),
    },
    "session_id",
    make_hook_output,
    read_entry,
)
