"""Session commits: the stored nodes, also after repeated and concurrent commits."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from knowhub.context.commit_model import WriteAction
from knowhub.context.model import NODES, MemoryCategory
from knowhub.core.operation import Draft, Write
from tests.builders import open_files
from tests.context_commits import SESSION, CommitBench, agent_message, delete_rows, user_message

pytestmark = pytest.mark.anyio

TALK = (
    user_message("My sister Maria lives in Porto.", "m1", "2026-05-08T10:00:00Z"),
    agent_message("How nice!", "m2"),
    user_message("On 12 June I see the dentist with Maria. I love oolong tea.", "m3", "2026-05-08T10:01:00Z"),
)


async def test_the_session_node_has_message_count_times_and_roles() -> None:
    bench = CommitBench()

    await bench.commit(*TALK)
    await bench.commit(user_message("Goodbye, see you at the station.", "m4", "2026-05-09T08:00:00+02:00"))

    node = bench.node(SESSION)
    assert node is not None
    figures = {name: node["metadata"][name] for name in ("message_count", "first_at", "last_at", "roles", "committed")}
    assert figures == {
        "message_count": 4,
        "first_at": "2026-05-08T10:00:00Z",
        "last_at": "2026-05-09T08:00:00+02:00",
        "roles": ["user", "assistant"],
        "committed": 2,
    }
    assert node["content"] == ""
    assert node["version"] == 2


async def test_a_forgotten_message_is_not_committed_again() -> None:
    bench = CommitBench()
    await bench.commit(*TALK)
    await delete_rows(bench, f"{SESSION}/m1")

    again = await bench.commit(*TALK, user_message("One more.", "m4"))

    assert again.stats["messages"] == {"received": 4, "blank": 0, "added": 1, "known": 2, "forgotten": 1}
    assert [row["message_id"] for row in bench.parts()] == ["m2", "m3", "m4"]


async def test_a_deleted_session_restarts_with_new_messages_only() -> None:
    bench = CommitBench()
    await bench.commit(*TALK)
    await delete_rows(bench, SESSION, *(row["id"] for row in bench.parts()))

    same = await bench.commit(*TALK)
    more = await bench.commit(*TALK, user_message("One more thing to say.", "m4"))

    node = bench.node(SESSION)
    assert node is not None
    assert (same.status, more.stats["messages"]["forgotten"]) == ("unchanged", 3)
    assert (node["metadata"]["message_count"], node["abstract"]) == (1, "user: One more thing to say.")
    assert not {"deleted", "forgotten"} & set(node)


async def test_a_deleted_event_stays_deleted_and_a_topic_restarts() -> None:
    bench = CommitBench()
    await bench.commit(*TALK)
    event, topic = bench.of(MemoryCategory.EVENTS)[0]["id"], bench.of(MemoryCategory.PREFERENCES)[0]["id"]
    await delete_rows(bench, event, topic)

    said_again = replace(TALK[2], message_id="m9")
    result = await bench.commit(said_again)

    by_uri = {item.uri: item for item in result.write_results}
    assert by_uri[event].action is WriteAction.SKIP
    assert "stays forgotten" in by_uri[event].reason
    assert by_uri[topic].created
    assert by_uri[topic].node_version == 3


async def test_concurrent_commits_of_eight_sessions_all_reach_the_profile(tmp_path: Path) -> None:
    store = open_files(tmp_path)
    bench = CommitBench(store=store)
    spoken = ["name", "timezone", "email", "employer", "home town", "address", "birthday", "native language"]

    results = await asyncio.gather(
        *(bench.commit(user_message(f"My {item} is Ben."), session_id=f"s{at}") for at, item in enumerate(spoken))
    )
    profile = bench.nodes()["profile"]
    await store.close()

    assert {result.status for result in results} == {"committed"}
    assert all(item in profile["content"] for item in spoken)
    assert profile["version"] == len(spoken)


async def test_unwritten_directories_are_reported_as_degraded() -> None:
    bench = CommitBench()
    bench.directories.is_well = False

    result = await bench.commit(*TALK)

    assert (result.status, list(result.degraded)) == ("committed", ["directories"])
    assert len(bench.parts()) == 3


async def test_plans_name_the_fields_and_source_messages_they_write() -> None:
    bench = CommitBench()

    result = await bench.commit(user_message("My name is Li.", "m1"), user_message("I live in Bonn.", "m2"))

    session, *drinks = [plan.node_patch for plan in result.plans]
    assert session["fields"] == ["abstract", "category", "content", "context_type", "metadata", "overview"]
    assert [drink["sources"] for drink in drinks] == [[f"{SESSION}/m1"], [f"{SESSION}/m2"]]
    assert (
        drinks[0]["chars"]["content"]
        < drinks[1]["chars"]["content"]
        == len(bench.of(MemoryCategory.PROFILE)[0]["content"])
    )
    assert all({"content", "metadata"} <= set(drink["fields"]) for drink in drinks)


async def test_statements_in_one_commit_equal_statements_in_many() -> None:
    said = [f"I love tea number {number}." for number in range(60)] + ["I love tea number 7."]
    together, apart = CommitBench(), CommitBench()

    await together.commit(*(user_message(text, f"m{at}") for at, text in enumerate(said)))
    for at, text in enumerate(said):
        await apart.commit(user_message(text, f"m{at}"))

    layers = ("id", "abstract", "overview", "content")
    made, others = (
        sorted([row[name] for name in layers] for row in bench.of(MemoryCategory.PREFERENCES))
        for bench in (together, apart)
    )
    assert made == others
    assert len(made) == 60


async def test_adding_a_source_keeps_edited_text() -> None:
    bench = CommitBench()
    await bench.commit(user_message("I love oolong tea.", "m1"))
    row = bench.of(MemoryCategory.PREFERENCES)[0]
    edited = {**row, "abstract": "Tea, by my own words.", "version": row["version"] + 1}
    await bench.store.commit("default", "user:li", lambda _: Draft("edit_memory", [Write(NODES, row["id"], edited)]))

    await bench.commit(user_message("I love oolong tea!", "m2"))

    after = bench.of(MemoryCategory.PREFERENCES)[0]
    assert (after["abstract"], len(after["metadata"]["message_ids"])) == ("Tea, by my own words.", 2)


async def test_an_answer_quotes_long_messages_in_part() -> None:
    bench = CommitBench()

    result = await bench.commit(user_message("word " * 50_000, "m1"), extract=False)

    assert len(result.archive.recent_messages[0].content) <= 1_000
    assert len(bench.parts()[0]["content"]) == 250_000
