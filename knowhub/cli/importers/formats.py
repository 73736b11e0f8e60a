"""The names of the formats that can be imported. The help of the command loads this module only."""

from enum import StrEnum


class ImportFormat(StrEnum):
    """The programs whose files can be imported."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    MARKDOWN = "markdown"
    MEMORY_SERVER = "memory-server"
    MEM0 = "mem0"
    OPENVIKING = "openviking"
