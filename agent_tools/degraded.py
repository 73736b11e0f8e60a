"""What the server had to do without when it answered: as it names it, and in words for an agent."""

from collections.abc import Mapping
from typing import Any

from agent_tools import failures


def parts_of(reply: Mapping[str, Any]) -> list[Any]:
    """Return what an answer says that it had to do without."""
    parts = reply.get("degraded")
    return parts if isinstance(parts, list) else []


def told_of(reply: Mapping[str, Any]) -> str:
    """Return a line on that, to stand behind an output; empty where nothing was missing."""
    parts = ", ".join(map(str, parts_of(reply)))
    return f"\nThe server had to do without: {failures.one_line(parts)}." if parts else ""
