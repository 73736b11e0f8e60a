"""Whoever speaks is known by their role, however it is written, to memories and to extraction alike."""

import pytest

from knowhub.context.commit.session_node import summarize_session
from knowhub.context.model import MemoryCategory
from knowhub.conversations.messages import Message
from knowhub.conversations.messages import Message as Said
from tests.context_commits import CommitBench, user_message

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", [Said, Message])
@pytest.mark.parametrize(
    ("roles", "is_user", "is_tool"),
    [
        (["user", "User", "USER", "Human", " user ", "用户", "用戶"], True, False),
        (["tool", "Tool", "FUNCTION", "工具"], False, True),
        (["assistant", "AI", "助手", "system", "系统", "narrator", "users"], False, False),
    ],
)
def test_roles_are_recognised_in_any_case_and_both_languages(
    kind: type[Said] | type[Message], roles: list[str], is_user: bool, is_tool: bool
) -> None:
    for role in roles:
        message = kind(role, "x")
        assert (message.is_user, message.is_tool) == (is_user, is_tool), role


@pytest.mark.parametrize("role", ["assistant", "Assistant", "AI", "model", "助手"])
def test_agent_roles_are_recognised(role: str) -> None:
    assert Message(role, "x").is_agent
    assert not Message("用户", "x").is_agent


@pytest.mark.parametrize("role", ["User", "USER", "用户"])
async def test_user_messages_are_extracted_and_their_role_is_stored_unchanged(role: str) -> None:
    desk = CommitBench()

    await desk.commit(Said(role, "I love oolong tea.", "", "m1"))

    assert desk.of(MemoryCategory.PREFERENCES) != []
    assert desk.parts()[0]["role"] == role


async def test_a_chinese_tool_role_counts_as_a_tool_call() -> None:
    desk = CommitBench()

    await desk.commit(Said("工具", "18 degrees", "weather", "t1"))

    assert desk.nodes()["tools/weather"]["metadata"]["stats"]["calls"] == 1


@pytest.mark.parametrize("role", ["system", "System", "developer", "系统"])
def test_system_messages_are_left_out_of_summaries(role: str) -> None:
    messages = [Said(role, "Answer like a pirate captain would."), user_message("I planted forty tomatoes in April.")]

    abstract, overview = summarize_session(messages)

    assert "tomatoes" in abstract
    assert "pirate" not in abstract + overview
