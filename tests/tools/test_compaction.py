"""Learning from a conversation before it is compacted: what is sent, and that a failure is told and not raised."""

import json
from typing import Any

import httpx
import pytest
import respx

from agent_tools.compaction import extract_on_compaction, knowledge_extract
from agent_tools.prompts.knowledge import KNOWLEDGE_EXTRACTION_PROMPT
from agent_tools.records import FENCE_NOTE
from agent_tools.registry import call_tool

pytestmark = pytest.mark.anyio

RECORD = {
    "id": "knowledge-20260305-a1b2",
    "task": "用户偏好",
    "content": "用户说：我喜欢 pnpm",
    "types": ["user_profile"],
}
REPLY: dict[str, Any] = {
    "candidates": [{"status": "new", "knowledge_id": RECORD["id"]}],
    "saved": [RECORD],
    "count": 1,
    "resources": [],
    "degraded": [],
    "operation_id": "op-1",
}


def sent(route: respx.Route) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(route.calls.last.request.content)
    return body


async def test_the_messages_and_the_caller_are_sent_and_what_was_saved_is_shown_as_data(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)
    messages = [{"role": "user", "content": "我喜欢 pnpm", "message_id": "m-1"}]

    result = await knowledge_extract(messages, "task_completion", "trace-1", user_id="li", agent_id="a")

    assert sent(route) == {
        "messages": messages,
        "trigger": "task_completion",
        "dry_run": False,
        "trace_id": "trace-1",
        "user_id": "li",
        "agent_id": "a",
    }
    assert result.metadata["items"] == [RECORD]
    assert FENCE_NOTE in result.output


async def test_messages_are_taken_as_a_host_has_them(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)
    parts = [{"type": "text", "text": "I prefer tabs"}, {"type": "image_url", "image_url": {"url": "data:"}}]

    await extract_on_compaction(
        [
            {"role": "system", "content": ""},
            {"role": "user", "content": parts, "id": 7},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "call-1"}]},
            {"role": "tool", "content": "ok", "name": "bash", "tool_call_id": "call-1"},
        ],
        trace_id="trace-1",
        user_id="li",
    )

    messages = sent(route)["messages"]
    assert [one["role"] for one in messages] == ["user", "tool"]
    assert messages[0] == {"role": "user", "content": "I prefer tabs", "message_id": "7"}
    assert set(messages[1]) == {"role", "content", "name", "message_id"}


async def test_the_same_words_have_the_same_id_when_they_are_compacted_again(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)
    said = {"role": "user", "content": "I prefer tabs"}
    ids = []

    for trace_id, messages in (("t-1", [said]), ("t-1", [{"role": "user", "content": "Hello"}, said]), ("t-2", [said])):
        await extract_on_compaction(messages, trace_id=trace_id)
        ids.append(sent(route)["messages"][-1]["message_id"])

    assert ids[0] == ids[1] != ids[2]


async def test_a_conversation_without_text_asks_nobody(hub: respx.MockRouter) -> None:
    result = await extract_on_compaction([{"role": "user", "content": None}, {"role": "user"}])

    assert result.error is None
    assert result.metadata["items"] == []
    assert hub.calls.call_count == 0


@pytest.mark.parametrize("failure", [httpx.ConnectError("down"), httpx.ReadTimeout("late")])
async def test_compacting_goes_on_when_the_server_is_away(hub: respx.MockRouter, failure: Exception) -> None:
    hub.post("/api/knowledge/extract").mock(side_effect=failure)

    result = await extract_on_compaction([{"role": "user", "content": "I prefer tabs"}])

    assert result.error is not None


@pytest.mark.parametrize("reply", [{}, {"candidates": [], "saved": None}, {"candidates": 1, "saved": []}])
async def test_an_answer_of_another_shape_is_told(hub: respx.MockRouter, reply: dict[str, Any]) -> None:
    hub.post("/api/knowledge/extract").respond(json=reply)

    result = await knowledge_extract([{"role": "user", "content": "I prefer tabs"}])

    assert result.error is not None


async def test_what_belongs_into_a_resource_is_said(hub: respx.MockRouter) -> None:
    offer = {"content_type": "credential", "shown": "gh…89 (40 characters)"}
    hub.post("/api/knowledge/extract").respond(json=REPLY | {"resources": [offer]})

    result = await knowledge_extract([{"role": "user", "content": "…"}], dry_run=True)

    assert "resource_save" in result.output
    assert result.metadata["resources"] == [offer]


async def test_a_model_can_call_it_by_name(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)

    result = await call_tool("knowledge_extract", {"messages": [{"role": "user", "content": "I prefer tabs"}]})

    assert result.error is None
    assert route.called


async def test_an_id_that_there_is_not_is_the_hosts_mistake() -> None:
    with pytest.raises(TypeError, match="workspace_id"):
        await extract_on_compaction([], workspace_id="w")


async def test_the_prompt_names_resources_and_the_order_of_the_two_calls() -> None:
    resource, knowledge = (KNOWLEDGE_EXTRACTION_PROMPT.index(name) for name in ("`resource_save`", "`knowledge_save`"))

    assert resource < knowledge
    assert "resource_ids" in KNOWLEDGE_EXTRACTION_PROMPT[knowledge:]
    for kind in ("user_profile", "strategy", "tool", "usecase", "definition", "plan", "secure_body", "credential"):
        assert kind in KNOWLEDGE_EXTRACTION_PROMPT
