"""Whoever speaks is known by their role, however it is written, to memories and to extraction alike."""

import pytest

from knowhub.context.commit.session_summary import summarize_session
from knowhub.context.model import MemoryCategory
from knowhub.conversations.messages import Message
from tests.context_commits import CommitBench, user_message

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("roles", "kinds"),
    [
        (["user", "User", "USER", "Human", " user ", "用户", "用戶"], ["is_user"]),
        (["tool", "Tool", "FUNCTION", "工具"], ["is_tool"]),
        (["assistant", "Assistant", "AI", "model", "助手"], ["is_agent"]),
        (["system", "System", "developer", "系统"], ["is_system"]),
        (["narrator", "users"], []),
    ],
)
def test_roles_are_recognised_in_any_case_and_both_languages(roles: list[str], kinds: list[str]) -> None:
    known = ("is_user", "is_tool", "is_agent", "is_system")

    for role in roles:
        assert [kind for kind in known if getattr(Message(role, "x"), kind)] == kinds, role


@pytest.mark.parametrize("role", ["User", "USER", "用户"])
async def test_user_messages_are_extracted_and_their_role_is_stored_unchanged(role: str) -> None:
    bench = CommitBench()

    await bench.commit(Message(role, "I love oolong tea.", "", "m1"))

    assert bench.of(MemoryCategory.PREFERENCES) != []
    assert bench.parts()[0]["role"] == role


async def test_a_chinese_tool_role_counts_as_a_tool_call() -> None:
    bench = CommitBench()

    await bench.commit(Message("工具", "18 degrees", "weather", "t1"))

    assert bench.nodes()["tools/weather"]["metadata"]["stats"]["calls"] == 1


@pytest.mark.parametrize("role", ["system", "System", "developer", "系统"])
def test_system_messages_are_left_out_of_summaries(role: str) -> None:
    messages = [
        Message(role, "Answer like a pirate captain would."),
        user_message("I planted forty tomatoes in April."),
    ]

    abstract, overview = summarize_session(messages)

    assert "tomatoes" in abstract
    assert "pirate" not in abstract + overview
