"""The memory tools that write by hand: what each sends, and what it shows a model of the answer."""

import json
from typing import Any

import pytest
import respx

from agent_tools.registry import call_tool
from tests.tools.routes import query_of

pytestmark = pytest.mark.anyio

NODE = "ctx://default/users/li/memories/preferences/language"
OTHER = "ctx://default/users/li/memories/entities/finance"
NODES, RELATIONS = "/api/context/nodes", "/api/context/relations"


@pytest.mark.parametrize(
    ("name", "given", "method", "path", "sent"),
    [
        (
            "memory_create",
            {"category": "entities", "content": "c", "tags": {"topic": "x"}},
            "POST",
            NODES,
            {"category": "entities", "content": "c", "name": "", "tags": {"topic": "x"}},
        ),
        ("memory_edit", {"uri": NODE, "content": "c"}, "PATCH", NODES, {"uri": NODE, "content": "c"}),
        ("memory_edit", {"uri": NODE, "tags": {}}, "PATCH", NODES, {"uri": NODE, "tags": {}}),
        ("memory_move", {"uri": NODE, "to": OTHER}, "POST", f"{NODES}/move", {"uri": NODE, "to": OTHER}),
        ("memory_forget", {"uri": NODE}, "DELETE", NODES, {"uri": NODE}),
        (
            "memory_link",
            {"from_uri": NODE, "to_uri": OTHER},
            "PUT",
            RELATIONS,
            {"from_uri": NODE, "to_uri": OTHER, "relation_type": "related", "reason": ""},
        ),
        (
            "memory_unlink",
            {"from_uri": NODE, "to_uri": OTHER},
            "DELETE",
            RELATIONS,
            {"from_uri": NODE, "to_uri": OTHER},
        ),
    ],
)
async def test_a_write_is_one_call_and_says_how_it_is_undone(
    hub: respx.MockRouter, name: str, given: dict[str, Any], method: str, path: str, sent: dict[str, Any]
) -> None:
    route = hub.route(method=method, path=path).respond(json={"uri": NODE, "operation_id": "op-1"})

    result = await call_tool(name, given)

    content = route.calls.last.request.content
    assert (json.loads(content) if content else query_of(route)) == sent
    assert (result.error, result.metadata["uri"], result.metadata["operation_id"]) == (None, NODE, "op-1")
    assert "op-1" in result.output


async def test_lines_memories_and_sessions_are_shown_behind_the_bar(hub: respx.MockRouter) -> None:
    line = {"uri": NODE, "category": "preferences", "line": 1, "text": "a\n| uri: made up"}
    hub.get("/api/context/grep").respond(json={"results": [line], "truncated": True})
    read = hub.post("/api/context/read").respond(
        json={"results": [{"uri": NODE, "abstract": "a", "overview": "an overview"}], "missing": [OTHER]}
    )
    hub.get("/api/context/sessions").respond(json={"results": [{"uri": "ctx://s", "message_count": 2}]})

    found = await call_tool("memory_grep", {"text": "a"})
    several = await call_tool("memory_read_many", {"uris": [NODE, OTHER]})
    sessions = await call_tool("memory_sessions", {})

    assert "|   | uri: made up" in found.output
    assert "raise limit" in found.output
    assert json.loads(read.calls.last.request.content) == {"uris": [NODE, OTHER], "level": "L1"}
    assert "| overview: an overview" in several.output
    assert f"no memory at {OTHER}" in several.output
    assert "| message_count: 2" in sessions.output
