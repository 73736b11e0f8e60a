"""The summary of a session, made of its own sentences.

The score of a sentence is the sum, over its words, of the number of other messages with that word, divided by the
square root of the sentence's length. So a sentence on a recurring subject wins, and a long sentence has no advantage.
A sentence that shares most of its words with an already chosen sentence is skipped.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from knowhub.context.commit.parts import SUMMARISED_MESSAGES
from knowhub.context.texts import MAX_ABSTRACT, MAX_OVERVIEW, cut_at_word, join_texts, one_line
from knowhub.conversations.changes.evidence import list_content_words
from knowhub.conversations.messages import Message, list_readable
from knowhub.conversations.secrets.detection import COVER, contains_secret, cover_secrets
from knowhub.conversations.sentences import Fold, is_chinese, split_sentences

_MAX_OVERVIEW_ZH: Final = 600
"""A Chinese character says more than a letter, and takes three bytes of every line of the log that holds it."""
_EXCERPT_CHARS: Final = 160
_MIN_LINE_CHARS: Final = 4
_MAX_SPEAKERS: Final = 8
# Text in brackets describes a message; nobody said it.
_ASIDE: Final = re.compile(r"\[[^\]\n]{3,200}\]|^\s*\[[^\n]*$")
_NAMES: Final = ("messages", "who", "when", "first", "last")
_LABELS: Final = {
    True: dict(zip(_NAMES, ("{} 条消息", "参与者", "时间", "开头", "结尾"), strict=True)),
    False: dict(zip(_NAMES, ("{} messages", "Who", "When", "First", "Last"), strict=True)),
}
_MAX_SENTENCES: Final = 4_000
_MIN_WORDS: Final = 3
_MAX_SHARED: Final = 0.5
_MAX_LOOKED_AT: Final = 60


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A sentence of a session, who says it, and in which message."""

    speaker: str
    text: str
    number: int


def summarize_session(messages: Sequence[Message], fold: Fold = str) -> tuple[str, str]:
    """Return an abstract and an overview of non-empty messages, made of their own sentences."""
    messages = messages[-SUMMARISED_MESSAGES:]
    read = list_readable(messages)
    lines = [line for number, message in enumerate(read) for line in _split_lines(number, message, fold)]
    lines = lines or [line for number, message in enumerate(read) for line in _first_words(number, message)]
    return summarize_lines(lines, MAX_ABSTRACT), _make_overview(messages, lines)


def _make_overview(messages: Sequence[Message], lines: Sequence[SessionLine]) -> str:
    chinese = is_chinese(" ".join(line.text for line in lines[:50]))
    labels, limit = _LABELS[chinese], _MAX_OVERVIEW_ZH if chinese else MAX_OVERVIEW
    spoken = Counter(_get_speaker(message) for message in messages)
    who = ", ".join(f"{name} ({count})" for name, count in spoken.most_common(_MAX_SPEAKERS))
    times = [message.timestamp for message in messages if message.timestamp]
    opening = [f"{labels['messages'].format(len(messages))} · {labels['who']}: {who}"]
    if times:
        opening.append(f"{labels['when']}: {times[0]}" + (f" – {times[-1]}" if times[-1] != times[0] else ""))
    ends = [
        f"{labels[label]}: {cut_at_word(format_line(line), _EXCERPT_CHARS)}"
        for label, line in (("first", lines[0]), ("last", lines[-1]))
    ] if lines else []  # fmt: skip
    used = "\n".join([*opening, *ends])
    room = limit - len(used) - 2
    chosen = choose_lines(lines, room)
    body = join_texts([f"- {format_line(line)}" for line in chosen], max(room, 1), "\n")
    return "\n".join([*opening, *([body] if chosen else []), *ends])[:limit]


def _split_lines(number: int, message: Message, fold: Fold) -> list[SessionLine]:
    if message.is_tool or message.is_system:
        return []
    content = cover_secrets(message.content)
    said = (_ASIDE.sub("", message.strip_label(item.text)).strip() for item in split_sentences(content, fold))
    is_safe = content == message.content
    kept = (item for item in said if len(item) >= _MIN_LINE_CHARS and (is_safe or _is_safe(item)))
    return [SessionLine(_get_speaker(message), item, number) for item in kept]


def _first_words(number: int, message: Message) -> list[SessionLine]:
    """Return the beginning of a message in which nobody speaks: code, data, the answer of a tool."""
    first = message.content.strip().splitlines()[0][:_EXCERPT_CHARS]
    return [SessionLine(_get_speaker(message), first, number)] if not contains_secret(message.content) else []


def _is_safe(sentence: str) -> bool:
    return COVER not in sentence and not contains_secret(sentence)


def _get_speaker(message: Message) -> str:
    # A name of several lines would read as lines of the overview.
    return one_line(message.name or message.role)


def choose_lines(lines: Sequence[SessionLine], limit: int) -> list[SessionLine]:
    """Return the sentences that say best what a session is about, as they were said, of `limit` characters at most."""
    looked = lines[:_MAX_SENTENCES]
    if sum(map(_count_chars, looked)) <= limit:
        # A short session is its own best summary.
        return list(looked)
    words = [list_content_words(line.text) for line in looked]
    spread = _count_messages(looked, words)
    order = sorted(range(len(looked)), key=lambda at: (-_score(words[at], spread), at))[:_MAX_LOOKED_AT]
    chosen: list[int] = []
    left = limit
    for at in order:
        size = _count_chars(looked[at])
        if (
            size <= left
            and len(words[at]) >= _MIN_WORDS
            and not any(_overlaps(words[at], words[item]) for item in chosen)
        ):
            chosen.append(at)
            left -= size
    return [looked[at] for at in sorted(chosen)]


def summarize_lines(lines: Sequence[SessionLine], limit: int) -> str:
    """Return a session in at most `limit` characters; its first sentence if none is better."""
    chosen = choose_lines(lines, limit) or list(lines[:1])
    return cut_at_word(join_texts(_format_turns(chosen), limit), limit)


def format_line(line: SessionLine) -> str:
    """Return a sentence with who says it."""
    return f"{line.speaker}: {line.text}" if line.speaker else line.text


def _format_turns(lines: Sequence[SessionLine]) -> list[str]:
    """Return sentences, each speaker named where they begin to speak."""
    before = [None, *(line.speaker for line in lines)]
    return [line.text if line.speaker == last else format_line(line) for line, last in zip(lines, before, strict=False)]


def _count_chars(line: SessionLine) -> int:
    return len(format_line(line)) + 1


def _count_messages(lines: Sequence[SessionLine], words: Sequence[set[str]]) -> Counter[str]:
    """Return in how many messages each word is used."""
    by_message: dict[int, set[str]] = {}
    for line, own in zip(lines, words, strict=True):
        by_message.setdefault(line.number, set()).update(own)
    return Counter(word for used in by_message.values() for word in used)


def _score(words: set[str], spread: Counter[str]) -> float:
    return sum(spread[word] - 1 for word in words) / sqrt(len(words) + 1)


def _overlaps(words: set[str], chosen: set[str]) -> bool:
    return len(words & chosen) > _MAX_SHARED * min(len(words), len(chosen))
