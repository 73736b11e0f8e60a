"""What a question asks for, by rules, and the first round of its search.

The first round finds L0 texts that share words, meaning, or a day with the question. Each message starts with the name
of its speaker. The name tells who said something, not what was said. So names of speakers are removed from the
question, and messages of the named speakers get a higher score later. Who speaks is seen in what the whole question
finds.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from knowhub.context import times
from knowhub.context.model import ContextSummary, MemoryCategory
from knowhub.context.ports import ContextIndex
from knowhub.context.queries import make_facet
from knowhub.context.search_model import SeedHit, TypedQuery
from knowhub.conversations import messages
from knowhub.conversations.secrets.detection import redact_secrets
from knowhub.conversations.sentences import strip_line_label
from knowhub.core import scopes
from knowhub.core.recall import SearchHit, SearchHits
from knowhub.core.request_context import RequestContext

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
    met. A time and a speaker before the question, as in a chat log, are removed.
    """
    text, known = strip_line_label(query.strip()), tuple(dict.fromkeys(categories or ()))
    filters: dict[str, Any] = {"level": 0} | ({"category": list(known)} if known else {})
    filters |= {"under": target_uri} if target_uri else {}
    hints = _find_times(text, now, is_free=not known)
    return TypedQuery(text, "", known, target_uri, top_k, filters | {"account": account}, hints)


def _find_times(text: str, now: float, *, is_free: bool) -> dict[str, Any]:
    met: dict[str, Any] = {}
    named = times.list_named_times(text, now)
    after = times.parse_time_after(text)
    if after is not None:
        met["after"] = {"event": after.event, "days": after.days}
    if named:
        met["times"] = [words for words, _ in named]
        met["days"] = list(dict.fromkeys(mark for _, time in named for mark in times.list_range_marks(time)))
    if is_free:
        asked = [category.value for words, categories in _ASKED_FOR if words.search(text) for category in categories]
        if asked:
            met["categories"] = list(dict.fromkeys(asked))
    return met


# Beyond these a hit is hardly evidence: on dialogues, 40 found half a percent more by words and less by meaning.
_FEWEST_SEEDS: Final = 30
_SEEDS_PER_RESULT: Final = 3
_LATIN_NAME: Final = re.compile(r"[A-Za-z]")
_NUMBERED: Final = re.compile(r"\d|月")


@dataclass(frozen=True, slots=True)
class Seeds:
    """What the first round found, and those who speak in it and whom the question names.

    `preferences` are those that are nearest to a question without filters, the nearest first, however far they are.
    """

    found: SearchHits[ContextSummary]
    persons: frozenset[str] = frozenset()
    preferences: Sequence[ContextSummary] = ()

    @property
    def best_share(self) -> float:
        """The relevance of the best hit: from 0 to 1."""
        return min(1.0, max(map(self.found.get_relevance, self.found.hits), default=0.0))

    def list_hits(self, max_hits: int) -> list[SeedHit]:
        """Return the best of them as they are shown."""
        return [
            SeedHit(
                uri=hit.summary.uri,
                score=round(hit.score, 6),
                relevance=round(min(1.0, self.found.get_relevance(hit)), 4),
                category=hit.summary.category.value,
                owner_space=hit.summary.owner_space,
                abstract=hit.summary.abstract,
                has_overview=hit.summary.has_overview,
                has_content=hit.summary.has_content,
            )
            for hit in self.found.hits[:max_hits]
        ]


async def find_seeds(index: ContextIndex, query: TypedQuery, ctx: RequestContext) -> Seeds:
    """Find the seeds of a question among what the caller sees."""
    preferences: list[ContextSummary] = []
    if not (query.categories or query.target_uri or query.limits.is_limiting):
        only = replace(query, categories=(MemoryCategory.PREFERENCES.value,))
        preferences = [hit.summary for hit in (await _search(index, only, ctx, query.text)).hits]
    whole = await _search(index, query, ctx, query.text)
    names = {hit.summary.name for hit in whole.hits if hit.summary.is_part}
    persons = _find_names(query.text, (name for name in names if not messages.has_role(messages.ALL_ROLES, name)))
    if not persons:
        return Seeds(whole, preferences=preferences)
    found = await _search(index, query, ctx, _remove_names(index, query.text, persons))
    if not any(hit.summary.name in persons for hit in found.hits):
        # What else is asked, they never said: it asks for what they did say.
        found = replace(found, hits=[*found.hits, *_scale_further_hits(found, whole)])
    return Seeds(found, persons, preferences)


def list_filter_groups(query: TypedQuery, ctx: RequestContext) -> Sequence[frozenset[str]]:
    """Return the facet filters: visibility, then the requested categories."""
    groups = [] if ctx.visible is None else [scopes.visibility_facets(ctx.visible)]
    if query.categories:
        groups.append(frozenset(make_facet("category", name) for name in query.categories))
    if query.target_uri:
        groups.append(frozenset({make_facet("under", query.target_uri)}))
    return groups


async def _search(index: ContextIndex, query: TypedQuery, ctx: RequestContext, text: str) -> SearchHits[ContextSummary]:
    limit = max(_FEWEST_SEEDS, _SEEDS_PER_RESULT * query.top_k)
    # Dates are searched for by their marks; a 5 is no topic.
    for words in filter(_NUMBERED.search, query.hints.get("times", ())):
        text = text.replace(words, " ")
    words = " ".join([text, *query.hints.get("days", ())])
    return await index.search(ctx.account, words, list_filter_groups(query, ctx), query.limits.accept, limit)


def _remove_names(index: ContextIndex, text: str, persons: frozenset[str]) -> str:
    # A name may be what a credential is known by.
    rest = redact_secrets(text)
    for name in _list_names(persons):
        rest = _compile_name(name).sub(" ", rest)
    of_names = set(index.list_matched_terms(" ".join(persons), " ".join(persons)))
    about = set(index.list_matched_terms(text, text)) - of_names
    # A question that only names a person asks for that name.
    return rest if about else text


def _scale_further_hits(
    found: SearchHits[ContextSummary], more: SearchHits[ContextSummary]
) -> list[SearchHit[ContextSummary]]:
    """Return what was not found at first: none of it can be better than the last that was."""
    known = {hit.summary.uri for hit in found.hits}
    new = [hit for hit in more.hits if hit.summary.uri not in known]
    best = max((hit.score for hit in new), default=0.0)
    last = found.hits[-1].score if found.hits else best
    return [replace(hit, score=hit.score * last / best) for hit in new] if best > last else new


def _find_names(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names, in full or their first word, that a text has as they are written."""
    return frozenset(name for name in names if any(_compile_name(form).search(text) for form in _list_names([name])))


def _list_names(names: Iterable[str]) -> list[str]:
    forms = {form for name in names for form in (name, *name.split()[:1]) if len(form) > 1}
    return sorted(forms, key=lambda form: (-len(form), form))


@lru_cache(maxsize=4_096)
def _compile_name(name: str) -> re.Pattern[str]:
    # Case counts: will is no name, and Will is.
    edge = r"(?![A-Za-z0-9])" if _LATIN_NAME.match(name) else ""
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}{edge}")
