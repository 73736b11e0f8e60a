"""KnowHub's own tools, by their names: what they answer was known before, and that they were called teaches nothing."""

import re
from typing import Final

# Hosts put the name of a server before the name of its tool: `mcp__knowhub__search_memory`.
_OWN: Final = re.compile(
    r"(?:[\w.:/-]*knowhub[\w-]*(?:__|[.:/]))?"
    r"(?:(?:knowledge|keyword|info|resource|memory|context|goal)_\w+"
    r"|(?:search|read|commit|list|get|save|recall|expand)_(?:memory|memories|session|context|knowledge)"
    r"|goal|focus_goal|recall)"
)


def is_own_tool(name: str) -> bool:
    """Tell whether a tool is called as one of KnowHub's is."""
    return _OWN.fullmatch(name.strip()) is not None
