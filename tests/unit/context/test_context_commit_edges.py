"""The errors and limits of a commit, the order of its steps, and the calls of tools that it counts."""

import pytest

from tests.context_commits import CommitBench, agent_message, tool_message, tool_use, user_message

pytestmark = pytest.mark.anyio


TALK = (
    user_message("My sister Maria lives in Porto.", "m1", "2026-05-08T10:00:00Z"),
    agent_message("How nice!", "m2"),
    user_message("Yesterday I went to the dentist with Maria. I love oolong tea.", "m3", "2026-05-08T10:01:00Z"),
)


async def test_a_session_of_two_thousand_messages_is_one_operation() -> None:
    bench = CommitBench()

    result = await bench.commit(*(user_message(f"Line {number} of a long talk.") for number in range(2_000)))

    assert result.stats["messages"]["added"] == 2_000
    assert bench.store.last_seq == 1


async def test_calls_of_tools_are_counted_once_however_often_they_are_sent() -> None:
    bench = CommitBench()
    calls = [
        tool_use("grep", ok=True, seconds=1.0),
        tool_use("grep", ok=True, seconds=1.0),
        tool_use("grep", ok=False, note="no"),
    ]
    messages = (user_message("Please search.", "m1"), tool_message("18 degrees", "weather", "t1"))

    await bench.commit(*messages, used_tools=calls)
    again = await bench.commit(*messages, used_tools=calls)
    more = await bench.commit(*messages, used_tools=[*calls, tool_use("review", kind="skill", call_id="c9")])

    nodes = bench.nodes()
    stats = nodes["tools/grep"]["metadata"]["stats"]
    assert {name: stats[name] for name in ("calls", "success", "failure", "total_seconds")} == {
        "calls": 3,
        "success": 2,
        "failure": 1,
        "total_seconds": 2.0,
    }
    assert nodes["tools/weather"]["metadata"]["stats"]["calls"] == 1
    assert (again.status, more.status) == ("unchanged", "committed")
    assert nodes["skills/review"]["metadata"]["stats"]["calls"] == 1
    assert "- failed: no" in nodes["tools/grep"]["content"]


async def test_a_call_note_with_a_credential_is_dropped_and_the_call_counted() -> None:
    bench = CommitBench()

    await bench.commit(*TALK, used_tools=[tool_use("login", ok=False, note="password is hunter2secret9!")])

    assert bench.nodes()["tools/login"]["metadata"]["stats"]["calls"] == 1
    assert "hunter2" not in str(bench.nodes())


async def test_a_tool_message_of_a_named_call_is_not_counted_again() -> None:
    bench = CommitBench()

    await bench.commit(tool_message("found 3", "grep", "t1"), used_tools=[tool_use("grep", seconds=0.5)])

    assert bench.nodes()["tools/grep"]["metadata"]["stats"]["calls"] == 1


OWN = ["search_memory", "read_memory", "commit_session", "knowledge_search", "mcp__knowhub__search_memory"]


@pytest.mark.parametrize("name", OWN)
async def test_calls_of_knowhubs_own_tools_are_not_remembered(name: str) -> None:
    bench = CommitBench()

    answered = await bench.commit(tool_message("found 3 memories", name, "t1"), tool_message("found 3", "grep", "t2"))
    named = await bench.commit(*TALK, used_tools=[tool_use(name), tool_use("deploy", kind="skill")])

    assert (answered.status, named.status) == ("committed", "committed")
    counted = {node for node in bench.nodes() if node.startswith(("tools/", "skills/"))}
    assert counted == {"tools/grep", "skills/deploy"}
    assert bench.parts()[0]["content"] == "found 3 memories"


async def test_a_skill_named_like_an_own_tool_is_counted() -> None:
    bench = CommitBench()

    await bench.commit(*TALK, used_tools=[tool_use("recall", kind="skill")])

    assert bench.nodes()["skills/recall"]["metadata"]["stats"]["calls"] == 1
