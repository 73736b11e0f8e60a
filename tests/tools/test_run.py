"""A run names the caller once: which fields every tool inside it sends."""

import json
from typing import Any

import pytest
import respx

from agent_tools.goal import before_risky_step
from agent_tools.knowledge import knowledge_save, knowledge_search
from agent_tools.registry import call_tool
from agent_tools.resources import resource_save
from agent_tools.run import AgentRun, running
from tests.tools.routes import query_of, read_body

pytestmark = pytest.mark.anyio

RECORD: dict[str, Any] = {"id": "k-1", "task": "登录", "content": "等待", "tag": "a"}
LI = {"user_id": "li", "agent_id": "crawler"}


async def test_a_save_belongs_to_the_user_of_the_run_and_names_its_source(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge").respond(201, json=RECORD)

    with running(caller=LI, trace_id="trace-1") as run:
        run.message_id = "m-7"
        await call_tool("knowledge_save", {"task": "登录", "content": "等待", "types": ["tool"]})

    body = read_body(route)
    assert {name: body[name] for name in ("owner", "scopes", "user_id", "agent_id")} == {
        "owner": "user:li",
        "scopes": ["user:li"],
        "user_id": "li",
        "agent_id": "crawler",
    }
    source = {name: body["source"][name] for name in ("agent_id", "message_id", "trace_id")}
    assert source == {"agent_id": "crawler", "message_id": "m-7", "trace_id": "trace-1"}


async def test_a_resource_belongs_to_the_user_of_the_run(hub: respx.MockRouter) -> None:
    route = hub.post("/api/resource").respond(201, json={"id": "code/a"})

    with running(caller=LI):
        await call_tool("resource_save", {"resource_id": "code/a", "body": "x"})
    await resource_save("code/b")

    saved = [json.loads(call.request.content).get("owner") for call in route.calls]
    assert saved == ["user:li", None]


async def test_arguments_of_the_host_override_the_run(hub: respx.MockRouter) -> None:
    save = hub.post("/api/knowledge").respond(201, json=RECORD)
    search = hub.get("/api/knowledge/search").respond(json={"results": []})

    with running(caller=LI):
        await knowledge_save(
            "t", "c", ["tool"], scopes=["public"], owner="user:ann", agent_id="other", message_id="m-1"
        )
        await knowledge_search("q", user_id="ann")

    body = read_body(save)
    assert (body["scopes"], body["owner"]) == (["public"], "user:ann")
    assert (body["source"]["agent_id"], body["source"]["message_id"]) == ("other", "m-1")
    assert query_of(search) == {"q": "q", "top_k": "5", "min_score": "3", "user_id": "ann", "agent_id": "crawler"}


async def test_a_search_of_the_model_is_noted_for_the_focused_goal(hub: respx.MockRouter) -> None:
    search = hub.get("/api/knowledge/search").respond(json={"results": []})
    outcome = hub.post("/api/knowledge/outcome").respond(json={})

    with running(trace_id="trace-1") as run:
        await call_tool("goal", {"action": "create", "goal_id": "g", "description": "登录"})
        await call_tool("knowledge_search", {"query": "before"})
        before = query_of(search)
        await call_tool("goal", {"action": "focus", "goal_id": "g"})
        search.respond(json={"results": [RECORD]})
        await call_tool("knowledge_search", {"query": "验证码"})
        await call_tool("goal", {"action": "complete", "goal_id": "g", "used": "a"})

    assert "goal_id" not in before
    assert (query_of(search)["session_id"], query_of(search)["goal_id"]) == ("trace-1", "g")
    assert run.tree.get("g").was_shown
    assert read_body(outcome)["used"] == ["a"]


async def test_another_caller_inherits_nothing_from_the_run(hub: respx.MockRouter) -> None:
    search = hub.get("/api/knowledge/search").respond(json={"results": []})

    with running(caller=LI, trace_id="trace-1"):
        await before_risky_step("删除", "rm_file", run=AgentRun(caller={"user_id": "ann"}))

    assert query_of(search)["user_id"] == "ann"
    assert not {"agent_id", "session_id"} & query_of(search).keys()
