"""The first round of a search: L0 texts that share words, meaning, or a day with the question."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

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
_MOST_CALLERS: Final = 256
_MOST_NAMES: Final = 64
_LATIN_NAME: Final = re.compile(r"[A-Za-z]")
_NUMBERED: Final = re.compile(r"\d|月")

Groups = Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True)
class Seeds:
    """What the first round found, best first; `persons` are those who speak in it and whom the question names.

    `reach`, `enough` and `nearest` measure the hits, as in `SearchHits`.
    """

    hits: Sequence[SearchHit[ContextSummary]]
    persons: tuple[str, ...] = ()
    index_lag: int = 0
    degraded: Sequence[str] = ()
    reach: float = 1.0
    enough: float = 1.0
    nearest: float = 0.0

    @property
    def best_share(self) -> float:
        """The relevance of the best hit as a share of that of a perfect one: from 0 to 1."""
        return min(1.0, max((hit.relevance for hit in self.hits), default=0.0) / self.reach)

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
            for hit in self.hits[:most]
        ]


class L0Retriever:
    """Searches the abstracts (level 0) only.

    Each message starts with the name of its speaker. The name tells who said something, not what was said. So names of
    speakers are removed from the query, and messages of the named speakers get a higher score later. The retriever
    learns the speakers from the results and remembers them, so that most queries need one search.
    """

    def __init__(self, index: ContextIndex) -> None:
        self._index = index
        self._speakers: OrderedDict[tuple[str, frozenset[str] | None], frozenset[str]] = OrderedDict()

    async def search(self, query: TypedQuery, ctx: RequestContext) -> Seeds:
        """Find the seeds of a question among what the caller sees."""
        whose = (ctx.account, ctx.visible)
        known = self._speakers.get(whose, frozenset())
        persons = find_names(query.text, known)
        found = await self._search(query, ctx, persons)
        heard = _find_speakers(query.text, found)
        if heard == persons:
            return _make_seeds(found, persons)
        # Somebody new, or somebody who says nothing here any more: what is found with every name tells who is there.
        whole = found if not persons else await self._search(query, ctx, frozenset())
        heard = _find_speakers(query.text, whole)
        self._remember(whose, (known - persons) | heard)
        if heard != persons:
            found = await self._search(query, ctx, heard)
        if not any(hit.head.name in heard for hit in found.hits):
            # What else is asked, they never said: it asks for what they did say.
            found = replace(found, hits=[*found.hits, *_behind(found, whole)])
        return _make_seeds(found, heard)

    async def _search(
        self, query: TypedQuery, ctx: RequestContext, persons: frozenset[str]
    ) -> SearchHits[ContextSummary]:
        limit = max(_FEWEST_SEEDS, _SEEDS_A_PLACE * query.top_k)
        words = " ".join([self._without(_about(query), persons), *query.hints.get("days", ())])
        # Whom a row is for is among its facets, and so among the groups.
        accept = query.limits.accept
        return await self._index.search(ctx.account, words, groups_of(query, ctx), accept, limit)

    def _without(self, text: str, persons: frozenset[str]) -> str:
        if not persons:
            return text
        # A name may be what a credential is known by.
        rest = redact_secrets(text)
        for name in _list_spellings(persons):
            rest = _pattern(name).sub(" ", rest)
        of_names = set(self._index.matched_terms(" ".join(persons), " ".join(persons)))
        about = set(self._index.matched_terms(text, text)) - of_names
        # A question that only names a person asks for that name.
        return rest if about else text

    def _remember(self, whose: tuple[str, frozenset[str] | None], names: Iterable[str]) -> None:
        self._speakers[whose] = frozenset(sorted(names)[:_MOST_NAMES])
        self._speakers.move_to_end(whose)
        while len(self._speakers) > _MOST_CALLERS:
            self._speakers.popitem(last=False)


def _make_seeds(found: SearchHits[ContextSummary], persons: frozenset[str]) -> Seeds:
    return Seeds(
        found.hits, tuple(sorted(persons)), found.index_lag, found.degraded, found.reach, found.enough, found.nearest
    )


def _behind(found: SearchHits[ContextSummary], more: SearchHits[ContextSummary]) -> list[SearchHit[ContextSummary]]:
    """Return what was not found at first: none of it can be better than the last that was."""
    known = {hit.head.uri for hit in found.hits}
    new = [hit for hit in more.hits if hit.head.uri not in known]
    best = max((hit.relevance for hit in new), default=0.0)
    last = found.hits[-1].relevance if found.hits else best
    return [replace(hit, relevance=hit.relevance * last / best) for hit in new] if best > last else new


def groups_of(query: TypedQuery, ctx: RequestContext) -> Groups:
    """Return the facet filters: visibility, then the requested categories."""
    groups = [] if ctx.visible is None else [scopes.visibility_facets(ctx.visible)]
    if query.categories:
        groups.append(frozenset(facet("category", name) for name in query.categories))
    if query.target_uri:
        groups.append(frozenset({facet("under", query.target_uri)}))
    return groups


def find_names(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names, in full or their first word, that a text has as they are written."""
    return frozenset(name for name in names if any(_pattern(form).search(text) for form in _list_spellings([name])))


def _about(query: TypedQuery) -> str:
    """Return the question without the dates that it names: their marks are searched for, and a 5 is no topic."""
    text = query.text
    for words in query.hints.get("times", ()):
        if _NUMBERED.search(words):
            text = text.replace(words, " ")
    return text


def _find_speakers(text: str, found: SearchHits[ContextSummary]) -> frozenset[str]:
    names = {hit.head.name for hit in found.hits}
    named = find_names(text, (name for name in names if not messages.is_one_of(messages.ALL, name)))
    return frozenset(hit.head.name for hit in found.hits if hit.head.name in named and hit.head.is_part)


def _list_spellings(names: Iterable[str]) -> list[str]:
    forms = {form for name in names for form in (name, *name.split()[:1]) if len(form) > 1}
    return sorted(forms, key=lambda form: (-len(form), form))


@lru_cache(maxsize=4_096)
def _pattern(name: str) -> re.Pattern[str]:
    # Case counts: will is no name, and Will is.
    edge = r"(?![A-Za-z0-9])" if _LATIN_NAME.match(name) else ""
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}{edge}")
