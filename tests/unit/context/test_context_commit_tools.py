"""Calls of tools and skills in a session: every call counts once."""

import pytest

from tests.context_commits import Desk, agent, tool, used, user

pytestmark = pytest.mark.anyio

TALK = (
    user("My sister Maria lives in Porto.", "m1", "2026-05-08T10:00:00Z"),
    agent("How nice!", "m2"),
    user("Yesterday I went to the dentist with Maria. I love oolong tea.", "m3", "2026-05-08T10:01:00Z"),
)


async def test_calls_of_tools_are_counted_once_however_often_they_are_sent() -> None:
    desk = Desk()
    calls = [used("grep", ok=True, seconds=1.0), used("grep", ok=True, seconds=1.0), used("grep", ok=False, note="no")]
    messages = (user("Please search.", "m1"), tool("18 degrees", "weather", "t1"))

    await desk.commit(*messages, used_tools=calls)
    again = await desk.commit(*messages, used_tools=calls)
    more = await desk.commit(*messages, used_tools=[*calls, used("review", kind="skill", call_id="c9")])

    nodes = desk.nodes()
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


async def test_calls_of_a_commit_that_extracts_nothing_are_counted_when_one_does() -> None:
    desk = Desk()
    await desk.commit(*TALK, extract=False, used_tools=[used("grep")])

    result = await desk.commit(*TALK, used_tools=[used("grep")])

    assert result.status == "committed"
    assert desk.nodes()["tools/grep"]["metadata"]["stats"]["calls"] == 1


async def test_a_note_about_a_call_that_holds_a_credential_is_left_out_and_the_call_counts() -> None:
    desk = Desk()

    await desk.commit(*TALK, used_tools=[used("login", ok=False, note="password is hunter2secret9!")])

    assert desk.nodes()["tools/login"]["metadata"]["stats"]["calls"] == 1
    assert "hunter2" not in str(desk.nodes())


async def test_the_answer_of_a_tool_that_the_commit_names_is_no_call_more() -> None:
    desk = Desk()

    await desk.commit(tool("found 3", "grep", "t1"), used_tools=[used("grep", seconds=0.5)])

    assert desk.nodes()["tools/grep"]["metadata"]["stats"]["calls"] == 1


OWN = ["search_memory", "read_memory", "commit_session", "knowledge_search", "recall", "mcp__knowhub__search_memory"]


@pytest.mark.parametrize("name", OWN)
async def test_calls_of_knowhubs_own_tools_are_not_remembered(name: str) -> None:
    desk = Desk()

    answered = await desk.commit(tool("found 3 memories", name, "t1"), tool("found 3", "grep", "t2"))
    named = await desk.commit(*TALK, used_tools=[used(name), used("deploy", kind="skill")])

    assert (answered.status, named.status) == ("committed", "committed")
    counted = {one for one in desk.nodes() if one.startswith(("tools/", "skills/"))}
    assert counted == {"tools/grep", "skills/deploy"}
    assert desk.parts()[0]["content"] == "found 3 memories"


async def test_a_commit_of_nothing_but_known_messages_and_own_calls_writes_nothing() -> None:
    desk = Desk()
    await desk.commit(*TALK)

    again = await desk.commit(*TALK, used_tools=[used("search_memory", call_id="c1")])

    assert again.status == "unchanged"


async def test_a_skill_that_is_called_as_an_own_tool_is_somebodys_own() -> None:
    desk = Desk()

    await desk.commit(*TALK, used_tools=[used("recall", kind="skill")])

    assert desk.nodes()["skills/recall"]["metadata"]["stats"]["calls"] == 1
