"""Extraction by a model: accepted and rejected output, and a model without an answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from knowhub.context.commit.candidate_pipeline import CandidatePipeline, PipelineOptions
from knowhub.context.model import MemoryCategory
from knowhub.conversations.messages import Message
from knowhub.core.language_models import ChatFailed, ChatReply, ChatRequest, FailureReason
from tests.context_commits import SESSION, Desk, agent, memories, user
from tests.fakes.hostile_answers import HostileAnswers
from tests.fakes.queued_chat import NEVER, QueuedChat, fenced_data

pytestmark = pytest.mark.anyio

SUMMARY = {"abstract": "A talk about tea.", "overview": "Li likes oolong tea."}
TALK = (
    user("I love oolong tea and my sister Maria lives in Porto.", "m1", "2026-05-08T10:00:00Z"),
    agent("Good to know.", "m2"),
)


class Answering:
    """A model that gives each function its answer, and nothing found where there is none."""

    model = "answering"

    def __init__(self, **answers: object) -> None:
        self._answers = answers
        self.questions: list[ChatRequest] = []

    async def chat(self, question: ChatRequest, timeout_s: float) -> ChatReply:
        assert timeout_s > 0
        self.questions.append(question)
        answer: Any = self._answers.get(question.function, memories())
        if question.function == "summarise_session" and question.function not in self._answers:
            answer = SUMMARY
        if isinstance(answer, Exception):
            raise answer
        return ChatReply(answer, self.model, 0.01, 10, 5)


def item(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field, wrong ones too
    told = {"category": "preferences", "key": "tea", "abstract": "Li loves oolong tea.", "messages": [0]}
    return told | fields


async def found(**answers: object) -> tuple[Desk, Sequence[Mapping[str, Any]]]:
    """Return a desk on which the talk was committed, and what stands of it beside the session."""
    desk = Desk(Answering(**answers))
    await desk.commit(*TALK)
    return desk, [row for row in desk.nodes().values() if row["category"] != "sessions"]


async def test_a_model_says_what_a_session_was_about_and_what_to_remember() -> None:
    desk, (tea,) = await found(extract_memories_preferences=memories(item(content="Oolong tea, always.")))

    node = desk.node(SESSION)
    assert node is not None
    assert (node["abstract"], node["overview"], node["metadata"]["by"]) == (*SUMMARY.values(), "llm")
    assert (tea["category"], tea["metadata"]["routing_key"]) == ("preferences", "tea")
    assert "Oolong tea, always." in tea["content"]
    assert (tea["metadata"]["by"], tea["metadata"]["message_ids"]) == ("llm", ["m1"])


async def test_each_extractor_asks_for_its_own_and_shows_the_messages_as_data() -> None:
    chat = Answering()

    await Desk(chat).commit(*TALK)

    assert sorted(question.function for question in chat.questions) == [
        "extract_memories_cases",
        "extract_memories_entities",
        "extract_memories_preferences",
        "extract_memories_profile",
        "summarise_session",
    ]
    assert fenced_data(chat.questions[-1])["messages"][0] == {
        "idx": 0,
        "role": "user",
        "text": TALK[0].content,
        "said_at": "2026-05-08T10:00:00Z",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "no object",
        item(category="profile"),
        item(category="sessions"),
        item(category=7),
        item(key=""),
        item(abstract=None),
        item(messages=[]),
        item(messages=[9, "0", True, -1]),
        item(abstract="The moon is made of green cheese."),
    ],
)
async def test_an_item_that_is_none_costs_nothing_but_itself(wrong: object) -> None:
    _, rows = await found(extract_memories_preferences={"memories": [wrong, item()]})

    assert [row["abstract"] for row in rows] == ["Li loves oolong tea."]


async def test_an_answer_changes_neither_owner_nor_scopes() -> None:
    bold = item(owner="user:wang", scopes=["public"], owner_scope="agent", uri="ctx://x", deleted=True)

    _, (row,) = await found(extract_memories_preferences=memories(bold))

    assert (row["owner"], row["scopes"]) == ("user:li", ["user:owner"])


async def test_a_model_says_itself_whose_memory_it_is_where_several_people_speak() -> None:
    desk = Desk(Answering(extract_memories_preferences=memories(item(abstract="Ana loves oolong tea."))))

    await desk.commit(user("I love oolong tea.", "m1", name="Ana"), user("Me too, Ana.", "m2", name="Ben"))

    assert [row["abstract"] for row in desk.of(MemoryCategory.PREFERENCES)] == ["Ana loves oolong tea."]


async def test_an_event_has_the_day_that_a_model_reckons() -> None:
    said = item(category="events", key="visit", abstract="Li visits the sister in Porto.", date="2026-05-07")

    _, (event,) = await found(extract_memories_entities=memories(said))

    assert "/events/2026-05-07-" in event["id"]
    assert event["metadata"]["said_at"] == "2026-05-07T00:00:00Z"


@pytest.mark.parametrize(
    "answer",
    [ChatFailed(FailureReason.FAILURE, "down"), RuntimeError("boom"), {"nothing": 1}, {"memories": "many"}, []],
)
async def test_where_a_model_fails_rules_take_its_place_for_that_extractor_alone(answer: object) -> None:
    desk = Desk(Answering(extract_memories_preferences=answer))

    result = await desk.commit(*TALK)

    assert list(result.degraded) == ["llm"]
    assert [row["metadata"]["by"] for row in desk.of(MemoryCategory.PREFERENCES)] == ["rules"]
    assert desk.of(MemoryCategory.ENTITIES) == []


async def test_where_a_model_gives_no_summary_the_sentences_of_the_session_do() -> None:
    desk = Desk(Answering(summarise_session={"abstract": "", "overview": "x"}))

    result = await desk.commit(*TALK)

    assert list(result.degraded) == ["llm"]
    assert result.archive.stats["by"] == "rules"
    assert "oolong" in result.archive.summary


async def test_a_model_that_never_answers_is_waited_for_within_the_budget() -> None:
    chat = QueuedChat([NEVER] * 5)
    short = CandidatePipeline(chat, PipelineOptions(budget_s=0.05))
    desk = Desk(pipeline=short)

    result = await desk.commit(*TALK)

    assert list(result.degraded) == ["llm"]
    assert len(desk.of(MemoryCategory.PREFERENCES)) == 1


async def test_the_calls_are_kept_in_the_operation() -> None:
    desk, _ = await found(extract_memories_profile=RuntimeError("boom"))

    calls = desk.directories.operations[0].agent_io or ()
    assert sorted((call["function"], call["failure"]) for call in calls)[-2:] == [
        ("extract_memories_profile", "agent_failure"),
        ("summarise_session", None),
    ]


async def test_a_credential_is_shown_to_no_model_and_taken_from_none() -> None:
    chat = Answering(
        summarise_session={"abstract": "The password is hunter2secret9!", "overview": "x"},
        extract_memories_preferences=memories(
            item(abstract="I love oolong tea, Maria lives in Porto. My password is hunter2secret9!")
        ),
    )
    desk = Desk(chat)

    result = await desk.commit(*TALK, user("My password is hunter2secret9!", "m3"))

    assert "hunter2" not in str(chat.questions)
    assert "hunter2" not in str(desk.nodes())
    assert result.stats["dropped"] == {"secret": 1}


async def test_what_a_system_says_is_shown_to_no_extractor() -> None:
    chat = Answering()

    await Desk(chat).commit(Message("system", "You serve Li, who keeps llamas."), *TALK)

    assert "llamas" not in str(chat.questions)


async def test_a_long_session_is_shown_in_bounded_parts() -> None:
    chat = Answering()

    await Desk(chat).commit(*(user(f"Number {number}: " + "tea " * 800, f"m{number}") for number in range(60)))

    shown = [fenced_data(question)["messages"] for question in chat.questions if "profile" in question.function]
    assert len(shown) == 4
    assert all(sum(len(one["text"]) for one in part) <= 24_000 for part in shown)
    assert [part[-1]["idx"] for part in shown][-1] == 59


@pytest.mark.parametrize("seed", range(12))
async def test_no_answer_breaks_a_commit_or_its_log_line(seed: int) -> None:
    hostile = HostileAnswers(seed, ["m1", "ctx://default/users/wang/memories/profile"])
    answers = [hostile.answer(late=False) for _ in range(3)]
    nasty = memories(item(abstract="Li loves tea \ud800 </data>", key="../..", content="tea\x00" * 9_000), item(key={}))
    desk = Desk(QueuedChat([*answers, nasty, nasty]))

    result = await desk.commit(*TALK)

    assert result.status == "committed"
    assert all(row["owner"] in {"user:li", "agent:helper"} for row in desk.nodes().values())
    assert len(desk.parts()) == 2
