"""The first round of a search: L0 texts that share words, meaning, or a day with the question.

Each message starts with the name of its speaker. The name tells who said something, not what was said. So names of
speakers are removed from the question, and messages of the named speakers get a higher score later. Who speaks is seen
in what the whole question finds.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from knowhub.context.model import ContextSummary
from knowhub.context.ports import ContextIndex
from knowhub.context.queries import facet
from knowhub.context.search_model import SeedHit, TypedQuery
from knowhub.conversations import messages
from knowhub.conversations.secrets import redact_secrets
from knowhub.core import scopes
from knowhub.core.recall import SearchHit, SearchHits
from knowhub.core.request_context import RequestContext

# Beyond these a hit is hardly evidence: on dialogues, 40 found half a percent more by words and less by meaning.
_FEWEST_SEEDS: Final = 30
_SEEDS_A_PLACE: Final = 3
_LATIN_NAME: Final = re.compile(r"[A-Za-z]")
_NUMBERED: Final = re.compile(r"\d|月")

Groups: TypeAlias = Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True)
class Seeds:
    """What the first round found, and those who speak in it and whom the question names."""

    found: SearchHits[ContextSummary]
    persons: frozenset[str] = frozenset()

    @property
    def best_share(self) -> float:
        """The relevance of the best hit as a share of that of a perfect one: from 0 to 1."""
        return min(1.0, max((hit.relevance for hit in self.found.hits), default=0.0) / self.found.reach)

    def list_hits(self, most: int) -> list[SeedHit]:
        """Return the best of them as they are shown."""
        return [
            SeedHit(
                uri=hit.head.uri,
                score=round(hit.relevance, 6),
                category=hit.head.category.value,
                owner_space=hit.head.owner_space,
                abstract=hit.head.abstract,
                has_overview=hit.head.has_overview,
                has_content=hit.head.has_content,
            )
            for hit in self.found.hits[:most]
        ]


async def find_seeds(index: ContextIndex, query: TypedQuery, ctx: RequestContext) -> Seeds:
    """Find the seeds of a question among what the caller sees."""
    whole = await _search(index, query, ctx, query.text)
    names = {hit.head.name for hit in whole.hits if hit.head.is_part}
    persons = _find_names(query.text, (name for name in names if not messages.is_one_of(messages.ALL, name)))
    if not persons:
        return Seeds(whole)
    found = await _search(index, query, ctx, _remove_names(index, query.text, persons))
    if not any(hit.head.name in persons for hit in found.hits):
        # What else is asked, they never said: it asks for what they did say.
        found = replace(found, hits=[*found.hits, *_list_behind(found, whole)])
    return Seeds(found, persons)


def groups_of(query: TypedQuery, ctx: RequestContext) -> Groups:
    """Return the facet filters: visibility, then the requested categories."""
    groups = [] if ctx.visible is None else [scopes.visibility_facets(ctx.visible)]
    if query.categories:
        groups.append(frozenset(facet("category", name) for name in query.categories))
    if query.target_uri:
        groups.append(frozenset({facet("under", query.target_uri)}))
    return groups


async def _search(index: ContextIndex, query: TypedQuery, ctx: RequestContext, text: str) -> SearchHits[ContextSummary]:
    limit = max(_FEWEST_SEEDS, _SEEDS_A_PLACE * query.top_k)
    # Dates are searched for by their marks; a 5 is no topic.
    for words in filter(_NUMBERED.search, query.hints.get("times", ())):
        text = text.replace(words, " ")
    words = " ".join([text, *query.hints.get("days", ())])
    return await index.search(ctx.account, words, groups_of(query, ctx), query.limits.accept, limit)


def _remove_names(index: ContextIndex, text: str, persons: frozenset[str]) -> str:
    # A name may be what a credential is known by.
    rest = redact_secrets(text)
    for name in _list_spellings(persons):
        rest = _pattern(name).sub(" ", rest)
    of_names = set(index.matched_terms(" ".join(persons), " ".join(persons)))
    about = set(index.matched_terms(text, text)) - of_names
    # A question that only names a person asks for that name.
    return rest if about else text


def _list_behind(
    found: SearchHits[ContextSummary], more: SearchHits[ContextSummary]
) -> list[SearchHit[ContextSummary]]:
    """Return what was not found at first: none of it can be better than the last that was."""
    known = {hit.head.uri for hit in found.hits}
    new = [hit for hit in more.hits if hit.head.uri not in known]
    best = max((hit.relevance for hit in new), default=0.0)
    last = found.hits[-1].relevance if found.hits else best
    return [replace(hit, relevance=hit.relevance * last / best) for hit in new] if best > last else new


def _find_names(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names, in full or their first word, that a text has as they are written."""
    return frozenset(name for name in names if any(_pattern(form).search(text) for form in _list_spellings([name])))


def _list_spellings(names: Iterable[str]) -> list[str]:
    forms = {form for name in names for form in (name, *name.split()[:1]) if len(form) > 1}
    return sorted(forms, key=lambda form: (-len(form), form))


@lru_cache(maxsize=4_096)
def _pattern(name: str) -> re.Pattern[str]:
    # Case counts: will is no name, and Will is.
    edge = r"(?![A-Za-z0-9])" if _LATIN_NAME.match(name) else ""
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}{edge}")
