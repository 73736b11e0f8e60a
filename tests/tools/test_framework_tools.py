"""The tools that frameworks can choose from."""

import subprocess
import sys

# In a process of its own: other tests import all modules of tools.
_PROGRAM = """
from agent_tools.integrations.framework_tools import select_tools
print([tool.name for tool in select_tools(["knowledge_search", "memory_edit", "memory_forget"], None)])
"""


def test_frameworks_can_choose_tools_that_change_memories() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "['knowledge_search', 'memory_edit', 'memory_forget']"
