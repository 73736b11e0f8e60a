"""The first round of a search: L0 texts that share words, meaning, or a day with the question (CE-097, CE-160)."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from knowhub.context.heads import audience_facets, facet
from knowhub.context.model import Category, ContextHead
from knowhub.context.ports import ContextIndex
from knowhub.context.search_model import SeedHit, TypedQuery
from knowhub.core import speakers
from knowhub.core.recall import Hit, Recalled
from knowhub.core.request_context import RequestContext

# Beyond these a hit is hardly evidence: on dialogues, 40 found half a percent more by words and less by meaning.
_FEWEST_SEEDS: Final = 30
_SEEDS_A_PLACE: Final = 3
_MOST_CALLERS: Final = 256
_MOST_NAMES: Final = 64
_SAID: Final = Category.SESSIONS.value
_ALL: Final = frozenset(category.value for category in Category)
_LATIN_NAME: Final = re.compile(r"[A-Za-z]")
_NUMBERED: Final = re.compile(r"\d|月")

Groups = Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True)
class Seeds:
    """What the first round found, best first; `persons` are those who speak in it and whom the question names."""

    hits: Sequence[Hit[ContextHead]]
    persons: tuple[str, ...] = ()
    index_lag: int = 0
    degraded: Sequence[str] = ()

    def listed(self, most: int) -> list[SeedHit]:
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
    """Searches level 0 and nothing else.

    The name of a speaker stands before every message of theirs: it tells who said something, and not what was said. So
    it is left out of what is searched for, and what they said is moved up later. Who speaks is learnt from what is
    found, and remembered, so that one round mostly does.
    """

    def __init__(self, index: ContextIndex) -> None:
        self._index = index
        self._speakers: OrderedDict[tuple[str, frozenset[str] | None], frozenset[str]] = OrderedDict()

    async def search(self, query: TypedQuery, ctx: RequestContext) -> Seeds:
        """Find the seeds of a question among what the caller sees."""
        whose = (ctx.account, ctx.visible)
        known = self._speakers.get(whose, frozenset())
        persons = named_in(query.text, known)
        found = await self._found(query, ctx, persons)
        heard = _heard(query.text, found)
        if heard == persons:
            return Seeds(found.hits, tuple(sorted(persons)), found.index_lag, found.degraded)
        # Somebody new, or somebody who says nothing here any more: what is found with every name tells who is there.
        whole = found if not persons else await self._found(query, ctx, frozenset())
        heard = _heard(query.text, whole)
        self._remember(whose, (known - persons) | heard)
        if heard != persons:
            found = await self._found(query, ctx, heard)
        if not any(hit.head.name in heard for hit in found.hits):
            # What else is asked, they never said: it asks for what they did say.
            found = replace(found, hits=[*found.hits, *_behind(found, whole)])
        return Seeds(found.hits, tuple(sorted(heard)), found.index_lag, found.degraded)

    async def _found(self, query: TypedQuery, ctx: RequestContext, persons: frozenset[str]) -> Recalled[ContextHead]:
        limit = max(_FEWEST_SEEDS, _SEEDS_A_PLACE * query.top_k)
        words = " ".join([self._without(_about(query), persons), *query.hints.get("days", ())])
        found = await self._index.search(ctx.account, words, groups_of(query, ctx), _any, limit)
        lacking = _lacking(query, found) if len(found.hits) == limit else ()
        if not lacking:
            return found
        of_kind = replace(query, categories=lacking)
        more = await self._index.search(ctx.account, words, groups_of(of_kind, ctx), _any, query.top_k)
        return replace(found, hits=[*found.hits, *_behind(found, more)])

    def _without(self, text: str, persons: frozenset[str]) -> str:
        if not persons:
            return text
        rest = text
        for name in _written(persons):
            rest = _pattern(name).sub(" ", rest)
        of_names = set(self._index.matched_terms(" ".join(persons), " ".join(persons)))
        about = set(self._index.matched_terms(text, text)) - of_names
        # A question about nothing but a person asks for their name after all.
        return rest if about else text

    def _remember(self, whose: tuple[str, frozenset[str] | None], names: Iterable[str]) -> None:
        self._speakers[whose] = frozenset(sorted(names)[:_MOST_NAMES])
        self._speakers.move_to_end(whose)
        while len(self._speakers) > _MOST_CALLERS:
            self._speakers.popitem(last=False)


def _lacking(query: TypedQuery, found: Recalled[ContextHead]) -> tuple[str, ...]:
    """Name the categories asked for, said or extracted, that the other kind has pushed out of what was found."""
    asked = frozenset(query.categories) or _ALL
    kinds = (asked & {_SAID}, asked - {_SAID})
    if not all(kinds):
        return ()
    said = sum(hit.head.category is Category.SESSIONS for hit in found.hits)
    counts = (said, len(found.hits) - said)
    few = [kind for kind, count in zip(kinds, counts, strict=True) if count < query.top_k]
    return tuple(sorted(few[0])) if few else ()


def _behind(found: Recalled[ContextHead], more: Recalled[ContextHead]) -> list[Hit[ContextHead]]:
    """Return what was not found at first: none of it can be better than the last that was."""
    known = {hit.head.uri for hit in found.hits}
    new = [hit for hit in more.hits if hit.head.uri not in known]
    best = max((hit.relevance for hit in new), default=0.0)
    last = found.hits[-1].relevance if found.hits else best
    return [replace(hit, relevance=hit.relevance * last / best) for hit in new] if best > last else new


def groups_of(query: TypedQuery, ctx: RequestContext) -> Groups:
    """Return the facets of which a row must have one in each group: those the caller sees and those they asked for."""
    groups = [] if ctx.visible is None else [audience_facets(ctx.visible)]
    if query.categories:
        groups.append(frozenset(facet("category", name) for name in query.categories))
    if query.target_uri:
        groups.append(frozenset({facet("under", query.target_uri)}))
    return groups


def named_in(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names, in full or their first word, that a text has as they are written."""
    return frozenset(name for name in names if any(_pattern(form).search(text) for form in _written([name])))


def _any(_head: ContextHead) -> bool:
    # Whom a row is for is among its facets, and so among the groups.
    return True


def _about(query: TypedQuery) -> str:
    """Return the question without the dates that it names: their marks are searched for, and a 5 is no topic."""
    text = query.text
    for words in query.hints.get("times", ()):
        if _NUMBERED.search(words):
            text = text.replace(words, " ")
    return text


def _heard(text: str, found: Recalled[ContextHead]) -> frozenset[str]:
    names = {hit.head.name for hit in found.hits}
    named = named_in(text, (name for name in names if not speakers.is_one_of(speakers.ALL, name)))
    return frozenset(hit.head.name for hit in found.hits if hit.head.name in named and hit.head.is_part)


def _written(names: Iterable[str]) -> list[str]:
    forms = {form for name in names for form in (name, *name.split()[:1]) if len(form) > 1}
    return sorted(forms, key=lambda form: (-len(form), form))


@lru_cache(maxsize=4_096)
def _pattern(name: str) -> re.Pattern[str]:
    # Case counts: will is no name, and Will is.
    edge = r"(?![A-Za-z0-9])" if _LATIN_NAME.match(name) else ""
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}{edge}")
