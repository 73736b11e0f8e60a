"""The order of search results: statements first, a turn with its replies, the newer of two similar ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from knowhub.context.model import MemoryCategory
from tests.builders import caller
from tests.context_commits import CommitBench, user_message
from tests.context_rows import memory_at, node_row, session_at
from tests.searched_memories import memories_in

pytestmark = pytest.mark.anyio

SESSION = session_at()


def make_turns(*turns: tuple[str, str], day: str = "2026-03-01") -> list[Mapping[str, Any]]:
    return [{"role": role, "content": text, "timestamp": f"{day}T10:00:00Z"} for role, text in turns]


async def test_a_turn_and_the_replies_to_it_are_one_result(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        turns = make_turns(
            ("user", "My bike is parked in the shed."),
            ("assistant", "Noted: the bike is parked in the shed."),
            ("user", "Thanks!"),
        )
        await memories.talk(SESSION, turns)

        (first, *others) = await memories.search("where is the bike parked")

        assert first.message_ids == ["m0"]
        assert all("m1" not in block.message_ids for block in others)

        await memories.talk(
            session_at("s2"), make_turns(("user", "Which lock?"), ("assistant", "The harbour lock opens at nine."))
        )
        (answered, *_) = await memories.search("which harbour lock opens at nine")
        assert (answered.abstract, answered.message_ids) == ("Which lock?", ["m0", "m1"])


async def test_a_matching_reply_is_returned_with_its_turn(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        turns = make_turns(("user", "Go on."), ("tool", "status 200"), ("assistant", "The harbour lock opens at nine."))
        await memories.talk(SESSION, turns)

        (first, *_) = await memories.search("harbour lock")

        assert first.message_ids[0] == "m2"
        assert "m0" in first.message_ids


async def test_a_statement_ranks_above_a_bare_question(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(session_at("s1"), [{"content": "where is the blue ladder?", "message_id": "asked"}])
        await memories.talk(session_at("s2"), [{"content": "the blue ladder is behind it", "message_id": "stated"}])

        assert (await memories.search_ids("where is the blue ladder"))[0] == "stated"


async def test_the_newer_of_two_similar_statements_ranks_first(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        for name, day, text in (
            ("old", "2026-01-05", "the weekly review is on Monday at ten"),
            ("new", "2026-05-05", "the weekly review is on Thursday at ten"),
        ):
            await memories.talk(session_at(name), [dict(*make_turns(("user", text), day=day)) | {"message_id": name}])

        assert await memories.search_ids("when is the weekly review") == ["new", "old"]


@pytest.mark.parametrize(
    ("earlier", "later", "question"),
    [
        ("The standup is every day at nine.", "Standup changes: Mondays only.", "is there a standup at nine every day"),
        ("站会每天九点开，线上。", "站会改了，挪到下午两点。", "每天九点开什么"),
    ],
)
async def test_a_later_change_ranks_above_the_earlier_statement(
    tmp_path: Path, earlier: str, later: str, question: str
) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(
            session_at("s1"), [dict(*make_turns(("user", earlier), day="2026-01-05")) | {"message_id": "earlier"}]
        )
        about_else = {"message_id": "else", "name": "Ada", "content": "The bus moved. 公车改了。"}
        said = [about_else, dict(*make_turns(("user", later))) | {"message_id": "later"}]
        await memories.talk(session_at("s2"), [{**item, "timestamp": "2026-05-05T10:00:00Z"} for item in said])

        assert (await memories.search_ids(question))[:2] == ["later", "earlier"]


async def test_an_update_does_not_outrank_another_speakers_statement(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        for name, day, text in (
            ("Ada", "2026-01-05", "My standup is every day at nine."),
            ("Bo", "2026-05-05", "Standup changes: Mondays only."),
        ):
            said = dict(*make_turns(("user", text), day=day)) | {"message_id": name, "name": name}
            await memories.talk(session_at(name), [said])

        assert await memories.search_ids("every day at nine") == ["Ada"]
        assert await memories.search_ids("standup every day at nine") == ["Ada", "Bo"]


async def test_a_memory_replaces_its_source_message_in_results(tmp_path: Path) -> None:
    memory = memory_at(MemoryCategory.PREFERENCES, "tea")
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_turns(("user", "I prefer oolong tea.")))
        metadata = {"source_refs": [f"{SESSION}/m0"], "message_ids": ["m0"]}
        await memories.put(node_row(memory, abstract="I prefer oolong tea.", metadata=metadata))

        blocks = await memories.search("oolong tea")

        assert [(block.uri, block.message_ids) for block in blocks] == [(memory, ["m0"])]


async def test_a_message_with_several_facts_supports_only_the_matching_memory(
    tmp_path: Path,
) -> None:
    about, other = memory_at(MemoryCategory.ENTITIES, "boat"), memory_at(MemoryCategory.ENTITIES, "parrot")
    said = {"source_refs": [f"{SESSION}/m0"], "message_ids": ["m0"]}
    async with memories_in(tmp_path) as memories:
        await memories.talk(
            SESSION, make_turns(("user", "The blue boat is moored in Kiel, and the parrot is called Otto."))
        )
        await memories.put(
            node_row(other, abstract="Parrot: Otto", metadata=said),
            node_row(about, abstract="Boat: moored in Kiel", metadata=said),
        )

        scores = {block.uri: block.score for block in await memories.search("where is the blue boat moored")}

        assert scores[about] > 2 * scores[other] > 0


async def test_a_question_about_the_user_finds_the_profile_without_shared_words(tmp_path: Path) -> None:
    profile = memory_at(MemoryCategory.PROFILE)
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_turns(("user", "Which city has the best trams?")))
        await memories.put(node_row(profile, abstract="Moved to Leeds"))

        assert profile in [block.uri for block in await memories.search("which city do I live in")]
        assert profile not in [block.uri for block in await memories.search("what has the best trams")]
        assert await memories.search("where do I live", ctx=caller(user_id="wang")) == []


async def test_a_single_shared_character_is_no_match(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_turns(("user", "他们组织了一次旅行")))

        assert await memories.search("预算组的钱") == []
        assert len(await memories.search("旅行")) == 1


async def test_a_postponed_plan_becomes_history_of_the_new_one(tmp_path: Path) -> None:
    bench = CommitBench()
    await bench.commit(user_message("The harbour concert is on 4 July.", "m1", "2026-05-01T10:00:00Z"))
    await bench.commit(user_message("The dentist is on 9 July.", "m2", "2026-05-02T10:00:00Z"), session_id="s2")

    await bench.commit(
        user_message("The harbour concert is postponed to 8 August.", "m3", "2026-06-01T10:00:00Z"), session_id="s3"
    )

    plans = {
        row["content"]: [item["text"] for item in row["metadata"]["history"]] for row in bench.of(MemoryCategory.EVENTS)
    }
    assert plans == {
        "The harbour concert is postponed to 8 August. (2026-08-08)": [
            "The harbour concert is on 4 July. (2026-07-04)"
        ],
        "The dentist is on 9 July. (2026-07-09)": [],
    }
    async with memories_in(tmp_path) as memories:
        await memories.talk(
            SESSION, make_turns(("user", "The harbour concert is on 4 July."), ("user", "It is postponed to 8 August."))
        )
        old, new = (f"{SESSION}/m{number}" for number in (0, 1))
        moved = {"statements": [{"source_refs": [new]}], "history": [{"source_refs": [old]}]}
        concert = memory_at(MemoryCategory.EVENTS, "concert")
        await memories.put(node_row(concert, abstract="It is postponed to 8 August.", metadata=moved))

        # What replaced a match is found though it does not match, and before what it replaced.
        found = [block.uri for block in await memories.search("what happens on 4 July at the harbour")]
        assert found[0] == concert
