"""Summaries of a session, made of its own sentences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.context.commit.session_node import MAX_ABSTRACT, MAX_OVERVIEW, OVERVIEW, ArchiveBuilder
from knowhub.context.commit_model import SessionArchive
from knowhub.context.extraction.summaries import SessionLine, key_lines, summary, topics
from knowhub.conversations.messages import Message
from tests.context_commits import SESSION, agent_message, memory_spaces, tool_message, user_message

pytestmark = pytest.mark.anyio


async def build_archive(*messages: Message) -> SessionArchive:
    builder = ArchiveBuilder()
    return await builder.build_archive(memory_spaces(), messages)


async def test_an_archive_names_its_session_and_its_last_messages() -> None:
    messages = [user_message(f"Message number {number} is about bread.") for number in range(15)]

    archive = await build_archive(*messages)

    assert (archive.session_id, archive.archive_uri) == ("s1", SESSION)
    assert list(archive.recent_messages) == messages[-10:]
    assert archive.stats["messages"] == 15


async def test_the_abstract_holds_the_recurring_topic() -> None:
    small_talk = [
        user_message(f"We had {dish} for lunch with some bread and a salad.") for dish in ("soup", "rice", "fish")
    ]

    archive = await build_archive(
        user_message("Good morning to you all, I hope that you have slept well."),
        user_message("The migration of the billing database failed again during the night."),
        agent_message("The billing database migration needs more space on its disk than there is."),
        *small_talk,
        user_message("Then we give the migration of billing a larger disk before the night."),
    )

    assert archive.summary.startswith("user: The migration of the billing database failed again during the night.")
    assert archive.summary.count("for lunch") == 1
    assert "slept well" not in archive.summary


async def test_a_short_session_is_its_own_summary() -> None:
    archive = await build_archive(
        user_message("Good morning!"), agent_message("Good morning to you."), user_message("It rains.")
    )

    assert archive.summary == "user: Good morning! assistant: Good morning to you. user: It rains."


async def test_a_chinese_session_is_summed_up_in_chinese() -> None:
    archive = await build_archive(
        user_message("数据库迁移昨天又失败了。", None, "2026-05-08"),
        agent_message("数据库迁移需要更大的磁盘。"),
        user_message("午饭不错。"),
    )

    assert "数据库迁移" in archive.summary
    assert "3 条消息 · 参与者: user (2), assistant (1)" in archive.stats[OVERVIEW]
    assert "话题: 数据库迁移" in archive.stats[OVERVIEW]


async def test_the_overview_has_speakers_times_topics_first_and_last_words() -> None:
    archive = await build_archive(
        user_message("Ana: The garden needs water today.", None, "2026-05-08T10:00:00", "Ana"),
        user_message("The garden got water from me.", None, "2026-05-08T11:00:00", "Ben"),
    )

    assert archive.stats[OVERVIEW].splitlines() == [
        "2 messages · Who: Ana (1), Ben (1)",
        "When: 2026-05-08T10:00:00 – 2026-05-08T11:00:00",
        "Topics: garden, water",
        "- Ana: The garden needs water today.",
        "- Ben: The garden got water from me.",
        "First: Ana: The garden needs water today.",
        "Last: Ben: The garden got water from me.",
    ]


async def test_a_session_of_tool_output_is_summarised_by_its_first_line() -> None:
    archive = await build_archive(tool_message('{"rows": 3}', "query"))

    assert archive.summary == 'query: {"rows": 3}'


async def test_summaries_contain_no_credentials() -> None:
    archive = await build_archive(
        user_message("My database password is hunter2secret9! for the billing database."),
        user_message("The billing database is up."),
    )

    assert "hunter2" not in f"{archive.summary}{archive.stats[OVERVIEW]}"
    assert "billing" in archive.summary


KEY_IN_TEXT = """I like this:
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAxkJ3vQ2n8h4Z0pT7bq9Yw1c5r6LmXnD8sKfGhJ2kL3mN4pQ5
rS6tU7vW8xY9zA0bC1dE2fG3hI4jK5lM6nO7pQ8rS9tU0vW1xY2zA3bC4dE5fG6h
-----END RSA PRIVATE KEY-----"""


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (
            KEY_IN_TEXT,
            ("MIIEpA", "rS6tU7", "miiepa", "BEGIN RSA"),
        ),
        ("I live in Rome.\nMy passphrase is Foo!Bar.Baz?Qux9", ("Foo", "Bar", "Baz", "Qux9")),
        ("The password is 'Winter! 2026 Snow'. I like tea.", ("Winter", "2026", "Snow")),
    ],
)
async def test_summaries_contain_no_part_of_a_multiline_credential(said: str, parts: tuple[str, ...]) -> None:
    archive = await build_archive(user_message(said), agent_message(said), user_message("The billing database is up."))

    told = f"{archive.summary}{archive.stats[OVERVIEW]}"
    assert [part for part in parts if part in told] == []
    assert "billing" in told


async def test_a_speaker_of_several_lines_is_named_on_one() -> None:
    archive = await build_archive(Message("user", "The garden is green.", name="Li\nLast: nobody"))

    assert "\nLast: nobody" not in f"{archive.summary}{archive.stats[OVERVIEW]}"


async def test_bracketed_notes_are_left_out_of_summaries() -> None:
    archive = await build_archive(
        user_message("[shares image: a garden] Look at my garden."), user_message("Your garden is green.")
    )

    assert "shares image" not in archive.summary


TEXTS = st.text(max_size=400) | st.lists(
    st.sampled_from(["the garden ", "数据库", "。", ". ", "\n", "```", "I went "]), max_size=40
).map("".join)


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXTS, max_size=12))
def test_summaries_never_exceed_their_limits(texts: list[str]) -> None:
    builder = ArchiveBuilder()

    abstract, overview = builder.extract_summary([user_message(text) for text in texts if text.strip()])

    assert len(abstract) <= MAX_ABSTRACT
    assert len(overview) <= MAX_OVERVIEW
    assert bool(abstract) is any(text.strip() for text in texts)


def test_repeated_sentences_are_left_out() -> None:
    lines = [
        SessionLine("a", "The red fox jumps over fences.", 0),
        SessionLine("b", "The red fox jumps over fences again.", 1),
    ]

    assert len(key_lines([*lines, SessionLine("b", "Pears " * 60, 2)], 300)) == 1


def test_a_sentence_too_long_for_the_summary_is_skipped() -> None:
    lines = [SessionLine("a", "billing disk migration " * 30, 0), SessionLine("b", "The billing disk migration.", 1)]

    assert key_lines(lines, 60) == [lines[1]]
    assert len(summary(lines[:1], 60)) <= 60


def test_topics_are_words_of_several_messages() -> None:
    lines = [SessionLine("a", "garden garden garden water", 0), SessionLine("a", "water tower", 1)]

    assert topics(lines) == ["water"]
