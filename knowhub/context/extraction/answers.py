"""What a model is shown of a session, and how its answers are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final

from knowhub.context import prompts
from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.candidates import MAX_ABSTRACT, CandidateFactory
from knowhub.context.model import MemoryCategory
from knowhub.conversations.dates import day_of
from knowhub.conversations.messages import Message
from knowhub.conversations.secrets import contains_secret
from knowhub.core import model_calls
from knowhub.core.model_calls import short_text

_PART_CHARS: Final = 24_000
_MAX_PARTS: Final = 4
_WITHHELD: Final = "[withheld]"


def without_secrets(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without the lines that hold a credential."""
    return [replace(message, content=_safe(message.content)) for message in messages]


def parts(messages: Sequence[Message], most: int = _MAX_PARTS) -> list[list[tuple[int, Message]]]:
    """Cut the newest messages into up to four parts of 24,000 characters, in their order, each with its number.

    System messages are an application's words, and nobody's memories.
    """
    cut: list[list[tuple[int, Message]]] = [[]]
    room = _PART_CHARS
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if not message.content.strip() or message.is_system:
            continue
        size = min(len(message.content), prompts.SHOWN_CHARS)
        if size > room and cut[-1]:
            if len(cut) == most:
                break
            cut.append([])
            room = _PART_CHARS
        cut[-1].append((number, message))
        room -= size
    return [part[::-1] for part in reversed(cut) if part]


def _safe(content: str) -> str:
    text = content[: prompts.SHOWN_CHARS]
    if not contains_secret(text):
        return text
    kept = "\n".join(_WITHHELD if contains_secret(line) else line for line in text.split("\n"))
    # A key of several lines is none in any of them.
    return _WITHHELD if contains_secret(kept) else kept


MAX_ITEMS: Final = 100
_MAX_KEY: Final = 100
_MAX_OVERVIEW: Final = 1_000
_MAX_CONTENT: Final = 4_000
_CONFIDENCE: Final = 0.8
# Of these a person has but one: a newer statement takes the place of an older one.
_SINGLE: Final = frozenset(
    ("name", "job", "home", "age", "employer", "birthday", "姓名", "名字", "职业", "住址", "年龄", "生日")
)


def read(
    answer: Mapping[str, Any],
    shown: Mapping[int, Message],
    categories: Sequence[MemoryCategory],
    telling: CandidateFactory,
) -> list[CandidateMemory] | None:
    """Return the memories of an answer; None when it holds no list at all."""
    items = answer.get("memories")
    if not isinstance(items, list):
        return None
    found = (_candidate(item, shown, categories, telling) for item in items[:MAX_ITEMS])
    return [candidate_memory for candidate_memory in found if candidate_memory is not None]


def read_summary(answer: Mapping[str, Any], abstract_chars: int, overview_chars: int) -> tuple[str, str] | None:
    """Return the abstract and the overview of an answer; None where one of them is empty."""
    abstract = short_text(answer.get("abstract"), abstract_chars)
    overview = long_text(answer.get("overview"), overview_chars)
    return (abstract, overview) if abstract and overview else None


def long_text(said: object, limit: int) -> str:
    """Return a text of several lines that a file can hold."""
    if not isinstance(said, str):
        return ""
    text = said[: limit * 4].replace("\0", " ").encode("utf-8", "replace").decode().strip()
    return text[:limit].rstrip()


def _candidate(
    item: object, shown: Mapping[int, Message], categories: Sequence[MemoryCategory], telling: CandidateFactory
) -> CandidateMemory | None:
    if not isinstance(item, Mapping):
        return None
    category = next((entry for entry in categories if entry.value == item.get("category")), None)
    key, abstract = short_text(item.get("key"), _MAX_KEY), short_text(item.get("abstract"), MAX_ABSTRACT)
    cited = model_calls.parse_citations(item.get("messages"), shown)
    if category is None or not key or not abstract or not cited:
        return None
    overview = long_text(item.get("overview"), _MAX_OVERVIEW) or abstract
    content = long_text(item.get("content"), _MAX_CONTENT) or overview
    if not model_calls.is_grounded(f"{abstract} {content}", [shown[number].content for number in cited]):
        return None
    facts: dict[str, Any] = {"topic": key.casefold(), "name": key} if category is not MemoryCategory.EVENTS else {}
    if category is MemoryCategory.PROFILE and key.casefold() in _SINGLE:
        facts["values"] = {key.casefold(): abstract.casefold()}
    day = day_of(short_text(item.get("date"), len("2026-01-01")))
    if category is MemoryCategory.EVENTS and isinstance(day, date):
        facts |= {"date": day.isoformat(), "grain": "day", "said_at": f"{day.isoformat()}T00:00:00Z"}
    return telling.candidate(
        category, key, abstract, cited, content=content, confidence=_CONFIDENCE, by="llm", overview=overview, **facts
    )
