"""What is taken out of messages before they are read for what they say, by rules or by a model."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import NOTHING_RECALLED, RecalledTexts, remove_recalled
from knowhub.conversations.secrets.detection import COVER, cover_secrets
from knowhub.conversations.secrets.names import KEY_ZH, ONE_TIME_CODE_ZH, PASSWORD, PASSWORD_ZH
from knowhub.conversations.sentences import is_only_private, is_private

# A question or a demand that names a secret last: «What's your PIN?», «Enter the password for the mail.», 密码是多少？
_ASKS_FOR_SECRET: Final = re.compile(
    r"\b(?:what|which|tell|give|send|share|enter|type|provide|confirm|need|have|know|remember)\b[^.?!\n]{0,40}?"
    rf"\b(?:{PASSWORD}|pin(?: code| number)?|combination|cvv|cvc|otp|api key|secret key|token"
    r"|(?:door|gate|alarm|safe|access|entry|lock|security|verification|unlock|one-time) code)"
    r"(?: (?:for|of|to|on|again|please|now)\b[^.?!\n]{0,40})?\s{0,3}(?:[.?!:\n]|$)"
    rf"|(?:{PASSWORD_ZH}|{KEY_ZH}|{ONE_TIME_CODE_ZH}|PIN码?|助记词|门禁码|开门码)"
    r"(?:是|呢|多少|什么|啥|几|发?给?我|告诉我|再?说一[下遍]|一下){0,4}"
    r"\s{0,3}(?:[？?。：:！!\n]|$)",
    re.IGNORECASE,
)
_ASKING_CHARS: Final = 2_000
# So short is the answer to such a question. A longer message has it in a sentence, where it is found by itself.
_ANSWER_CHARS: Final = 80
_CODE: Final = re.compile(r"(?<![\w-])(?=[!-~]{0,40}\d)[!-~]{3,64}|\d(?:[ -]?\d){2,15}")
_WORD: Final = re.compile(r"[^\s,，。!！?？]{3,40}[.。!！]?")
_NO_SECRET: Final = re.compile(
    r"yes|yeah|nope|none|sure|sorry|later|done|okay|没有|不知道|忘了|不记得|稍等|好的|可以", re.IGNORECASE
)


def clean_messages(messages: Sequence[Message], recalled: RecalledTexts = NOTHING_RECALLED) -> list[Message]:
    """Return the messages with secrets covered, and without what KnowHub said and what only repeats `recalled` texts.

    Messages of applications, and those that their author asks not to remember, become empty. If a message only says
    «don't remember that», the message that its author wrote before it becomes empty, too.
    """
    safe = [replace(message, content=cover_secrets(message.content)) for message in _cover_answers(messages)]
    private: set[int] = set()
    last: dict[tuple[str, str], int] = {}
    for number, message in enumerate(safe):
        author = (message.role, message.name)
        if message.is_system or is_private(message.content):
            private.add(number)
            if author in last and message.is_user and is_only_private(message.content):
                private.add(last[author])
        last[author] = number
    return [
        replace(message, content="") if number in private else message
        for number, message in enumerate(remove_recalled(safe, recalled))
    ]


def _cover_answers(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without answers to a question for a secret. A bare «4821» does not look like one."""
    covered = list(messages[:1])
    for question, answer in pairwise(messages):
        is_answer = len(answer.content) <= _ANSWER_CHARS and _ASKS_FOR_SECRET.search(question.content[-_ASKING_CHARS:])
        covered.append(replace(answer, content=_cover_answer(answer.content)) if is_answer else answer)
    return covered


def _cover_answer(content: str) -> str:
    word = content.strip()
    if _WORD.fullmatch(word) and not _NO_SECRET.match(word):
        return COVER
    return _CODE.sub(COVER, content)
