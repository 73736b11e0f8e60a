"""The tools of agents as frameworks take them: a name, a description, a schema, and a call."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from agent_tools import compaction, goal, keywords, knowledge, memory, memory_edits, resources
from agent_tools.registry import call_tool, registered_tools
from agent_tools.results import ToolResult
from agent_tools.run import running

# Importing a module registers its tools.
_MODULES: Final = (compaction, goal, keywords, knowledge, memory, memory_edits, resources)
DEFAULT_NAMES: Final = (
    "knowledge_search",
    "knowledge_get",
    "knowledge_save",
    "knowledge_batch_update",
    "search_memory",
)


@dataclass(frozen=True, slots=True)
class FrameworkTool:
    """A tool that acts for a caller; without one, for the run in which it is called."""

    name: str
    description: str
    schema: dict[str, Any]
    caller: Mapping[str, str] | None

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Check the arguments and run the tool. What goes wrong is in the `error` of the result."""
        with nullcontext() if self.caller is None else running(caller=self.caller):
            return await call_tool(self.name, arguments)


def select_tools(names: Sequence[str], caller: Mapping[str, str] | None) -> list[FrameworkTool]:
    """Return tools by their names. Raises ValueError for a name that none has."""
    known = registered_tools()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"There is no tool {', '.join(unknown)}. There are: {', '.join(known)}.")
    schemas = [known[name].anthropic_schema() for name in names]
    return [FrameworkTool(schema["name"], schema["description"], schema["input_schema"], caller) for schema in schemas]
