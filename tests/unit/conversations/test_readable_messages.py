"""How much of a conversation is read: so many messages, characters and sentences, the newest first."""

import pytest

from knowhub.conversations.cleaning import clean_messages
from knowhub.conversations.messages import (
    MAX_MESSAGE_READ_CHARS,
    MAX_READ_SENTENCES,
    Message,
    count_partly_read,
    list_readable,
)


def test_ordinary_messages_are_read_completely() -> None:
    messages = [Message("user", f"I prefer tabs. Number {number}!") for number in range(1_000)]

    readable = list_readable(messages)

    assert readable == messages
    assert count_partly_read(messages, readable) == 0


@pytest.mark.parametrize("sentence", ["yes\n", "Ok. ", "走！", "走。"])
def test_short_sentences_are_read_up_to_their_limit_the_newest_messages_first(sentence: str) -> None:
    messages = [Message("user", f"{number}: " + sentence * 4_000) for number in range(30)]

    readable = list_readable(messages)

    assert readable == messages[-MAX_READ_SENTENCES // 4_000 :]
    assert count_partly_read(messages, readable) == 25


@pytest.mark.parametrize("unread", [1, 20_000])
def test_the_end_of_a_long_message_is_not_read_and_that_is_counted(unread: int) -> None:
    message = Message("user", "\n" * (MAX_MESSAGE_READ_CHARS + unread))

    readable = list_readable([message])

    assert MAX_MESSAGE_READ_CHARS <= len(readable[0].content) < MAX_MESSAGE_READ_CHARS + 5_000
    assert count_partly_read([message], readable) == 1


def test_a_secret_at_the_place_where_the_reading_ends_is_covered_whole() -> None:
    password = "Zebra-97-quagga"
    start = "I like long letters. " * 1_000
    text = f"{start[: MAX_MESSAGE_READ_CHARS - 20]} password: {password} is it."

    cleaned = clean_messages(list_readable([Message("user", text)]))

    assert password[:4] not in cleaned[0].content
