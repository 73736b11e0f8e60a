"""From seeds to nodes: what stands beside a match, and in the session of the best one, answers too (CE-098, C-45)."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from knowhub.context.model import Category, ContextHead, Level
from knowhub.context.ports import ContextStore, ContextView
from knowhub.context.retrieval.l0_retriever import Groups, Seeds, groups_of
from knowhub.context.retrieval.mixing import NEIGHBOURS, Place, Session, Transcripts
from knowhub.context.search_model import NodeHit, TypedQuery
from knowhub.context.times import marks_of
from knowhub.core.recall import Hit
from knowhub.core.request_context import RequestContext

_SAID_BY: Final = 1.2
_ASKED_FOR: Final = 1.15
_EVIDENCE: Final = 0.3
# Of the places, those that each kind, extracted or said, has where it matches at least so well as this.
_KEPT_PLACES: Final = 0.3
_WORTH_A_PLACE: Final = 0.35


class HierarchicalSearcher:
    """Mixes a part's score with its neighbours' and its session's, and a memory's with that of what it came from."""

    def __init__(self, store: ContextStore) -> None:
        self._store = store

    def expand(self, query: TypedQuery, seeds: Seeds, ctx: RequestContext) -> list[NodeHit]:
        """Return the best nodes and parts, best first, at most `query.top_k` (CE-161). Scores are from 0 to about 1."""
        if not seeds.hits:
            return []
        ranking = _Ranking(self._store.view(ctx.account), query, ctx, seeds)
        return [ranking.node_hit(found) for found in ranking.best()]

    def said_at(self, hit: NodeHit, ctx: RequestContext) -> float | None:
        """Return when a hit was said, or took place, in seconds since the epoch."""
        head = self._store.view(ctx.account).context_head(hit.uri)
        return None if head is None else head.said_at

    def score_children(
        self, parent_uri: str, query: TypedQuery, ctx: RequestContext, seeds: Seeds | None = None
    ) -> list[NodeHit]:
        """Return those of the seeds' nodes, and what stands beside them, that are directly below a URI (CE-162)."""
        below = [hit for hit in seeds.hits if hit.head.parent_uri == parent_uri] if seeds is not None else []
        persons = seeds.persons if seeds is not None else ()
        return self.expand(query, Seeds(below, persons), ctx)


@dataclass(frozen=True, slots=True)
class _Found:
    head: ContextHead
    score: float
    is_seed: bool = True


