"""The messages of a conversation: who wrote each, and what of them is read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.conversations.language.sentence_ends import SENTENCE_END
from knowhub.conversations.secrets.detection import OVERLAP_CHARS, find_cut

USER_ROLES: Final = frozenset({"user", "human", "用户", "用戶"})
AGENT_ROLES: Final = frozenset({"assistant", "ai", "model", "助手"})
TOOL_ROLES: Final = frozenset({"tool", "function", "工具"})
SYSTEM_ROLES: Final = frozenset({"system", "developer", "系统", "系統"})
"""An application's words, which are nobody's: neither a person's nor a model's."""

ALL_ROLES: Final = USER_ROLES | AGENT_ROLES | TOOL_ROLES | SYSTEM_ROLES


def has_role(roles: frozenset[str], role: str) -> bool:
    """Return whether a role is one of these, in any case."""
    return role.strip().casefold() in roles


MAX_READ_MESSAGES: Final = 2_000
MAX_READ_CHARS: Final = 400_000
"""So much of a conversation is read for what it says, the newest messages first."""
MAX_READ_SENTENCES: Final = 20_000
"""So many sentences of a conversation, by the marks that end them: short ones take as long to read as long ones."""
MAX_MESSAGE_READ_CHARS: Final = 16_384
"""So much of each message is read, from its beginning."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; only `role` and `content` are needed. `timestamp` is ISO 8601 as it was sent."""

    role: str
    content: str
    name: str = ""
    message_id: str | None = None
    timestamp: str | None = None

    @property
    def is_user(self) -> bool:
        """Whether a person wrote it."""
        return has_role(USER_ROLES, self.role)

    @property
    def is_agent(self) -> bool:
        """Whether a model wrote it."""
        return has_role(AGENT_ROLES, self.role)

    @property
    def is_tool(self) -> bool:
        """Whether it is what a tool answered."""
        return has_role(TOOL_ROLES, self.role)

    @property
    def is_system(self) -> bool:
        """Whether it is an application's words, which are nobody's memories."""
        return has_role(SYSTEM_ROLES, self.role)

    def strip_label(self, text: str) -> str:
        """Return a text of the message without the name of its author before it."""
        rest = text.removeprefix(self.name) if self.name else ""
        return rest[1:].lstrip() if rest != text and rest.startswith((":", "：")) else text


def list_readable(messages: Sequence[Message]) -> list[Message]:
    """Return the newest messages that are read, in their order, without the ends of long ones.

    A secret at the place where the reading ends is still whole, so that it is recognised.
    """
    chars, sentences = MAX_READ_CHARS, MAX_READ_SENTENCES
    readable: list[Message] = []
    for message in reversed(messages[-MAX_READ_MESSAGES:]):
        read = message.content[:MAX_MESSAGE_READ_CHARS]
        chars, sentences = chars - len(read), sentences - len(SENTENCE_END.findall(read))
        if chars < 0 or sentences < 0:
            break
        content = message.content[: find_cut(message.content, 0, MAX_MESSAGE_READ_CHARS + OVERLAP_CHARS)]
        readable.append(message if content == message.content else replace(message, content=content))
    return readable[::-1]


def count_partly_read(messages: Sequence[Message], readable: Sequence[Message]) -> int:
    """Return how many messages are not read whole; `readable` are those that `list_readable` returned."""
    return len(messages) - sum(len(read.content) <= MAX_MESSAGE_READ_CHARS for read in readable)


_AGENT_TOOL: Final = re.compile(
    r"knowledge_(?:batch_update|delete|extract|get|list|save|search|slim|update)|(?:get|save)_knowledge"
    r"|memory_(?:create|edit|forget|grep|link|move|read_many|sessions|unlink)|(?:read|search)_memory|commit_session"
    r"|keyword_(?:create|search)|info_save|resource_(?:get|list|save)|profile_get|goal|undo"
)
# Those of other servers may have these names too.
_MCP_TOOLS: Final = frozenset({"feedback", "profile", "read", "recall", "remember", "save", "undo"})
_SEPARATOR: Final = re.compile(r"__|[.:/]")


def is_own_tool(name: str) -> bool:
    """Return whether a tool is KnowHub's by its name alone.

    Hosts put the name of a server before that of its tool: `mcp__knowhub__recall`. The user names the server: under
    another name, and without one, a tool of KnowHub's MCP server is known by what it answers only.
    """
    *server, tool = _SEPARATOR.split(name.strip())
    is_ours = _AGENT_TOOL.fullmatch(tool) is not None
    return "knowhub" in " ".join(server).casefold() and (is_ours or tool in _MCP_TOOLS) if server else is_ours


WITHHELD: Final = "[withheld: it is sealed]"
_NAME: Final = "secure_body"
# As KnowHub's tools show it: one line, and those behind it that are indented behind the bar.
_FENCED: Final = re.compile(rf"^([ \t>]*\|[ ]{_NAME}: )[^\n]*(?:\n[ \t>]*\|   [^\n]*)*", re.MULTILINE)
# As JSON and as Python has it, cut off somewhere perhaps; and JSON in a text of JSON.
_QUOTED: Final = tuple(
    re.compile(rf"({quote}{_NAME}{quote}\s*:\s*)(?:{text})", re.DOTALL)
    for quote, text in (
        ("[\"']", r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)' + r"|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)"),
        (r'\\"', r'\\"[^"\\]*(?:\\\\\\?.[^"\\]*)*(?:\\"|\\*\Z)'),
    )
)


def withhold_sealed_bodies(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without the sealed bodies that tools have shown; what a person says stays as it is."""
    return [
        replace(message, content=_withhold_body(message.content))
        if _NAME in message.content and not message.is_user
        else message
        for message in messages
    ]


def _withhold_body(content: str) -> str:
    content = _FENCED.sub(lambda found: found[1] + WITHHELD, content)
    content = _QUOTED[0].sub(lambda found: f'{found[1]}"{WITHHELD}"', content)
    return _QUOTED[1].sub(lambda found: f'{found[1]}\\"{WITHHELD}\\"', content)
