"""What each part of a transcript is worth: its own match, its neighbours', and that of the best part of its session."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from knowhub.context.model import ContextHead
from knowhub.core.recall import Hit

# In a dialogue the answer often stands beside the sentence that matches. Measured on dialogues of two people.
NEIGHBOURS: Final = (0.5, 0.3, 0.2, 0.1)
_OF_SESSION: Final = 0.8


Place = tuple[float, str, int]
"""A score below zero, so that the best is the least, a session, and a number in it: a place that may come in."""


@dataclass(slots=True)
class Session:
    """The matches in one session, by the number of the part; `own` is how well the session itself matched."""

    hits: dict[int, Hit[ContextHead]] = field(default_factory=dict)
    own: Hit[ContextHead] | None = None

    def best(self) -> float:
        """Return its best match."""
        own = self.own.relevance if self.own is not None else 0.0
        return max([own, *[hit.relevance for hit in self.hits.values()]])

    def is_beside(self, number: int) -> bool:
        """Tell whether another match stands near a part."""
        return any(number + away in self.hits for away, _ in _BESIDE)

    def nearest(self, number: int) -> ContextHead:
        """Return the match that stands nearest to a place, which has one in its reach."""
        return next(self.hits[number + away].head for away, _ in _BESIDE if number + away in self.hits)

    def mixed(self) -> dict[int, float]:
        """Return what each place has of its own and of its neighbours, those too that did not match."""
        scores: dict[int, float] = {}
        for number, hit in self.hits.items():
            value = hit.relevance
            for away, share in _AROUND:
                place = number + away
                scores[place] = scores.get(place, 0.0) + share * value
        return scores


class Transcripts:
    """The sessions in which something matched. Scores are from 0 to 1, where `best` is the best of all matches.

    The best part is worth what it matched by itself: so what was said and what was extracted can be compared.
    """

    def __init__(self, sessions: dict[str, Session], best: float) -> None:
        spoken = {address: session for address, session in sessions.items() if session.hits}
        self._mixed = {address: session.mixed() for address, session in spoken.items()}
        bests = {address: session.best() for address, session in spoken.items()}
        self._highest = max((max(scores.values()) for scores in self._mixed.values()), default=1.0) or 1.0
        best_session = max(bests.values(), default=1.0) or 1.0
        self._of_session = {address: _OF_SESSION * value / best_session for address, value in bests.items()}
        best_part = max((hit.relevance for session in spoken.values() for hit in session.hits.values()), default=0.0)
        self._scale = best_part / best / (1 + _OF_SESSION)

    def best_first(self) -> Iterator[Place]:
        """Yield the places, best first; few are ever asked for."""
        places: list[Place] = []
        by_neighbours = -self._scale / self._highest
        for address, scores in self._mixed.items():
            by_session = -self._scale * self._of_session[address]
            places += [(by_neighbours * score + by_session, address, number) for number, score in scores.items()]
        heapq.heapify(places)
        while places:
            yield heapq.heappop(places)

    def score(self, head: ContextHead) -> float:
        """Return what a part is worth; 0 where nothing near it matched."""
        scores = self._mixed.get(head.parent_uri, {})
        return self._worth(scores[head.number], head.parent_uri) if head.number in scores else 0.0

    def _worth(self, score: float, address: str) -> float:
        return self._scale * (score / self._highest + self._of_session[address])


_BESIDE: Final = [(sign * away, share) for away, share in enumerate(NEIGHBOURS, start=1) for sign in (-1, 1)]
_AROUND: Final = [(0, 1.0), *_BESIDE]
