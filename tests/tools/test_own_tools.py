"""The server recognizes only the agent tools of KnowHub by their names."""

import pytest

from agent_tools import compaction, goal, keywords, knowledge, memory, memory_edits, resources
from agent_tools.registry import registered_tools
from knowhub.conversations.messages import is_own_tool

MODULES = (compaction, goal, keywords, knowledge, memory, memory_edits, resources)


def test_every_tool_of_knowhub_is_recognized() -> None:
    # By module: other tests register tools of their own.
    names = [
        name for name, tool in registered_tools().items() if any(tool in vars(module).values() for module in MODULES)
    ]

    assert {"search_memory", "goal", "info_save", "resource_get", "knowledge_extract"} <= set(names)
    assert [name for name in names if not is_own_tool(name)] == []
    assert [name for name in names if not is_own_tool(f"mcp__knowhub__{name}")] == []


@pytest.mark.parametrize(
    "name", ["", "grep", "memory", "search", "search_web", "read_file", "recall_api", "mcp__notes__search_memory"]
)
def test_a_tool_of_another_library_is_not_recognized(name: str) -> None:
    assert not is_own_tool(name)


@pytest.mark.parametrize("name", ["mcp__memory__recall", "mcp__my-notes__recall"])
def test_the_recall_of_a_server_with_any_name_is_recognized(name: str) -> None:
    assert is_own_tool(name)
