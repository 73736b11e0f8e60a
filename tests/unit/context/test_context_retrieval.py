"""Searching messages and memories: by words, neighbours, day, speaker and category."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from knowhub.context.model import NODES, MemoryCategory
from knowhub.context.retrieval.seeds import plan_query
from tests.builders import START
from tests.context_rows import memory_at, node_row, part_row, session_at
from tests.fakes.scripted_reranker import ScriptedReranker
from tests.searched_memories import LI, Memories, memories_in

pytestmark = pytest.mark.anyio

SESSION = session_at()
DIALOGUES = Path(__file__).parents[2] / "data" / "dialogues.jsonl"


def make_messages(*texts: str) -> list[dict[str, Any]]:
    return [{"content": text} for text in texts]


async def measure_recall(memories: Memories, lines: Sequence[Mapping[str, Any]], top: int) -> float:
    sessions: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        if "text" in line:
            sessions[line["session"]].append(line)
    for name, said in sessions.items():
        turns = [
            {"content": item["text"], "message_id": item["id"], "timestamp": item["at"], "name": item["name"]}
            for item in said
        ]
        await memories.talk(session_at(name), turns)
    shares = []
    for line in lines:
        if "question" in line:
            memories.clock.seconds = datetime.fromisoformat(line["now"]).replace(hour=12, tzinfo=UTC).timestamp()
            found = (await memories.search_ids(line["question"], top_k=top))[:top]
            shares.append(len(set(found) & set(line["answers"])) / len(line["answers"]))
    return sum(shares) / len(shares)


@pytest.mark.parametrize(("language", "among_three", "among_five"), [("zh", 0.92, 0.96), ("en", 0.65, 0.88)])
async def test_questions_about_dialogues_find_the_messages_that_answer_them(
    tmp_path: Path, language: str, among_three: float, among_five: float
) -> None:
    written = map(json.loads, DIALOGUES.read_text(encoding="utf-8").splitlines())
    lines = [line for line in written if line["language"] == language]

    async with memories_in(tmp_path) as memories:
        five = await measure_recall(memories, lines, 5)
        three = await measure_recall(memories, [line for line in lines if "question" in line], 3)

    assert three >= among_three
    assert five >= among_five


async def test_neighbours_of_a_match_are_returned(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_messages("The game was new.", "A team shooter.", "Nice weather."))
        await memories.talk(session_at("s2"), make_messages("I like soup.", "Me too."))

        blocks = await memories.search("which game", categories=["sessions"])

        assert [block.message_ids for block in blocks] == [["m0"], ["m1"], ["m2"]]
        assert ("beside a match" in blocks[0].match_reason, "beside a match" in blocks[1].match_reason) == (False, True)
        assert [block.score for block in blocks] == sorted((block.score for block in blocks), reverse=True)


async def test_forgotten_and_foreign_neighbours_are_not_returned(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_messages("The game was new.", "A team shooter.", "Nice weather."))
        await memories.talk(session_at("s2"), make_messages("I like soup."))
        gone = part_row(SESSION, 1, "A team shooter.", deleted=True, forgotten=True, version=2)

        await memories.put(gone)

        assert await memories.search_ids("which game") == ["m0", "m2"]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("5月2日发生了什么", "b"),
        ("劳动节做了什么", "a"),
        ("昨天的事", "c"),
        ("what happened on 2 May", "b"),
        ("what happened yesterday", "c"),
        ("what happened last year", "old"),
    ],
)
async def test_a_question_with_a_date_finds_messages_of_that_date(tmp_path: Path, question: str, wanted: str) -> None:
    said = {"old": "2022-08-08", "a": "2023-05-01", "b": "2023-05-02", "c": "2023-06-09", "d": "2023-04-01"}

    async with memories_in(tmp_path) as memories:
        memories.clock.seconds = datetime(2023, 6, 10, 9, tzinfo=UTC).timestamp()
        for name, day in said.items():
            turn = {"content": "今天天气不错 nothing new", "message_id": name, "timestamp": f"{day}T10:00:00Z"}
            await memories.talk(session_at(name), [turn])

        assert (await memories.search_ids(question))[0] == wanted


@pytest.mark.parametrize(
    ("said", "question"), [("昨天去了西山", "5月1日去了哪里"), ("I went there yesterday", "on 1 May")]
)
async def test_a_message_is_found_by_the_day_that_it_mentions(tmp_path: Path, said: str, question: str) -> None:
    async with memories_in(tmp_path) as memories:
        for name, day in (("before", "2023-04-20"), ("said", "2023-05-02"), ("after", "2023-05-12")):
            turn = {"content": said, "message_id": name, "timestamp": f"{day}T10:00:00+08:00"}
            await memories.talk(session_at(name), [turn])

        assert (await memories.search_ids(question))[0] == "said"


async def test_the_day_of_a_message_is_in_its_own_time_zone(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        turn = {"content": "到家了", "message_id": "late", "timestamp": "2023-05-02T00:30:00+08:00"}
        await memories.talk(SESSION, [turn])

        assert await memories.search_ids("5月2日") == ["late"]
        assert await memories.search_ids("5月1日") == []
        reasons = [(await memories.search(f"{day}到家"))[0].match_reason for day in ("5月2日", "5月1日")]
        assert ["of that day" in reason for reason in reasons] == [True, False]


async def test_a_time_relative_to_an_event_is_resolved(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        for name, day, text in (
            ("met", "2023-05-01", "Great that we met at the pottery class"),
            ("week", "2023-05-08", "The picture is sold"),
            ("month", "2023-06-08", "The picture is finished"),
        ):
            turn = {"content": text, "message_id": name, "timestamp": f"{day}T10:00:00Z"}
            await memories.talk(session_at(name), [turn])

        found = await memories.search_ids("What about the picture a week after we met at the pottery class?")

        assert found[0] == "week"


async def test_a_named_speaker_filters_by_speaker_and_is_not_searched(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        turns = make_messages("Nate: I adopted a dog.", "Joanna: Nate, Nate, Nate!", "Joanna: I adopted a cat.")
        await memories.talk(SESSION, turns)

        found = await memories.searching.search(LI, "What did Nate adopt?", categories=["sessions"])
        again = await memories.searching.search(LI, "What did Joanna adopt?", categories=["sessions"])

        assert found.query_plan[0].hints["persons"] == ["Nate"]
        assert found.blocks[0].message_ids == ["m0"]
        assert "said by Nate" in found.blocks[0].match_reason
        assert again.blocks[0].message_ids == ["m2"]


async def test_a_question_of_a_bare_name_finds_that_name(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_messages("小林：我换了工作。", "陈晨：恭喜小林！"))

        assert set(await memories.search_ids("小林")) == {"m0", "m1"}


@pytest.mark.parametrize("question", ["陈晨说过什么", "What did 陈晨 mention?"])
async def test_a_question_with_only_a_known_speaker_finds_their_messages(tmp_path: Path, question: str) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_messages("小林：我换了工作。", "陈晨：恭喜。"))
        await memories.talk(session_at("s2"), make_messages("小林：他什么都没说，I mention it only once."))

        first, again = await memories.search_ids(question), await memories.search_ids(question)

        assert again == first
        assert {"m1"} <= set(first)


async def test_a_time_relative_to_an_event_without_messages_is_ignored(
    tmp_path: Path,
) -> None:
    async with memories_in(tmp_path) as memories:
        turn = {"content": "我们一起去了杭州。", "message_id": "trip", "timestamp": "2023-05-01T10:00:00Z"}
        await memories.talk(SESSION, [turn])

        assert await memories.search_ids("我们去杭州两周后") == ["trip"]


async def test_the_asked_category_ranks_first_and_others_follow(tmp_path: Path) -> None:
    like, event = memory_at(MemoryCategory.PREFERENCES, "drinks"), memory_at(MemoryCategory.EVENTS, "coffee")

    async with memories_in(tmp_path) as memories:
        await memories.put(node_row(like, abstract="咖啡 美式"), node_row(event, abstract="咖啡 美式"))

        asked = await memories.search("喜欢什么咖啡")
        narrowed = await memories.search("喜欢什么咖啡", categories=["events"])

        assert [block.uri for block in asked] == [like, event]
        assert "the kind asked for" in asked[0].match_reason
        assert [block.uri for block in narrowed] == [event]


async def test_a_memory_with_a_matching_source_ranks_first(tmp_path: Path) -> None:
    plain, founded = memory_at(MemoryCategory.EVENTS, "a"), memory_at(MemoryCategory.EVENTS, "b")
    sources = [f"{SESSION}/m{number}" for number in (0, 1)]

    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_messages("hello there", "the harbour at night"))
        metadata = {"source_refs": sources, "message_ids": ["m0", "m1"]}
        await memories.put(
            node_row(plain, abstract="harbour walk"), node_row(founded, abstract="harbour walk", metadata=metadata)
        )

        blocks = {block.uri: block for block in await memories.search("harbour")}

        assert blocks[founded].score > blocks[plain].score
        assert "what was said" in blocks[founded].match_reason
        assert (blocks[founded].message_ids, blocks[plain].message_ids) == (["m1", "m0"], [])


async def test_a_search_parses_no_node_texts(tmp_path: Path) -> None:
    memory = memory_at(MemoryCategory.CASES, "deploy", space="agents/~li")

    async with memories_in(tmp_path) as memories:
        await memories.put(node_row(memory, abstract="deploy the harbour", overview="o" * 50, content="c" * 50))
        await memories.talk(SESSION, make_messages("the harbour " + "long " * 200))
        await memories.search("harbour")
        # From here on the text of a node cannot be parsed.
        nodes = memories.store.account("default").memory_table(NODES)
        for address, _ in nodes.texts():
            nodes.put_summary(address, b"", {}, nodes.summary(address))

        blocks = await memories.search("harbour")

        assert {block.uri for block in blocks} == {memory, f"{SESSION}/m0"}
        assert {(block.overview, block.content, block.content_excerpt) for block in blocks} == {(None, None, None)}
        assert {block.level_hit for block in blocks} == {"L0"}


async def test_a_long_message_is_cut_at_two_thousand_characters(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(SESSION, make_messages("harbour " + "x" * 900, "harbour " + "y" * 3_000))

        lengths = sorted(len(block.abstract) for block in await memories.search("harbour"))

        assert lengths == [908, 2_000]


async def test_a_long_message_is_shown_around_its_match(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(
            SESSION,
            make_messages("log line " * 5_000 + "the Harbours were closed" + " again" * 900, "报告" * 3_000 + "灯塔"),
        )

        english, chinese = await memories.search("harbour"), await memories.search("灯塔在哪里")

        assert "the Harbours were closed" in english[0].abstract[:120]
        assert (len(english[0].abstract), english[0].match_reason) == (2_000, "words: harbour")
        assert chinese[0].abstract.endswith("灯塔")


async def test_a_session_is_found_by_its_summary(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.put(node_row(SESSION, abstract="plans for the harbour"), part_row(SESSION, 0, "hello"))

        blocks = await memories.search("harbour")

        assert [block.uri for block in blocks] == [SESSION]
        assert "the session as a whole" in blocks[0].match_reason


async def test_a_reranker_orders_results_and_its_failure_is_reported(tmp_path: Path) -> None:
    reranker = ScriptedReranker([lambda _query, texts: [float("dog" in text) for text in texts], TimeoutError("late")])

    async with memories_in(tmp_path, reranker) as memories:
        await memories.talk(SESSION, make_messages("pet pet pet", "x", "y", "z", "u", "v", "a pet, a dog"))

        ordered = await memories.searching.search(LI, "pet", top_k=2)
        failed = await memories.searching.search(LI, "pet", top_k=2)

        assert ordered.blocks[0].message_ids == ["m6"]
        assert (list(ordered.degraded), list(failed.degraded)) == ([], ["reranker"])
        assert failed.blocks[0].message_ids == ["m0"]
        assert len(ordered.blocks) == len(failed.blocks) == 2


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("他有什么偏好", ["preferences"]),
        ("Who is Ada?", ["profile", "entities"]),
        ("where do I live", ["profile"]),
        ("我目前在哪里上班", ["profile"]),
        ("may you send it", ["preferences"]),
        ("回复有什么格式要求", ["preferences"]),
        ("什么时候出发", ["events"]),
        ("how to deploy it", ["cases", "patterns", "skills"]),
        ("天气", None),
    ],
)
def test_the_category_is_read_from_the_question_unless_given(query: str, asked: list[str] | None) -> None:
    free = plan_query("default", query, now=START)
    named = plan_query("default", query, categories=["events"], now=START)

    assert free.hints.get("categories") == asked
    assert (free.categories, named.categories, named.hints.get("categories")) == ((), ("events",), None)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("[18:42] which bus goes to the quarry?", "which bus goes to the quarry?"),
        ("[07:05:33] Marek: which bus goes to the quarry?", "which bus goes to the quarry?"),
        ("[7:05] 小周：钥匙放在谁那里？", "钥匙放在谁那里？"),
        ("Rust: who keeps the keys?", "Rust: who keeps the keys?"),
        ("[18:42] Note: who keeps the keys?", "Note: who keeps the keys?"),
        ("Note: who keeps the keys?", "Note: who keeps the keys?"),
        ("note from Anna: who keeps the keys?", "note from Anna: who keeps the keys?"),
        ("[18:42]", "[18:42]"),
        ("Marek:", "Marek:"),
        ("[18:42] Marek: ?", "[18:42] Marek: ?"),
        ("meet at 18:42", "meet at 18:42"),
    ],
)
def test_the_label_of_a_chat_line_is_no_part_of_a_question(query: str, text: str) -> None:
    assert plan_query("default", query, now=START).text == text


async def test_the_figures_of_a_chat_line_find_no_message(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.talk(
            SESSION, make_messages("[18:20] the well is dry", "[09:42] a new roof", "the bus to the quarry")
        )

        assert (await memories.search_ids("[18:42] which bus?"))[0] == "m2"
