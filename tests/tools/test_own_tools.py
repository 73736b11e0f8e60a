"""The server recognizes only the agent tools of KnowHub by their names."""

import pytest

from agent_tools import compaction, goal, keywords, knowledge, memory, memory_edits, resources
from agent_tools.registry import registered_tools
from knowhub.conversations.messages import is_own_tool
from knowhub.web.mcp.tools import TOOLS

MODULES = (compaction, goal, keywords, knowledge, memory, memory_edits, resources)
# Those of other servers may be called like the tools of our MCP server.
LIKE_OURS = [
    *("context_menu_open", "resource_monitor", "goal_tracker", "keyword_research", "info_desk", "read", "recall"),
    *("mcp__git__recall", "mcp__memory__recall", "mcp__memory__read", "mcp__todo__undo"),
]


def test_every_tool_of_knowhub_is_recognized() -> None:
    # By module: other tests register tools of their own.
    names = [
        name for name, tool in registered_tools().items() if any(tool in vars(module).values() for module in MODULES)
    ]

    assert {"search_memory", "goal", "info_save", "resource_get", "knowledge_extract"} <= set(names)
    assert [name for name in names if not is_own_tool(name)] == []
    assert [name for name in names if not is_own_tool(f"mcp__knowhub__{name}")] == []


@pytest.mark.parametrize(
    "name",
    ["", "grep", "memory", "search", "search_web", "read_file", "recall_api", "mcp__notes__search_memory", *LIKE_OURS],
)
def test_a_tool_of_another_library_is_not_recognized(name: str) -> None:
    assert not is_own_tool(name)


@pytest.mark.parametrize("server", ["mcp__knowhub__", "mcp__plugin_knowhub_knowhub__", "KnowHub.", "knowhub-local/"])
def test_the_tools_of_a_server_called_knowhub_are_recognized(server: str) -> None:
    assert [tool.name for tool in TOOLS if not is_own_tool(f"{server}{tool.name}")] == []
    assert not is_own_tool(f"{server}other")
