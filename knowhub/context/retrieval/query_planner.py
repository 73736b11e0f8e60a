"""What a question asks for, by rules: which time, what kind of memory, and where."""

import re
from collections.abc import Sequence
from typing import Any, Final

from knowhub.context import times
from knowhub.context.model import MemoryCategory
from knowhub.context.search_model import TypedQuery
from knowhub.core.errors import InvalidInput
from knowhub.core.recall import MAX_QUERY_CHARS

MAX_TOP_K: Final = 100
DEFAULT_TOP_K: Final = 10

_ASKED_FOR: Final[Sequence[tuple[re.Pattern[str], tuple[MemoryCategory, ...]]]] = tuple(
    (re.compile(words, re.IGNORECASE), categories)
    for words, categories in (
        (
            # Instructions are preferences too: what an assistant may do, and how.
            (
                r"偏好|喜欢|喜爱|讨厌|爱吃|爱喝|吃什么|喝什么|习惯|口味|忌口|过敏|能不能|可不可以|要不要|该不该|规矩|规则|要求|讲究|格式"
                r"|避开|\b(?:prefer\w*|favou?rites?|likes?|dislikes?|hates?|habits?|allerg\w+|diet|eat|drinks?|avoid|rules?"
                r"|format\w*|style|allowed|(?:may|should) (?:i|you|we|it|they))\b"
            ),
            (MemoryCategory.PREFERENCES,),
        ),
        (
            (
                r"住|我家|搬家|在哪(?:里|儿|[，,。？?]|$)|哪[个座]城市|地址|上班|工作|单位|公司|科室|部门|专业|几岁|多大|年龄|生日|老家"
                r"|家乡|\bwhere (?:do|am|are|did|is) (?:i|we|my|our)\b|\b(?:live|living|home|address|city|town|based"
                r"|work (?:at|as|for)|employer|company|business|profession|career|position|team|how old|age|birthday"
                r"|born|time ?zone|pronouns)\b"
            ),
            (MemoryCategory.PROFILE,),
        ),
        (
            r"谁|哪位|什么人|叫什么|职业|住在|\b(?:who|whose|whom)\b|\b(?:name|job|occupation|hometown)\b",
            (MemoryCategory.PROFILE, MemoryCategory.ENTITIES),
        ),
        (
            r"何时|什么时候|哪天|哪一天|几号|多久|\bwhen\b|\bhow long\b|\b(?:what|which) (?:date|day)\b",
            (MemoryCategory.EVENTS,),
        ),
        (
            r"怎么|怎样|如何|步骤|\bhow (?:to|do|does|did|should|can|could)\b|\bsteps?\b|\bfix(?:ed)?\b",
            (MemoryCategory.CASES, MemoryCategory.PATTERNS, MemoryCategory.SKILLS),
        ),
        (r"工具|命令|\b(?:tools?|commands?)\b", (MemoryCategory.TOOLS, MemoryCategory.SKILLS)),
    )
)


def plan_query(
    account: str,
    query: str,
    target_uri: str | None = None,
    categories: Sequence[str] | None = None,
    top_k: int = DEFAULT_TOP_K,
    *,
    now: float,
) -> TypedQuery:
    """Read a question by rules. They raise scores; only the caller's own filters exclude memories.

    Days are read as seen from `now`, in seconds since the epoch. `hints` of the answer say which rules the question
    met. Raises InvalidInput.
    """
    text = query.strip()
    if not text:
        raise InvalidInput.of("q", "must not be empty")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput.of("q", f"must have at most {MAX_QUERY_CHARS} characters")
    if not 1 <= top_k <= MAX_TOP_K:
        raise InvalidInput.of("top_k", f"must be from 1 to {MAX_TOP_K}")
    known = _filter_known(categories or ())
    filters: dict[str, Any] = {"level": 0} | ({"category": list(known)} if known else {})
    filters |= {"under": target_uri} if target_uri else {}
    hints = _find_times(text, now, is_free=not known)
    return TypedQuery(text, "", known, target_uri, top_k, filters | {"account": account}, hints)


def _filter_known(categories: Sequence[str]) -> tuple[str, ...]:
    known = [category.value for category in MemoryCategory]
    for name in categories:
        if name not in known:
            raise InvalidInput.of("categories", f"{name[:80]!r} is none of {', '.join(known)}")
    return tuple(dict.fromkeys(categories))


def _find_times(text: str, now: float, *, is_free: bool) -> dict[str, Any]:
    met: dict[str, Any] = {}
    named = times.list_named_times(text, now)
    after = times.time_after(text)
    if after is not None:
        met["after"] = {"event": after.event, "days": after.days}
    if named:
        met["times"] = [named_time.words for named_time in named]
        met["days"] = list(dict.fromkeys(mark for named_time in named for mark in named_time.marks()))
    if is_free:
        asked = [category.value for words, categories in _ASKED_FOR if words.search(text) for category in categories]
        if asked:
            met["categories"] = list(dict.fromkeys(asked))
    return met