class _Ranking:
    def __init__(self, view: ContextView, query: TypedQuery, ctx: RequestContext, seeds: Seeds) -> None:
        self._view = view
        self._query = query
        self._ctx = ctx
        self._groups: Groups = groups_of(query, ctx)
        self._persons = frozenset(seeds.persons)
        self._days = frozenset(query.hints.get("days", ()))
        self._asked_for = frozenset(query.hints.get("categories", ()))
        self._best = max(hit.relevance for hit in seeds.hits) or 1.0
        self._sessions: defaultdict[str, Session] = defaultdict(Session)
        self._extracted: list[Hit[ContextHead]] = []
        for hit in seeds.hits:
            self._sort_in(hit)
        self._transcripts = Transcripts(self._sessions, self._best)

    def best(self) -> list[_Found]:
        said = sorted([*self._parts(), *self._whole_sessions()], key=_order)
        extracted = sorted(map(self._memory, self._extracted), key=_order)
        return _balanced(said, extracted, self._query.top_k)

    def node_hit(self, found: _Found) -> NodeHit:
        head = found.head
        return NodeHit(
            uri=head.uri,
            parent_uri=head.parent_uri,
            score=round(found.score, 6),
            category=head.category.value,
            abstract=head.abstract,
            level=Level.L0,
            source="seed" if found.is_seed else "child",
            reasons=tuple(self._reasons(head)),
        )

    def _sort_in(self, hit: Hit[ContextHead]) -> None:
        head = hit.head
        if head.category is not Category.SESSIONS:
            self._extracted.append(hit)
        elif head.is_part:
            self._sessions[head.parent_uri].hits[head.number] = hit
        else:
            self._sessions[head.uri].own = hit

    def _parts(self) -> list[_Found]:
        """Return the best parts, as many as there may be places, and those that come near when they are moved up."""
        found: list[_Found] = []
        top: list[float] = []
        reach = _SAID_BY if self._persons else 1.0
        for place in self._transcripts.best_first():
            score = -place[0]
            if len(top) == self._query.top_k and self._moved_up_at_most(score, reach) <= top[0]:
                break
            head, is_seed = self._at(place)
            if head is None:
                continue
            moved = self._moved_up(head, score)
            found.append(_Found(head, moved, is_seed))
            heapq.heappush(top, moved)
            if len(top) > self._query.top_k:
                heapq.heappop(top)
        return found

    def _at(self, place: Place) -> tuple[ContextHead | None, bool]:
        """Return what stands at a place, None where nothing does for the caller, and whether it matched itself."""
        _, address, number = place
        session = self._sessions[address]
        if number in session.hits:
            return session.hits[number].head, True
        around = self._view.context_neighbours(session.nearest(number).uri, len(NEIGHBOURS))
        return next((head for head in around if head.number == number and self._is_wanted(head)), None), False

    def _is_wanted(self, head: ContextHead) -> bool:
        passes = all(not group.isdisjoint(head.facets) for group in self._groups)
        return head.live and passes and self._ctx.sees(head.audience)

    def _whole_sessions(self) -> Iterator[_Found]:
        """Yield the sessions that match as a whole, by their summaries, and in no part."""
        for session in self._sessions.values():
            if session.own is not None and not session.hits:
                score = session.own.relevance / self._best
                yield _Found(session.own.head, self._moved_up(session.own.head, score))

    def _memory(self, hit: Hit[ContextHead]) -> _Found:
        """Return what was extracted; where what it comes from matches too, that is evidence."""
        score = self._moved_up(hit.head, hit.relevance / self._best)
        return _Found(hit.head, score + _EVIDENCE * self._said_of(hit.head))

    def _said_of(self, head: ContextHead) -> float:
        parts = (self._view.context_head(source) for source in head.sources)
        return max((self._transcripts.score(part) for part in parts if part is not None and part.live), default=0.0)

    def _moved_up(self, head: ContextHead, score: float) -> float:
        return self._moved_up_at_most(score, _SAID_BY if head.name in self._persons else 1.0, head.category.value)

    def _moved_up_at_most(self, score: float, reach: float, category: str = Category.SESSIONS.value) -> float:
        return score * reach * (_ASKED_FOR if category in self._asked_for else 1.0)

    def _reasons(self, head: ContextHead) -> Iterator[str]:
        if head.is_part and self._sessions[head.parent_uri].is_beside(head.number):
            yield "beside a match"
        if head.category is Category.SESSIONS and not head.is_part:
            yield "the session as a whole"
        if head.name in self._persons:
            yield f"said by {head.name}" if head.is_part else f"about {head.name}"
        if self._days and self._is_of_those_days(head):
            yield "of that day"
        if head.category.value in self._asked_for:
            yield "the kind asked for"
        if head.sources and self._said_of(head):
            yield "what was said"

    def _is_of_those_days(self, head: ContextHead) -> bool:
        """Tell whether it was said, or took place, on one of the days asked for, as they are where that was."""
        # Which days a message names besides, its head does not know, and reading that costs as much as the search.
        moment = None if head.said_at is None else head.said_at + head.ahead_s
        return not self._days.isdisjoint(marks_of(moment))


def _order(found: _Found) -> tuple[float, float, str]:
    # Of two that answer equally well the later one comes first: it is what still holds.
    return -found.score, -(found.head.said_at or 0.0), found.head.uri


def _balanced(said: Sequence[_Found], extracted: Sequence[_Found], top_k: int) -> list[_Found]:
    """Return the best of both, best first; neither kind takes all places where the other one matches well.

    A transcript has many parts that say much the same, and one memory may say it better, or the other way round.
    """
    ranked = sorted([*said, *extracted], key=_order)
    worth = _WORTH_A_PLACE * ranked[0].score if ranked else 0.0
    kept = {
        found.head.uri
        for kind in (said, extracted)
        for found in kind[: int(_KEPT_PLACES * top_k)]
        if found.score >= worth
    }
    others = [found for found in ranked if found.head.uri not in kept][: top_k - len(kept)]
    return sorted([*(found for found in ranked if found.head.uri in kept), *others], key=_order)
