"""Extraction before a conversation is compacted: what is sent, and that a failure is reported and not raised."""

from typing import Any

import pytest
import respx

from agent_tools.compaction import extract_on_compaction, knowledge_extract
from agent_tools.fences import FENCE_NOTE
from agent_tools.messages import MAX_BODY_CHARS, MAX_MESSAGES
from agent_tools.prompts.knowledge import KNOWLEDGE_EXTRACTION_PROMPT
from tests.tools.routes import read_body

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


async def test_the_messages_and_the_caller_are_sent_and_what_was_saved_is_shown_as_data(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)
    messages: list[Any] = [{"role": "user", "content": "我喜欢 pnpm", "message_id": "m-1"}]

    result = await knowledge_extract(messages, "task_completion", "trace-1", user_id="li", agent_id="a")

    assert read_body(route) == {
        "messages": messages,
        "trigger": "task_completion",
        "dry_run": False,
        "trace_id": "trace-1",
        "user_id": "li",
        "agent_id": "a",
    }
    assert result.metadata["items"] == [RECORD]
    assert FENCE_NOTE in result.output


async def test_messages_in_the_forms_of_hosts_are_accepted(hub: respx.MockRouter) -> None:
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

    messages = read_body(route)["messages"]
    assert [message["role"] for message in messages] == ["user", "tool"]
    assert messages[0] == {"role": "user", "content": "I prefer tabs", "message_id": "7"}
    assert set(messages[1]) == {"role", "content", "name", "message_id"}


async def test_the_same_text_has_the_same_id_in_a_second_compaction(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)
    said = {"role": "user", "content": "I prefer tabs"}
    ids = []

    for trace_id, messages in (("t-1", [said]), ("t-1", [{"role": "user", "content": "Hello"}, said]), ("t-2", [said])):
        await extract_on_compaction(messages, trace_id=trace_id)
        ids.append(read_body(route)["messages"][-1]["message_id"])

    assert ids[0] == ids[1] != ids[2]


async def test_a_conversation_without_text_sends_no_request(hub: respx.MockRouter) -> None:
    result = await extract_on_compaction([{"role": "user", "content": None}, {"role": "user"}])

    assert result.error is None
    assert result.metadata["items"] == []
    assert hub.calls.call_count == 0


GOOD = {"role": "user", "content": "I prefer tabs", "message_id": "good"}


REPLACED, TIMELESS = "sent with invalid characters replaced", "sent without its timestamp"


@pytest.mark.parametrize(
    ("bad", "as_sent", "told"),
    [
        ({"timestamp": 1700000000}, {"timestamp": "2023-11-14T22:13:20+00:00"}, ""),
        ({"timestamp": 1700000000500}, {"timestamp": "2023-11-14T22:13:20.500000+00:00"}, ""),
        ({"name": "n" * 300}, {"name": "n" * 200}, ""),
        ({"id": 7}, {"message_id": "7"}, ""),
        ({"content": {"text": "I use vim"}}, {}, ""),
        ({"content": "I use vim\x00"}, {"content": "I use vim "}, REPLACED),
        ({"content": "I use vim \ud800"}, {"content": "I use vim ?"}, REPLACED),
        ({"timestamp": "yesterday"}, {}, TIMELESS),
        ({"timestamp": 1e300}, {}, TIMELESS),
        ({"timestamp": "0001-01-01T00:00:00+05:00"}, {}, TIMELESS),
    ],
)
async def test_what_the_server_would_refuse_is_corrected_and_the_notice_names_what_is_lost(
    hub: respx.MockRouter, bad: dict[str, Any], as_sent: dict[str, str], told: str
) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)

    result = await extract_on_compaction([GOOD, {"role": "user", "content": "I use vim", **bad}])

    first, second = read_body(route)["messages"]
    assert first == GOOD
    assert second | {"role": "user", "content": "I use vim", **as_sent} == second
    assert ("timestamp" in second) == ("timestamp" in as_sent)
    assert bool(result.metadata["notice"]) == bool(told)
    assert (f"message 2 was {told}" if told else "") in result.metadata["notice"]
    assert result.metadata["notice"] in result.output


async def test_a_message_that_is_too_long_is_left_out_alone(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)

    result = await extract_on_compaction([GOOD, {"role": "tool", "content": "x" * (MAX_BODY_CHARS + 1)}])

    assert read_body(route)["messages"] == [GOOD]
    assert "message 2 was left out" in result.output


async def test_the_oldest_messages_are_left_out_when_the_request_is_too_large(hub: respx.MockRouter) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)

    result = await extract_on_compaction([{**GOOD, "id": number} for number in range(MAX_MESSAGES + 1)])

    assert len(read_body(route)["messages"]) == MAX_MESSAGES
    assert "message 1 and those before it were left out" in result.output


@pytest.mark.parametrize("trace_id", [5, "t" * 300, "a\x00b", "half \ud800"])
async def test_any_trace_id_is_made_valid(
    hub: respx.MockRouter,
    trace_id: Any,  # noqa: ANN401 -- as a host may have it
) -> None:
    route = hub.post("/api/knowledge/extract").respond(json=REPLY)

    result = await extract_on_compaction([{"role": "user", "content": "I use vim"}], trace_id=trace_id, account="acme")

    assert result.error is None
    assert read_body(route)["account"] == "acme"
    assert 0 < len(read_body(route)["trace_id"]) <= 200
    assert "\0" not in read_body(route)["trace_id"]


async def test_offered_resources_are_named(hub: respx.MockRouter) -> None:
    offer = {"content_type": "credential", "shown": "gh…89 (40 characters)"}
    hub.post("/api/knowledge/extract").respond(json=REPLY | {"resources": [offer]})

    result = await knowledge_extract([{"role": "user", "content": "…"}], dry_run=True)

    assert "resource_save" in result.output
    assert result.metadata["resources"] == [offer]


async def test_an_unknown_parameter_is_named(hub: respx.MockRouter) -> None:
    result = await extract_on_compaction([GOOD], workspace_id="w")

    assert "The caller has workspace_id, which is not a context id" in (result.error or "")
    assert not hub.calls


async def test_the_prompt_names_resources_and_the_order_of_the_two_calls() -> None:
    resource, knowledge = (KNOWLEDGE_EXTRACTION_PROMPT.index(name) for name in ("`resource_save`", "`knowledge_save`"))

    assert resource < knowledge
    assert "resource_ids" in KNOWLEDGE_EXTRACTION_PROMPT[knowledge:]
    for kind in ("user_profile", "strategy", "tool", "usecase", "definition", "plan", "secure_body", "credential"):
        assert kind in KNOWLEDGE_EXTRACTION_PROMPT
