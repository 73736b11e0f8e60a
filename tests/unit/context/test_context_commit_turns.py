"""Sessions without message ids, committed in pieces: nothing is lost, and nothing is kept twice."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.context.commit.parts import NamedMessage, find_repeated
from knowhub.context.commit.session_node import remove_message
from knowhub.context.edits import BY, BY_PERSON
from knowhub.context.model import NODES, PARTS
from knowhub.context.queries import find_memory
from knowhub.conversations.messages import Message
from knowhub.core.operation import Draft, View, Write
from tests.context_commits import SESSION, CommitBench, agent_message, delete_rows, tool_use, user_message

pytestmark = pytest.mark.anyio

TESTS = (user_message("run the tests please"), agent_message("ok"))
DEPLOY = (user_message("now deploy it please"), agent_message("ok"))

_WORDS = st.sampled_from(["ok", "go on", "run it", "done", "yes"])
_SAID = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), _WORDS), min_size=1, max_size=12)


def _texts(bench: CommitBench) -> list[str]:
    return [row["content"] for row in bench.parts()]


async def test_a_retry_of_the_last_turn_and_of_the_whole_adds_nothing() -> None:
    bench = CommitBench()
    await bench.commit(*TESTS)
    await bench.commit(*DEPLOY)

    turn = await bench.commit(*DEPLOY)
    whole = await bench.commit(*TESTS, *DEPLOY)

    assert (turn.status, whole.status) == ("unchanged", "unchanged")


async def test_an_overlapping_window_adds_only_new_messages() -> None:
    bench = CommitBench()
    await bench.commit(*TESTS, *DEPLOY)

    await bench.commit(*DEPLOY, user_message("thanks"))

    assert _texts(bench)[3:] == ["ok", "thanks"]


async def test_a_list_with_the_same_start_but_another_end_is_appended() -> None:
    bench = CommitBench()
    await bench.commit(user_message("hi"), agent_message("Hello!"), user_message("run it"), agent_message("ok"))

    await bench.commit(user_message("hi"), agent_message("Back again?"))

    assert _texts(bench) == ["hi", "Hello!", "run it", "ok", "hi", "Back again?"]


async def test_a_message_id_aligns_the_messages_around_it() -> None:
    bench = CommitBench()
    talk = [
        user_message("run", "u1"),
        agent_message("ok"),
        user_message("go", "u2"),
        agent_message("ok"),
        user_message("on", "u3"),
        agent_message("ok"),
    ]
    for at in range(0, len(talk), 2):
        await bench.commit(*talk[at : at + 2])

    late = await bench.commit(agent_message("ok"), *talk[2:4])
    new = await bench.commit(user_message("end", "u4"), agent_message("ok"))

    assert (late.status, new.stats["messages"]["added"]) == ("unchanged", 2)
    assert _texts(bench) == [item.content for item in talk] + ["end", "ok"]


async def test_forgotten_messages_without_ids_return_only_in_a_new_turn() -> None:
    bench = CommitBench()
    await bench.commit(*TESTS)
    await delete_rows(bench, bench.parts()[1]["id"])

    again = await bench.commit(*TESTS, user_message("next"))
    await bench.commit(*DEPLOY)

    assert again.stats["messages"] == {"received": 3, "blank": 0, "added": 1, "known": 1, "forgotten": 1}
    assert _texts(bench) == ["run the tests please", "next", "now deploy it please", "ok"]


async def test_a_transcript_without_the_forgotten_message_is_a_repetition() -> None:
    bench = CommitBench()
    await bench.commit(user_message("a"), user_message("ok"), user_message("b"))
    await delete_rows(bench, bench.parts()[1]["id"])

    await bench.commit(user_message("a"), user_message("b"), user_message("ok"))

    assert _texts(bench) == ["a", "b", "ok"]


async def test_messages_removed_by_an_undo_return_without_ids() -> None:
    bench = CommitBench()
    await bench.commit(*TESTS)
    before = bench.parts()
    await delete_rows(bench, *[row["id"] for row in before], SESSION, is_forgotten=False)

    await bench.commit(*TESTS)

    assert [(row["id"], row["number"]) for row in bench.parts()] == [(row["id"], row["number"]) for row in before]


async def test_a_client_id_like_a_server_id_overwrites_no_message() -> None:
    bench = CommitBench()
    await bench.commit(user_message("ok"))
    name = bench.parts()[0]["id"].rpartition("/")[2]

    await bench.commit(user_message("first"), Message("user", "ok", message_id=f"{name[:-1]}1"), user_message("ok"))

    assert _texts(bench) == ["ok", "first", "ok", "ok"]


@given(_SAID, st.data())
async def test_a_split_transcript_with_times_is_stored_whole(said: list[tuple[str, str]], data: st.DataObject) -> None:
    talk = [Message(role, text, timestamp=f"2026-05-08T10:00:{at:02}Z") for at, (role, text) in enumerate(said)]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(talk)))) | {0, len(talk)})
    bench = CommitBench()

    for begins, ends in pairwise(cuts):
        await bench.commit(*talk[begins:ends], extract=False)
        await bench.commit(*talk[:ends], extract=False)

    assert _texts(bench) == [text for _, text in said]


def _append_new(session: list[str], sent: list[str]) -> list[str]:
    """Return a session with the new messages of a list appended."""
    stood = [NamedMessage(f"{key}/{at}", key) for at, key in enumerate(session)]
    known = find_repeated([NamedMessage(None, key) for key in sent], stood)
    return session + [key for key, place in zip(sent, known, strict=True) if place is None]


@given(st.lists(st.integers(), min_size=2, max_size=30, unique=True), st.data())
def test_windows_without_repetitions_rebuild_the_conversation(numbers: list[int], data: st.DataObject) -> None:
    talk = [str(number) for number in numbers]
    session: list[str] = []
    while len(session) < len(talk):
        begins = data.draw(st.integers(0, len(session)))
        session = _append_new(session, talk[begins : data.draw(st.integers(len(session) + 1, len(talk)))])

    assert session == talk


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), min_size=1, max_size=8))
def test_turns_with_distinct_first_messages_are_all_kept(turns: list[list[str]]) -> None:
    # Turns by turn, each begun by something new: however often the rest was said before.
    talk: list[str] = []
    for number, turn in enumerate(turns):
        own = [f"turn {number}", *turn]

        assert _append_new(talk, own) == [*talk, *own]
        assert _append_new([*talk, *own], own) == [*talk, *own]

        talk += own


async def test_calls_without_ids_count_once_per_turn() -> None:
    bench = CommitBench()
    for number in range(3):
        await bench.commit(user_message(f"turn {number}", f"t{number}"), used_tools=[tool_use("grep")])

    again = await bench.commit(user_message("turn 2", "t2"), used_tools=[tool_use("grep")])

    assert again.status == "unchanged"
    assert bench.nodes()["tools/grep"]["metadata"]["stats"]["calls"] == 3


async def test_a_summary_is_made_anew_when_a_session_has_grown_by_a_tenth() -> None:
    bench = CommitBench()
    topics = ["apricots", "bicycles", "cameras"]
    await bench.commit(*(user_message(f"We talked about {topics[0]} number {n}.", f"a{n}") for n in range(40)))
    first = bench.node(SESSION)
    await bench.commit(*(user_message(f"{topics[1]} and more {topics[1]}, number {n}.", f"b{n}") for n in range(3)))
    kept = bench.node(SESSION)

    await bench.commit(user_message(f"The last word is {topics[2]}.", "c1"))

    made = bench.node(SESSION)
    assert first is not None
    assert kept is not None
    assert made is not None
    assert (kept["abstract"], kept["overview"]) == (first["abstract"], first["overview"])
    assert [row["metadata"]["message_count"] for row in (first, kept, made)] == [40, 43, 44]
    assert made["overview"].startswith("44 messages")
    assert topics[2] in made["overview"]


async def test_what_a_person_wrote_of_a_session_stays_when_it_goes_on() -> None:
    bench = CommitBench()
    await bench.commit(user_message("We plan the summer fair.", "m1"))
    before = bench.node(SESSION)
    assert before is not None
    edited = {**before, "abstract": "The fair, my words.", "metadata": {**before["metadata"], BY: BY_PERSON}}
    await bench.store.commit("default", "user:li", lambda _: Draft("edit", [Write(NODES, SESSION, edited)]))

    await bench.commit(user_message("The tents are ordered.", "m2"))

    after = bench.node(SESSION)
    assert after is not None
    assert (after["abstract"], after["metadata"]["message_count"]) == ("The fair, my words.", 2)


async def test_calls_are_noted_with_their_message_and_known_when_it_is_forgotten() -> None:
    bench = CommitBench()
    first, second = user_message("one", "m1"), user_message("two", "m2")
    await bench.commit(first, used_tools=[tool_use("grep", call_id="c1")])
    await bench.commit(second, used_tools=[tool_use("grep", call_id="c2")])
    summary = find_memory(bench.store.view("default"), f"{SESSION}/m2")
    assert summary is not None

    def decide(view: View) -> Draft:
        writes = remove_message(view, summary, str)
        row = {**(view.get(PARTS, summary.uri) or {}), "deleted": True, "forgotten": True}
        return Draft("forget", [*writes, Write(PARTS, summary.uri, row)])

    await bench.store.commit("default", "user:li", decide)
    again = await bench.commit(
        first, second, used_tools=[tool_use("grep", call_id="c1"), tool_use("grep", call_id="c2")]
    )

    assert again.status == "unchanged"
    assert bench.nodes()["tools/grep"]["metadata"]["stats"]["calls"] == 2
