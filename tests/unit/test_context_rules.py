"""What the extractors find without a model, on labelled conversations (`tests/data/spoken_memories.jsonl`).

A line is a conversation, the categories of what is to be found in it, and whether it was held back: rules were never
changed for what they did on a line that was.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.context.commit_model import CandidateMemory, SessionArchive
from knowhub.context.extraction import entity_rules, event_rules, preference_rules, procedure_rules
from knowhub.context.extraction.extractors import make_extractors
from knowhub.context.extraction_model import SpokenStatement
from knowhub.context.model import MemoryCategory
from knowhub.conversations.messages import Message
from knowhub.usecases.spoken_memories import RuleBasedReader
from tests.context_commits import SESSION, user, whose
from tests.scores import Score

pytestmark = pytest.mark.anyio

CORPUS = Path(__file__).parents[1] / "data" / "spoken_memories.jsonl"
SPEECH = RuleBasedReader()


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def is_chinese(line: Mapping[str, Any]) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in line["messages"][0]["content"])


async def found(messages: Sequence[Message]) -> list[CandidateMemory]:
    """Return what the four extractors find in messages that are named by their numbers."""
    named = [Message(one.role, one.content, one.name, f"m{at}", one.timestamp) for at, one in enumerate(messages)]
    archive = SessionArchive("s1", SESSION, "")
    extractors = make_extractors(SPEECH)
    return [one for extractor in extractors for one in await extractor.extract(named, archive, whose())]


async def score(chosen: Iterable[Mapping[str, Any]]) -> Score:
    counted = Score()
    for line in chosen:
        left = list(line["expect"])
        for candidate in await found([Message(**one) for one in line["messages"]]):
            if candidate.category in left:
                left.remove(candidate.category)
                counted.right += 1
            else:
                counted.wrong += 1
        counted.missed += len(left)
    return counted


def said(text: str) -> SpokenStatement:
    return SPEECH.statements([user(text)])[0]


def test_a_third_of_the_corpus_says_nothing_and_a_quarter_is_held_back() -> None:
    corpus = lines()

    assert len(corpus) >= 150
    assert sum(1 for line in corpus if not line["expect"]) > len(corpus) / 3
    assert sum(1 for line in corpus if line["held"]) > len(corpus) / 4


@pytest.mark.parametrize("held", [True, False], ids=["held back", "seen"])
async def test_nineteen_of_twenty_candidates_are_right_and_nine_of_ten_memories_are_found(held: bool) -> None:
    counted = await score(line for line in lines() if line["held"] is held)

    assert counted.precision >= 0.95
    assert counted.recall >= 0.9


@pytest.mark.parametrize("chinese", [True, False], ids=["zh", "en"])
async def test_both_languages_are_understood(chinese: bool) -> None:
    counted = await score(line for line in lines() if is_chinese(line) is chinese)

    assert counted.precision >= 0.95
    assert counted.recall >= 0.9


async def test_the_score_counts_what_is_wrong_and_what_is_missed() -> None:
    line = {"messages": [{"role": "user", "content": "I prefer tabs over spaces."}]}

    counted = await score([{**line, "expect": []}, {**line, "expect": ["preferences", "events"]}])

    assert (counted.right, counted.wrong, counted.missed) == (1, 1, 1)


async def test_an_event_is_of_the_day_that_it_names_and_keeps_when_it_was_told() -> None:
    _, event = await found([user("I moved to Berlin last week.", None, "2026-05-08T10:00:00+02:00")])

    assert event.facts["date"] == "2026-04-27"
    assert event.facts["grain"] == "week"
    assert event.facts["said_at"] == "2026-04-27T00:00:00Z"
    assert event.facts["told_at"] == "2026-05-08T08:00:00Z"


async def test_an_event_of_a_message_without_a_time_keeps_its_words_for_it() -> None:
    _, event = await found([user("I moved to Berlin last week.")])

    assert (event.facts["when"], event.facts["date"], event.facts["said_at"]) == ("last week", None, None)


async def test_where_several_people_speak_each_is_named_and_their_topics_stay_apart() -> None:
    talk = [user("I love oolong tea.", name="Ana"), user("Ben: I love green tea.", name="Ben")]

    candidates = await found(talk)

    assert [(one.routing_key, one.abstract) for one in candidates] == [
        ("Ana drink", "Ana: I love oolong tea."),
        ("Ben drink", "Ben: I love green tea."),
    ]


async def test_a_case_says_what_the_problem_was_and_what_helped() -> None:
    talk = [
        Message("tool", "Error: permission denied: /opt", "shell"),
        Message("assistant", "It needs a prefix of its own; I use ~/.local instead."),
        Message("tool", "done", "shell"),
    ]

    case = next(one for one in await found(talk) if one.category is MemoryCategory.CASES)

    assert case.content == (
        "Problem: shell: Error: permission denied: /opt\nIt worked after: It needs a prefix of its own; "
        "I use ~/.local instead."
    )
    assert [source.rpartition("/")[2] for source in case.source_refs] == ["m0", "m1", "m2"]


@pytest.mark.parametrize(
    ("request_said", "content"),
    [
        (
            "Find out why the nightly export lost its rows.",
            "Problem: Find out why the nightly export lost its rows.\n{}",
        ),
        ("Thanks, and please be brief.", "{}"),
    ],
)
async def test_an_outcome_is_told_with_the_request_that_it_is_about_and_else_alone(
    request_said: str, content: str
) -> None:
    end = "The root cause was that the nightly export skipped a page, so its rows were lost."

    (case,) = await found([user(request_said), Message("assistant", end)])

    assert case.content == content.format(end)


async def test_the_answers_of_a_tool_are_its_calls_and_an_error_is_a_failure() -> None:
    talk = [Message("tool", "Error: no such file", "cat"), Message("tool", "0 errors found", "cat")]

    (calls,) = await found(talk)

    assert [(use["id"], use["ok"]) for use in calls.facts["uses"]] == [
        (f"{SESSION}/m0", False),
        (f"{SESSION}/m1", True),
    ]


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("i love dark roast coffee.", "drink"),
        ("i'm allergic to peanuts.", "diet"),
        ("我喜欢爬山。", "sport"),
        ("i love watching lebron.", "watching-lebron"),
        ("i love it.", "general"),
        ("我喜欢下雨天。", "下雨天"),
    ],
)
def test_a_preference_has_a_topic_in_both_languages(text: str, topic: str) -> None:
    assert preference_rules.topic_of(text) == topic


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("My dog is called Rex.", ["Rex"]),
        ("我的猫叫咪咪。", ["咪咪"]),
        ("This is my sister.", []),
        ("Garlic is my go-to ingredient.", []),
        ("她是我妹妹。", []),
    ],
)
def test_a_name_is_told_from_a_pointing_word(text: str, names: list[str]) -> None:
    assert list(entity_rules.find_introduced_names(said(text))) == names


@pytest.mark.parametrize(
    "text",
    [
        "Please do not remember this: I live in Linz.",
        "Don't remember that I live in Linz.",
        "Don't save that I prefer tea.",
        "Do not store this. I live in Genf and I prefer tea.",
        "Off the record, I live in Genf.",
        "Just between us: my name is Rob Roe.",
        "Forget that I live in Genf.",
        "请不要记住我住在长沙。",
        "请别记住我喜欢茶。",
        "不要保存：我住在长沙。",
        "我住在长沙。请保密。",
        "忘掉我住在昆明这件事。",
    ],
)
async def test_what_somebody_asks_to_keep_to_oneself_is_not_remembered(text: str) -> None:
    assert await found([user(text)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "You said I live in Graz.",
        "You told me that I prefer tea.",
        "You think I live in Graz.",
        "It's wrong that my name is Bob.",
        "I live in Graz is what you wrote.",
        "I was joking, I live in Rome.",
        "In the story, I live in Narnia.",
        "According to the file I live in Kiel.",
        "The CSV says my name is Bob.",
        "你说过我住在大连。",
        "用户说我住在大连。",
        "我住在大连这件事不是真的。",
    ],
)
async def test_what_others_hold_of_the_speaker_is_not_remembered(text: str) -> None:
    assert await found([user(text)]) == []


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Don't forget that I live in Linz.", "profile"),
        ("Never store passwords in plain text.", "preferences"),
        ("I prefer that you do not save files without asking.", "preferences"),
        ("Correction: I live in Vienna.", "profile"),
        ("I work at a bank, and you said that is fine.", "profile"),
        ("别忘了我住在昆明。", "profile"),
        ("更正：我住在青岛。", "profile"),
        ("我喜欢把日志保存到数据库。", "preferences"),
    ],
)
async def test_what_only_sounds_like_a_secret_is_remembered(text: str, category: str) -> None:
    assert [one.category for one in await found([user(text)])] == [category]


PIECES = [
    "我",
    "我们",
    "昨天",
    "每次",
    "之前",
    "先",
    "My ",
    "sister ",
    "is ",
    "called ",
    "Anna",
    "yesterday ",
    "I went ",
    "。",
    ". ",
    "?",
]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=30).map("".join))
def test_no_text_breaks_the_rules(text: str) -> None:
    for one in SPEECH.statements([user(text)]):
        assert event_rules.is_event(one) in (True, False)
        assert preference_rules.topic_of(one.bare)
        assert all(name.strip() for name in entity_rules.find_introduced_names(one))


UNITS = ["a ", "A B ", "my wife and i ", "我们", "每次", "之前", "yesterday i ", "my sister ", "when x, ", "5月"]
UNITS += ["don't save ", "between us ", "you said ", "不要记住", "你说", "忘掉"]


@pytest.mark.parametrize("unit", UNITS)
def test_no_expression_runs_away_on_repetitions(unit: str) -> None:
    honest, hostile = "We talked about the weather and the garden for a while. " * 7, unit * 398

    def seconds(text: str) -> float:
        started = time.process_time()
        for one in SPEECH.statements([user(text[:398])]):
            event_rules.is_event(one)
            preference_rules.is_preference(one)
            procedure_rules.is_procedure(one)
            list(entity_rules.find_introduced_names(one))
        return time.process_time() - started

    assert seconds(hostile) < 20 * max(seconds(honest), 0.02)
