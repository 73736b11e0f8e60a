"""Who speaks in a message, by its role: however it is written, and in either language."""

from typing import Final

USER: Final = frozenset({"user", "human", "用户", "用戶"})
AGENT: Final = frozenset({"assistant", "ai", "model", "助手"})
TOOL: Final = frozenset({"tool", "function", "工具"})
SYSTEM: Final = frozenset({"system", "developer", "系统", "系統"})
"""An application's words, which are nobody's: neither a person's nor a model's."""

ALL: Final = USER | AGENT | TOOL | SYSTEM


def is_one_of(roles: frozenset[str], role: str) -> bool:
    """Tell whether a role is one of these, in any case."""
    return role.strip().casefold() in roles
