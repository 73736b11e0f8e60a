"""What failed in the answers of tools, why, and what worked then."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from knowhub.conversations.messages import MAX_MESSAGE_READ_CHARS, Message
from knowhub.conversations.sentences import Fold, is_chinese, split_sentences
from knowhub.conversations.statements.orders import list_tool_orders, repeats_order

_EXCERPT_CHARS: Final = 300
_LOOKED_AT_LINES: Final = 12
_MAX_MESSAGES_BETWEEN: Final = 8

_FAILED: Final = re.compile(
    r"(?:\b\w*(?:Error|Exception)\b|\berror\b|\bfailed\b|\bfailure\b|\bdenied\b|\bnot found\b|\bno such\b"
    r"|\btimed? ?out\b|\brefused\b|\bfatal\b|\bpanic\b|\btraceback\b|\bexit(?:ed)?(?: with)?(?: code"
    r"| status)?[ :=]{1,2}[1-9]|\bHTTP/?[\d.]{0,3} ?[45]\d\d\b|^\s*\[[45]\d\d\]|报错|错误|失败|超时|拒绝|异常|找不到)",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r"\b[A-Za-z]\w*(?:Error|Exception)\b(?=:| ?$)")
_STATUS: Final = re.compile(
    r"^\W*(?:\w+ ){0,3}(?:exit(?:ed)?|return(?:ed)?)\b[\w ]{0,20}[:=]? ?\d+\W*$|\bError \d+\W*$", re.IGNORECASE
)
_NO_FAILURE: Final = re.compile(
    r"\b(?:0|no|without|zero) (?:errors?|failures?|warnings?)\b|\b0 failed\b|\b(?:errors?|failures?"
    r"|failed):? ?(?:none|0|null|\[\]|false)|没有(?:错误|报错|失败)|无(?:错误|异常)",
    re.IGNORECASE,
)
_REMEDY: Final = re.compile(
    r"\b(?:instead|because|with a|retry with|us(?:e|ing)|set(?:ting)?|fix(?:ed|es)?|pin|missing)\b"
    r"|\b(?:install|switch|add|caus|need|requir|chang|upgrad|downgrad|increas|disabl|enabl|export|convert)\w{0,4}\b"
    r"|改用|改成|改为|换成|安装|需要|加上|设置|升级|降级|因为|原因|缺少|使用|增加|关闭|开启|换用|先转|压到|减到",
    re.IGNORECASE,
)
_CONFIRMED: Final = re.compile(
    r"\b(?:works|worked|fixed|solved|resolved|runs|running|passe[sd]|succeeded|lesson|cause)\b"
    r"|好了|跑通|成功|解决|通过|可以了|就可以|结论|原因|经验|教训",
    re.IGNORECASE,
)


def find_lessons(messages: Sequence[Message], fold: Fold = str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield problem, lesson and messages of each failure that a change made good, as the agent or the tool says."""
    failed: int | None = None
    orders: list[str] = []
    for number, message in enumerate(messages):
        if not message.is_tool or not message.content.strip():
            continue
        orders += list_tool_orders(message.content[:MAX_MESSAGE_READ_CHARS])
        if find_failure(message.content):
            failed = number
        elif failed is not None and number - failed <= _MAX_MESSAGES_BETWEEN:
            remedy = _find_words(messages, range(number - 1, failed, -1), fold)
            outcome = _find_words(messages, range(number + 1, min(number + 3, len(messages))), fold)
            is_confirmed = outcome is not None and _CONFIRMED.search(outcome[1]) is not None
            is_remedy = remedy is not None and _REMEDY.search(remedy[1]) is not None
            if is_confirmed or (is_remedy and messages[failed].name == message.name):
                steps = [words for words in (remedy, outcome if is_confirmed else None) if words is not None]
                lesson = _describe(messages[failed], failed, steps, number)
                # Anybody may have written what a tool shows: a web page must not tell later sessions what to do.
                if not repeats_order(lesson[1], orders):
                    yield lesson
                failed = None


def find_failure(content: str) -> str:
    """Return the line that says best how a call failed; empty where it did not fail.

    It is the last that names an error, else the last that is more than a status.
    """
    # A long answer quotes files and logs: what is read of it says at its beginning or its end whether it failed.
    lines = content[:MAX_MESSAGE_READ_CHARS].split("\n")
    lines = lines if len(lines) <= 2 * _LOOKED_AT_LINES else [*lines[:_LOOKED_AT_LINES], *lines[-_LOOKED_AT_LINES:]]
    failed = [line for line in lines if _FAILED.search(line) and not _NO_FAILURE.search(line)]
    telling = [line for line in failed if _NAMED.search(line)] or [line for line in failed if not _STATUS.search(line)]
    return " ".join((telling or failed)[-1].split())[:_EXCERPT_CHARS] if failed else ""


def _find_words(messages: Sequence[Message], numbers: range, fold: Fold) -> tuple[int, str] | None:
    """Return what an agent says first in these messages, before a user or a tool speaks; None if it says nothing."""
    for number in numbers:
        if not messages[number].is_agent:
            return None
        said = " ".join(sentence.text for sentence in split_sentences(messages[number].content, fold))
        if said:
            return number, said[:_EXCERPT_CHARS]
    return None


def _describe(
    message: Message, failed: int, steps: Sequence[tuple[int, str]], worked: int
) -> tuple[str, str, tuple[int, ...]]:
    error = find_failure(message.content)
    task = f"{message.name}: {error}" if message.name and not error.startswith(message.name) else error
    said = " ".join(words for _, words in steps)
    labels = ("问题：", "之后成功：") if is_chinese(said) else ("Problem: ", "What worked: ")
    numbers = tuple(sorted({failed, worked, *(number for number, _ in steps)}))
    return task[:_EXCERPT_CHARS], f"{labels[0]}{task}\n{labels[1]}{said}", numbers
