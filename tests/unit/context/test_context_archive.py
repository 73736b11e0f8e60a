"""Summaries of a session, made of its own sentences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.context.commit.session_summary import SessionLine, choose_lines, summarize_lines, summarize_session
from knowhub.context.texts import MAX_ABSTRACT, MAX_OVERVIEW
from knowhub.conversations.messages import Message
from tests.context_commits import agent_message, tool_message, user_message


def test_the_abstract_holds_the_recurring_topic() -> None:
    small_talk = [
        user_message(f"We had {dish} for lunch with some bread and a salad.") for dish in ("soup", "rice", "fish")
    ]
    messages = [
        user_message("Good morning to you all, I hope that you have slept well."),
        user_message("The migration of the billing database failed again during the night."),
        agent_message("The billing database migration needs more space on its disk than there is."),
        *small_talk,
        user_message("Then we give the migration of billing a larger disk before the night."),
    ]

    abstract, _ = summarize_session(messages)

    assert abstract.startswith("user: The migration of the billing database failed again during the night.")
    assert abstract.count("for lunch") == 1
    assert "slept well" not in abstract


def test_a_chinese_session_is_summed_up_in_chinese() -> None:
    messages = [
        user_message("数据库迁移昨天又失败了。", None, "2026-05-08"),
        agent_message("数据库迁移需要更大的磁盘。"),
        user_message("午饭不错。"),
    ]

    abstract, overview = summarize_session(messages)

    assert "数据库迁移" in abstract
    assert "3 条消息 · 参与者: user (2), assistant (1)" in overview


def test_the_overview_has_speakers_times_first_and_last_words() -> None:
    messages = [
        user_message("Ana: The garden needs water today.", None, "2026-05-08T10:00:00", "Ana"),
        user_message("The garden got water from me.", None, "2026-05-08T11:00:00", "Ben"),
    ]

    assert summarize_session(messages)[1].splitlines() == [
        "2 messages · Who: Ana (1), Ben (1)",
        "When: 2026-05-08T10:00:00 – 2026-05-08T11:00:00",
        "- Ana: The garden needs water today.",
        "- Ben: The garden got water from me.",
        "First: Ana: The garden needs water today.",
        "Last: Ben: The garden got water from me.",
    ]


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
def test_summaries_contain_no_part_of_a_multiline_credential(said: str, parts: tuple[str, ...]) -> None:
    summaries = "".join(
        summarize_session([user_message(said), agent_message(said), user_message("The billing database is up.")])
    )

    assert [part for part in parts if part in summaries] == []
    assert "billing" in summaries


@pytest.mark.parametrize(
    ("message", "abstract"),
    [
        (tool_message('{"rows": 3}', "query"), 'query: {"rows": 3}'),
        (Message("user", "The garden is green.", name="Li\nLast: nobody"), "Li Last: nobody: The garden is green."),
    ],
)
def test_the_summary_of_one_message(message: Message, abstract: str) -> None:
    assert summarize_session([message])[0] == abstract


def test_bracketed_notes_are_left_out_of_summaries() -> None:
    messages = [user_message("[shares image: a garden] Look at my garden."), user_message("Your garden is green.")]

    assert "shares image" not in summarize_session(messages)[0]


TEXTS = st.text(max_size=400) | st.lists(
    st.sampled_from(["the garden ", "数据库", "。", ". ", "\n", "```", "I went "]), max_size=40
).map("".join)


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXTS, max_size=12))
def test_summaries_never_exceed_their_limits(texts: list[str]) -> None:
    abstract, overview = summarize_session([user_message(text) for text in texts if text.strip()])

    assert len(abstract) <= MAX_ABSTRACT
    assert len(overview) <= MAX_OVERVIEW
    assert bool(abstract) is any(text.strip() for text in texts)


def test_repeated_sentences_are_left_out() -> None:
    lines = [
        SessionLine("a", "The red fox jumps over fences.", 0),
        SessionLine("b", "The red fox jumps over fences again.", 1),
    ]

    assert len(choose_lines([*lines, SessionLine("b", "Pears " * 60, 2)], 300)) == 1


def test_a_sentence_too_long_for_the_summary_is_skipped() -> None:
    lines = [SessionLine("a", "billing disk migration " * 30, 0), SessionLine("b", "The billing disk migration.", 1)]

    assert choose_lines(lines, 60) == [lines[1]]
    assert len(summarize_lines(lines[:1], 60)) <= 60
