"""What a question asks for, by rules: which time, what kind of memory, and where (CE-096, CE-159)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from knowhub.context import times
from knowhub.context.commit_model import SessionArchive
from knowhub.context.model import Category
from knowhub.context.search_model import TypedQuery
from knowhub.core.errors import InvalidInput
from knowhub.core.recall import MAX_QUERY_CHARS
from knowhub.core.request_context import RequestContext

MAX_TOP_K: Final = 100
DEFAULT_TOP_K: Final = 10

_ASKED_FOR: Final[Sequence[tuple[re.Pattern[str], tuple[Category, ...]]]] = tuple(
    (re.compile(words, re.IGNORECASE), categories)
    for words, categories in (
        (
            r"偏好|喜欢|喜爱|讨厌|爱吃|爱喝|习惯|口味|忌口|过敏|\b(?:prefer\w*|favou?rites?|likes?|dislikes?|hates?|habits?)\b",
            (Category.PREFERENCES,),
        ),
        (
            r"谁|哪位|什么人|叫什么|职业|住在|\b(?:who|whose|whom)\b|\b(?:name|job|occupation|hometown)\b",
            (Category.PROFILE, Category.ENTITIES),
        ),
        (
            r"何时|什么时候|哪天|哪一天|几号|多久|\bwhen\b|\bhow long\b|\b(?:what|which) (?:date|day)\b",
            (Category.EVENTS,),
        ),
        (
            r"怎么|怎样|如何|步骤|\bhow (?:to|do|does|did|should|can|could)\b|\bsteps?\b|\bfix(?:ed)?\b",
            (Category.CASES, Category.PATTERNS, Category.SKILLS),
        ),
        (r"工具|命令|\b(?:tools?|commands?)\b", (Category.TOOLS, Category.SKILLS)),
    )
)


class QueryPlanner:
    """Reads a question by rules. What it finds moves memories up; nothing but what the caller names leaves any out."""

    def plan(
        self,
        query: str,
        session_archive: SessionArchive | None = None,
        hints: Mapping[str, Any] | None = None,
        ctx: RequestContext | None = None,
        *,
        now: float,
    ) -> list[TypedQuery]:
        """Plan a search; `hints` may hold what the caller named: `target_uri`, `categories`, `top_k`.

        Days are read as seen from `now`, in seconds since the epoch. `hints` of the answer say which rules the question
        met. Raises InvalidInput.
        """
        named = dict(hints or {})
        text = query.strip()
        if not text:
            raise InvalidInput.of("q", "must not be empty")
        if len(text) > MAX_QUERY_CHARS:
            raise InvalidInput.of("q", f"must have at most {MAX_QUERY_CHARS} characters")
        categories = _known(named.get("categories") or ())
        top_k = int(named.get("top_k", DEFAULT_TOP_K))
        if not 1 <= top_k <= MAX_TOP_K:
            raise InvalidInput.of("top_k", f"must be from 1 to {MAX_TOP_K}")
        target = named.get("target_uri")
        filters: dict[str, Any] = {"level": 0} | ({"category": list(categories)} if categories else {})
        if target:
            filters["under"] = target
        met = _met(text, now, is_free=not categories)
        if session_archive is not None:
            met["session"] = session_archive.archive_uri
        if ctx is not None:
            filters["account"] = ctx.account
        return [TypedQuery(text, categories=categories, target_uri=target, top_k=top_k, filters=filters, hints=met)]


def _known(categories: Sequence[str]) -> tuple[str, ...]:
    known = [category.value for category in Category]
    for name in categories:
        if name not in known:
            raise InvalidInput.of("categories", f"{name[:80]!r} is none of {', '.join(known)}")
    return tuple(dict.fromkeys(categories))


def _met(text: str, now: float, *, is_free: bool) -> dict[str, Any]:
    met: dict[str, Any] = {}
    named = times.named_times(text, now)
    after = times.time_after(text)
    if after is not None:
        met["after"] = {"event": after.event, "days": after.days}
    if named:
        met["times"] = [one.words for one in named]
        met["days"] = list(dict.fromkeys(mark for one in named for mark in one.marks()))
    if is_free:
        asked = [category.value for words, categories in _ASKED_FOR if words.search(text) for category in categories]
        if asked:
            met["categories"] = list(dict.fromkeys(asked))
    return met
