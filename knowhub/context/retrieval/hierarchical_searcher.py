"""Search below the nodes of the first step, and combine the results of all searches."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from knowhub.context.model import ContextSummary, MemoryCategory
from knowhub.context.ports import ContextIndex
from knowhub.context.queries import find_memory, find_profile, list_memories_from, list_neighbours
from knowhub.context.retrieval import ranking
from knowhub.context.retrieval.asked_values import is_profile_asked_for
from knowhub.context.retrieval.ranking import ScoredHit, sort_key
from knowhub.context.retrieval.seeds import Seeds, list_filter_groups
from knowhub.context.retrieval.session_scores import NEIGHBOURS, Position, SessionScores, score_positions
from knowhub.context.search_model import TypedQuery
from knowhub.context.times import list_day_marks
from knowhub.conversations import messages
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import View
from knowhub.core.recall import SearchHit
from knowhub.core.request_context import RequestContext

# So many messages before a reply are looked at for what it replies to.
_REPLIES: Final = 8
# Of so many of the best memories that rules made, a later message may say that they hold no more.
_UPDATED_MEMORIES: Final = 3
_FOLDED: Final = 3
# What changed may match worse than what it changed.
_FEWEST_TURNS: Final = 30
_SAID_BY: Final = 1.2
_ASKED_FOR: Final = 1.3
# A profile that is asked for, or so many preferences, score at least this share of the best result.
_MIN_ASKED_FOR: Final = 0.5
_FETCHED: Final = 2
_BEFORE_PREFERENCE: Final = 3
# A memory is worth so much of its best message. Measured, as the next, on conversations with known facts.
_EVIDENCE: Final = 0.6
_NO_EVIDENCE: Final = 0.6
# What a message that says several things counts for a memory: at least, and where no memory of it matches.
_MIN_SHARE: Final = 0.3
_UNKNOWN_SHARE: Final = 0.6


def rank_memories(
    view: View, index: ContextIndex, query: TypedQuery, seeds: Seeds, ctx: RequestContext
) -> list[ScoredHit]:
    """Return the best nodes and parts, best first, at most `query.top_k`. Scores are from 0 to about 1.

    A part's score is mixed with its neighbours' and its session's, and a memory's with its source's.
    """
    return _Ranking(view, index, query, seeds, ctx).list_best()


class _Ranking:
    def __init__(self, view: View, index: ContextIndex, query: TypedQuery, seeds: Seeds, ctx: RequestContext) -> None:
        found = seeds.found
        self._view = view
        self._list_matched_terms = index.list_matched_terms
        self._query = query
        self._ctx = ctx
        self._groups = list_filter_groups(query, ctx)
        self._persons = seeds.persons
        self._days = frozenset(query.hints.get("days", ()))
        self._asked_for = frozenset(query.hints.get("categories", ()))
        # Turns that are folded take no place of their own.
        self._max_turns = max(_FEWEST_TURNS, _FOLDED * query.top_k)
        self._best = max((hit.score for hit in found.hits), default=0.0) or 1.0
        self._sessions: defaultdict[str, SessionScores] = defaultdict(SessionScores)
        self._extracted: list[SearchHit[ContextSummary]] = []
        is_answered = self._days or ranking.has_evidence(found.hits, found.nearest, self._find_terms)
        for hit in found.hits if is_answered else ():
            self._add_hit(hit)
        self._preferences = [summary for summary in seeds.preferences if self._is_wanted(summary)]
        if is_profile_asked_for(view, ctx, query.text):
            self._asked_for |= {MemoryCategory.PROFILE.value}
            self._fetch_asked_for()
        elif self._extracted or self._sessions:
            self._fetch_asked_for()
        self._own = {hit.summary.uri: hit.score for hit in self._extracted}
        self._outdated: set[str] = set()
        self._extracted = self._match_evidence()
        self._positions = score_positions(self._sessions, self._best)

    def list_best(self) -> list[ScoredHit]:
        turns = ranking.fold_turns([*self._rank_parts(), *self._rank_whole_sessions()], self._find_turn)
        extracted = sorted(map(self._score_memory, self._extracted), key=sort_key)
        verbatim = [memory for memory in extracted[:_UPDATED_MEMORIES] if not self._is_from_model(memory.summary)]
        said = ranking.fold_under_memories(
            ranking.rank_updates_first(turns, verbatim, self._list_matched_terms), extracted
        )
        best = self._place_preference(sorted([*said, *extracted], key=sort_key))[: self._query.top_k]
        return [replace(hit, reasons=tuple(self._list_reasons(hit.summary))) for hit in best]

    def _place_preference(self, hits: list[ScoredHit]) -> list[ScoredHit]:
        """Return the results with the nearest instruction or preference behind the best three, if it is not among them.

        It says how to answer, and need share no word with what is asked.
        """
        if len(hits) <= _BEFORE_PREFERENCE or not self._preferences:
            return hits
        summary = self._preferences[0]
        hit = next((hit for hit in hits if hit.summary.uri == summary.uri), None) or self._score_memory(
            SearchHit(summary, 0.0)
        )
        before = hits[:_BEFORE_PREFERENCE]
        if hit in before:
            return hits
        placed = replace(hit, score=hits[_BEFORE_PREFERENCE].score)
        return [*before, placed, *(other for other in hits[_BEFORE_PREFERENCE:] if other is not hit)]

    def _is_from_model(self, memory: ContextSummary) -> bool:
        """Return whether a model read where a memory comes from, and so what changed later."""
        part = find_memory(self._view, memory.sources[0]) if memory.sources else None
        session = find_memory(self._view, part.parent_uri) if part is not None else None
        return session is None or session.is_read_by_model

    def _find_terms(self, summary: ContextSummary) -> frozenset[str]:
        return frozenset(self._list_matched_terms(self._query.text, summary.abstract))

    def _find_turn(self, summary: ContextSummary) -> ContextSummary:
        """Return the user's message that a message replies to; the message itself if it is no reply."""
        if not summary.is_part or not messages.has_role(messages.AGENT_ROLES | messages.TOOL_ROLES, summary.role):
            return summary
        before = list_neighbours(self._view, summary.uri, _REPLIES)
        for part in reversed([part for part in before if part.number < summary.number]):
            if messages.has_role(messages.USER_ROLES, part.role) and self._is_wanted(part):
                return part
        return summary

    def _is_replied_to(self, summary: ContextSummary) -> bool:
        """Return whether the next message is an agent's."""
        after = (part for part in list_neighbours(self._view, summary.uri, 1) if part.number == summary.number + 1)
        return any(messages.has_role(messages.AGENT_ROLES, part.role) for part in after)

    def _add_hit(self, hit: SearchHit[ContextSummary]) -> None:
        summary = hit.summary
        if summary.category is not MemoryCategory.SESSIONS:
            self._extracted.append(hit)
        elif summary.is_part:
            self._sessions[summary.parent_uri].hits[summary.number] = hit
        else:
            self._sessions[summary.uri].own = hit

    def _fetch_asked_for(self) -> None:
        """Add the caller's profile or nearest preferences where they are asked for: they need share no word with it."""
        wanted = self._preferences[:_FETCHED] if MemoryCategory.PREFERENCES.value in self._asked_for else []
        if MemoryCategory.PROFILE.value in self._asked_for:
            # A caller without a user and an agent has no profile.
            with suppress(InvalidInput):
                wanted += filter(None, [find_profile(self._view, self._ctx)])
        known = {hit.summary.uri: hit for hit in self._extracted}
        for summary in filter(self._is_wanted, wanted):
            hit = known.get(summary.uri, SearchHit(summary, 0.0))
            known[summary.uri] = replace(hit, score=max(hit.score, _MIN_ASKED_FOR * self._best))
        self._extracted = list(known.values())

    def _match_evidence(self) -> list[SearchHit[ContextSummary]]:
        """Return the extracted memories, with those that are made of the messages found.

        What replaced a statement matches as well as the message that made that.
        """
        hits = {hit.summary.uri: hit for hit in self._extracted}
        for hit in [hit for session in self._sessions.values() for hit in session.hits.values()]:
            memories = self._list_memories_from(hit.summary.uri)
            newer = [memory for memory in memories if hit.summary.uri in memory.outdated]
            if newer and len(newer) == len(memories):
                self._outdated.add(hit.summary.uri)
            for memory in memories:
                known = hits.get(memory.uri)
                score = hit.score * self._get_share(memory, hit.summary.uri) if memory in newer else 0.0
                if known is None or known.score < score:
                    hits[memory.uri] = replace(hit, summary=memory, score=score)
        return list(hits.values())

    def _list_memories_from(self, source: str) -> list[ContextSummary]:
        return [memory for memory in list_memories_from(self._view, source) if self._is_wanted(memory)]

    def _get_share(self, memory: ContextSummary, source: str) -> float:
        """Return a memory's share of a message. Of several memories, the best match has the largest share."""
        siblings = self._list_memories_from(source)
        if len(siblings) <= 1:
            return 1.0
        best = max(self._own.get(sibling.uri, 0.0) for sibling in siblings)
        return max(_MIN_SHARE, self._own.get(memory.uri, 0.0) / best) if best else _UNKNOWN_SHARE

    def _rank_parts(self) -> list[ScoredHit]:
        """Return the best parts, as many as there may be places, and those that come near when they are moved up."""
        found: list[ScoredHit] = []
        top: list[float] = []
        for position, score in sorted(self._positions.items(), key=lambda item: (-item[1], item[0])):
            if len(top) == self._max_turns and score * (_SAID_BY if self._persons else 1.0) <= top[0]:
                break
            summary, is_seed = self._find_at(position)
            if summary is not None:
                is_outdated = summary.uri in self._outdated
                weight = ranking.weigh_part(summary, is_outdated=is_outdated, is_replied_to=self._is_replied_to)
                moved = self._raise_score(summary, score) * weight * self._apply_evidence(summary)
                found.append(ScoredHit(summary, moved, is_seed))
                heapq.heappush(top, moved)
                if len(top) > self._max_turns:
                    heapq.heappop(top)
        return found

    def _apply_evidence(self, summary: ContextSummary) -> float:
        """Return the weight of a message. A message from which a model took nothing weighs less."""
        session = find_memory(self._view, summary.parent_uri)
        is_read = session is not None and session.is_read_by_model
        return _NO_EVIDENCE if is_read and not list_memories_from(self._view, summary.uri) else 1.0

    def _find_at(self, position: Position) -> tuple[ContextSummary | None, bool]:
        """Return the node at a position, None if missing or hidden, and whether it matched itself."""
        address, number = position
        session = self._sessions[address]
        if number in session.hits:
            return session.hits[number].summary, True
        around = list_neighbours(self._view, session.find_nearest(number).uri, len(NEIGHBOURS))
        return next(
            (summary for summary in around if summary.number == number and self._is_wanted(summary)), None
        ), False

    def _is_wanted(self, summary: ContextSummary) -> bool:
        passes = all(not group.isdisjoint(summary.facets) for group in self._groups)
        return summary.live and passes and self._ctx.sees(summary.audience) and self._query.limits.accept(summary)

    def _rank_whole_sessions(self) -> Iterator[ScoredHit]:
        """Yield the sessions that match as a whole, by their summaries, and in no part."""
        for session in self._sessions.values():
            if session.own is not None and not session.hits:
                score = session.own.score / self._best
                yield ScoredHit(session.own.summary, self._raise_score(session.own.summary, score))

    def _score_memory(self, hit: SearchHit[ContextSummary]) -> ScoredHit:
        """Return what was extracted; where what it comes from matches too, that is evidence."""
        score = self._raise_score(hit.summary, hit.score / self._best) * ranking.weigh_memory(hit.summary)
        sources = self._score_sources(hit.summary)
        best_first = sorted(sources, key=lambda source: -sources[source])
        return ScoredHit(hit.summary, score + _EVIDENCE * max(sources.values(), default=0.0), folded=tuple(best_first))

    def _score_sources(self, summary: ContextSummary) -> dict[str, float]:
        """Return how well the messages of a memory match, as far as they are about it."""
        parts = (find_memory(self._view, source) for source in summary.sources)
        live = [part for part in parts if part is not None and part.live]
        scores = {part.uri: self._positions.get((part.parent_uri, part.number), 0.0) for part in live}
        return {source: score * self._get_share(summary, source) if score else 0.0 for source, score in scores.items()}

    def _raise_score(self, summary: ContextSummary, score: float) -> float:
        raised = score * _SAID_BY if summary.name in self._persons else score
        return raised * _ASKED_FOR if summary.category.value in self._asked_for else raised

    def _list_reasons(self, summary: ContextSummary) -> Iterator[str]:
        if summary.is_part and self._sessions[summary.parent_uri].has_neighbour(summary.number):
            yield "beside a match"
        if summary.category is MemoryCategory.SESSIONS and not summary.is_part:
            yield "the session as a whole"
        if summary.name in self._persons:
            yield f"said by {summary.name}" if summary.is_part else f"about {summary.name}"
        if self._days and self._matches_dates(summary):
            yield "of that day"
        if summary.category.value in self._asked_for:
            yield "the kind asked for"
        if any(self._score_sources(summary).values()):
            yield "what was said"

    def _matches_dates(self, summary: ContextSummary) -> bool:
        """Return whether it was said, or took place, on one of the days asked for, as they are where that was."""
        # A summary has no other days that its message names, and reading the message costs as much as the search.
        moment = None if summary.occurred_at is None else summary.occurred_at + summary.utc_offset_s
        return not self._days.isdisjoint(list_day_marks(moment))
