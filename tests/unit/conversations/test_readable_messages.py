"""How much of a conversation is read: so many messages, characters and sentences, the newest first."""

import pytest

from knowhub.conversations.messages import (
    MAX_MESSAGE_READ_SENTENCES,
    MAX_READ_SENTENCES,
    Message,
    count_unread,
    list_readable,
)


def test_ordinary_messages_are_read_completely() -> None:
    messages = [Message("user", f"I prefer tabs. Number {number}!") for number in range(1_000)]

    readable = list_readable(messages)

    assert readable == messages
    assert count_unread(messages, readable) == 0


@pytest.mark.parametrize("sentence", ["yes\n", "Ok. ", "走！", "走。"])
def test_short_sentences_are_read_up_to_their_limit_the_newest_messages_first(sentence: str) -> None:
    messages = [Message("user", f"{number}: " + sentence * 4_000) for number in range(30)]

    readable = list_readable(messages)

    assert readable == messages[-MAX_READ_SENTENCES // 4_000 :]
    assert count_unread(messages, readable) == 25


def test_a_message_with_many_sentences_is_read_from_its_start() -> None:
    message = Message("user", "yes\n" * 20_000)

    readable = list_readable([message])

    assert [item.content for item in readable] == ["yes\n" * MAX_MESSAGE_READ_SENTENCES]
    assert count_unread([message], readable) == 1
