"""The standard tests of LangChain for tools. Started by test_upstream_suites.py, in an environment that has them."""

from typing import Any

from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from agent_tools.integrations.langchain_tools import make_langchain_tools

ARGUMENTS: dict[str, dict[str, Any]] = {
    "knowledge_search": {"query": "login at website_a", "top_k": 3},
    "search_memory": {"query": "what does li prefer"},
    "knowledge_save": {"task": "log in", "content": "wait 2 s", "types": ["strategy"], "tags": {"site": "a"}},
}
TOOLS: dict[str, BaseTool] = {
    tool.name: tool for tool in make_langchain_tools(list(ARGUMENTS), caller={"user_id": "li"})
}


class _Search:
    @property
    def tool_constructor(self) -> BaseTool:
        return TOOLS["knowledge_search"]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return ARGUMENTS["knowledge_search"]


class _Save:
    @property
    def tool_constructor(self) -> BaseTool:
        return TOOLS["knowledge_save"]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return ARGUMENTS["knowledge_save"]


class _SearchMemory:
    @property
    def tool_constructor(self) -> BaseTool:
        return TOOLS["search_memory"]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return ARGUMENTS["search_memory"]


class TestSearch(_Search, ToolsUnitTests):
    pass


class TestSearchOnAServer(_Search, ToolsIntegrationTests):
    pass


class TestSave(_Save, ToolsUnitTests):
    pass


class TestSaveOnAServer(_Save, ToolsIntegrationTests):
    pass


class TestSearchMemory(_SearchMemory, ToolsUnitTests):
    pass


class TestSearchMemoryOnAServer(_SearchMemory, ToolsIntegrationTests):
    pass
