"""Summaries of a session without a model: its most central sentences.

The score of a sentence is the sum, over its words, of the number of other messages with that word, divided by the
square root of the sentence's length. So a sentence on a recurring subject wins, and a long sentence has no advantage.
A sentence that shares most of its words with an already chosen sentence is skipped.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from knowhub.context.texts import join_texts, shorten

_MAX_SENTENCES: Final = 4_000
_LEAST_WORDS: Final = 3
_MOST_SHARED: Final = 0.5
_MOST_LOOKED_AT: Final = 60
_PAIR: Final = 2
_WORD: Final = re.compile(r"[^\W\d_][^\W_]{2,}", re.ASCII)
_HAN: Final = re.compile(r"[\u3400-\u9fff]+")
_STOP_WORDS: Final = (
    "great awesome wow glad cool nice amazing sounds wait super pretty haha hey hello love fun image photo"
    " the and for are but not you all any can had her was one our out has him his how its may new now"
    " old see two way who did get got she too use that with have this will your from they know want"
    " been good much some time very when come here just like long make many more only over such take"
    " than them well were what which would there their about could other into then these also really"
    " think going thing things yeah yes okay thanks thank sure right let lets don doesn didn isn wasn"
    " won can't i'm it's that's user assistant please does doing done because should being after"
    " before where while still even back every most need say said says tell told way day"
)
_STOPS: Final = frozenset(_STOP_WORDS.split())
_STOPS_ZH: Final = frozenset(
    "的了是我你他她它们在和就也都不有这那个吗呢吧啊一要会可以到说去很好什么怎样没为因"
    "所但如果把被给让对还能请上下来想看做用"
)


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A sentence of a session, who says it, and in which message."""

    speaker: str
    text: str
    number: int


def key_lines(lines: Sequence[SessionLine], limit: int) -> list[SessionLine]:
    """Return the sentences that say best what a session is about, as they were said, of `limit` characters at most."""
    looked = lines[:_MAX_SENTENCES]
    if sum(map(_size, looked)) <= limit:
        # A short session is its own best summary.
        return list(looked)
    words = [content_words(line.text) for line in looked]
    spread = _count_messages(looked, words)
    order = sorted(range(len(looked)), key=lambda at: (-_score(words[at], spread), at))[:_MOST_LOOKED_AT]
    chosen: list[int] = []
    left = limit
    for at in order:
        size = _size(looked[at])
        if (
            size <= left
            and len(words[at]) >= _LEAST_WORDS
            and not any(_overlaps(words[at], words[item]) for item in chosen)
        ):
            chosen.append(at)
            left -= size
    return [looked[at] for at in sorted(chosen)]


def summary(lines: Sequence[SessionLine], limit: int) -> str:
    """Return a session in at most `limit` characters; its first sentence if none is better."""
    chosen = key_lines(lines, limit) or list(lines[:1])
    return shorten(join_texts(_format_turns(chosen), limit), limit)


def format_line(line: SessionLine) -> str:
    """Return a sentence with who says it."""
    return f"{line.speaker}: {line.text}" if line.speaker else line.text


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about; of Chinese every two characters in a row."""
    return frozenset((*_english(text), *_chinese(text)))


def _format_turns(lines: Sequence[SessionLine]) -> list[str]:
    """Return sentences, each speaker named where they begin to speak."""
    before = [None, *(line.speaker for line in lines)]
    return [line.text if line.speaker == last else format_line(line) for line, last in zip(lines, before, strict=False)]


def _size(line: SessionLine) -> int:
    return len(format_line(line)) + 1


def _count_messages(lines: Sequence[SessionLine], words: Sequence[frozenset[str]]) -> Counter[str]:
    """Return in how many messages each word is used."""
    by_message: dict[int, set[str]] = {}
    for line, own in zip(lines, words, strict=True):
        by_message.setdefault(line.number, set()).update(own)
    return Counter(word for used in by_message.values() for word in used)


def _score(words: frozenset[str], spread: Counter[str]) -> float:
    return sum(spread[word] - 1 for word in words) / sqrt(len(words) + 1)


def _overlaps(words: frozenset[str], chosen: frozenset[str]) -> bool:
    return len(words & chosen) > _MOST_SHARED * min(len(words), len(chosen))


def _english(text: str) -> Iterable[str]:
    return (word for word in _WORD.findall(text.lower()) if word not in _STOPS)


def _chinese(text: str) -> Iterable[str]:
    """Yield every two characters in a row that hold no function word."""
    pairs = (run[at : at + _PAIR] for run in _HAN.findall(text) for at in range(len(run) - 1))
    return (pair for pair in pairs if _STOPS_ZH.isdisjoint(pair))
