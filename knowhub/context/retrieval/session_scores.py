"""What each message of a session is worth: by its own match, its neighbours' and its session's."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from knowhub.context.model import ContextSummary
from knowhub.core.recall import SearchHit

# In a dialogue the answer is often next to the sentence that matches. Measured on dialogues of two people.
NEIGHBOURS: Final = (0.5, 0.3, 0.2, 0.1)
_BESIDE: Final = [(sign * away, share) for away, share in enumerate(NEIGHBOURS, start=1) for sign in (-1, 1)]
_OF_SESSION: Final = 0.8


Position: TypeAlias = tuple[str, int]
"""A candidate part of a session: the URI of the session, and the part's number."""


@dataclass(slots=True)
class SessionScores:
    """The matches in one session, by the number of the part; `own` is how well the session itself matched."""

    hits: dict[int, SearchHit[ContextSummary]] = field(default_factory=dict)
    own: SearchHit[ContextSummary] | None = None

    def get_best(self) -> float:
        """Return its best match."""
        own = self.own.score if self.own is not None else 0.0
        return max([own, *[hit.score for hit in self.hits.values()]])

    def has_neighbour(self, number: int) -> bool:
        """Return whether another match is near a part."""
        return any(number + away in self.hits for away, _ in _BESIDE)

    def find_nearest(self, number: int) -> ContextSummary:
        """Return the nearest match to a position that has one within reach."""
        return next(self.hits[number + away].summary for away, _ in _BESIDE if number + away in self.hits)

    def mix_scores(self) -> dict[int, float]:
        """Return what each position has of its own and of its best neighbour, those too that did not match."""
        beside: dict[int, float] = {}
        for number, hit in self.hits.items():
            for away, share in _BESIDE:
                position = number + away
                beside[position] = max(beside.get(position, 0.0), share * hit.score)
        own = {number: hit.score for number, hit in self.hits.items()}
        return {position: own.get(position, 0.0) + beside.get(position, 0.0) for position in own | beside}


def score_positions(sessions: dict[str, SessionScores], best: float) -> dict[Position, float]:
    """Return what each position near a match is worth, from 0 to 1, where `best` is the best of all matches.

    The best part is worth what it matched by itself: so what was said and what was extracted can be compared.
    """
    spoken = {address: session for address, session in sessions.items() if session.hits}
    mixed = {address: session.mix_scores() for address, session in spoken.items()}
    bests = {address: session.get_best() for address, session in spoken.items()}
    highest = max((max(scores.values()) for scores in mixed.values()), default=1.0) or 1.0
    best_session = max(bests.values(), default=1.0) or 1.0
    best_part = max((hit.score for session in spoken.values() for hit in session.hits.values()), default=0.0)
    scale = best_part / best / (1 + _OF_SESSION)
    return {
        (address, number): scale * (score / highest + _OF_SESSION * bests[address] / best_session)
        for address, scores in mixed.items()
        for number, score in scores.items()
    }
