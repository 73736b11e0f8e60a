"""A model's memories read without trusting them: each item alone, so that a bad one costs nothing but itself."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from knowhub.context.commit_model import CandidateMemory
from knowhub.context.extraction.dates import day_of
from knowhub.context.extraction.telling import MAX_ABSTRACT, Telling
from knowhub.context.model import Category
from knowhub.core import citing
from knowhub.core.choices import short_text
from knowhub.core.messages import Message

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
    answer: Mapping[str, Any], shown: Mapping[int, Message], categories: Sequence[Category], telling: Telling
) -> list[CandidateMemory] | None:
    """Return the memories of an answer; None when it holds no list at all."""
    items = answer.get("memories")
    if not isinstance(items, list):
        return None
    found = (_candidate(item, shown, categories, telling) for item in items[:MAX_ITEMS])
    return [one for one in found if one is not None]


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
    item: object, shown: Mapping[int, Message], categories: Sequence[Category], telling: Telling
) -> CandidateMemory | None:
    if not isinstance(item, Mapping):
        return None
    category = next((one for one in categories if one.value == item.get("category")), None)
    key, abstract = short_text(item.get("key"), _MAX_KEY), short_text(item.get("abstract"), MAX_ABSTRACT)
    cited = citing.cited(item.get("messages"), shown)
    if category is None or not key or not abstract or not cited:
        return None
    overview = long_text(item.get("overview"), _MAX_OVERVIEW) or abstract
    content = long_text(item.get("content"), _MAX_CONTENT) or overview
    if not citing.is_grounded(f"{abstract} {content}", [shown[number].content for number in cited]):
        return None
    facts: dict[str, Any] = {"topic": key.casefold(), "name": key} if category is not Category.EVENTS else {}
    if category is Category.PROFILE and key.casefold() in _SINGLE:
        facts["values"] = {key.casefold(): abstract.casefold()}
    day = day_of(short_text(item.get("date"), len("2026-01-01")))
    if category is Category.EVENTS and isinstance(day, date):
        facts |= {"date": day.isoformat(), "grain": "day", "said_at": f"{day.isoformat()}T00:00:00Z"}
    return telling.candidate(
        category, key, abstract, cited, content=content, confidence=_CONFIDENCE, by="llm", overview=overview, **facts
    )
