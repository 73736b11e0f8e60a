"""How search results are ordered: the weights of each kind, what is folded into one result, and newer before older.

1. A statement weighs more than a question, an agent's acknowledgement and a tool's answer.
2. A user's turn and the replies to it are one result. So are a memory and the messages that it was made of.
3. Of results that are about the same and match about as well, the newer comes first. A replaced plan comes late.
4. What shares only single characters with the question is no result, if nothing shares more.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context.model import ContextSummary, MemoryCategory
from knowhub.conversations import messages
from knowhub.conversations.statement_forms import QUESTION
from knowhub.core.recall import VECTOR, SearchHit

_ACKNOWLEDGEMENT: Final = 0.85
# A longer reply of an agent explains something.
_ACKNOWLEDGEMENT_CHARS: Final = 100
_TOOL_ANSWER: Final = 0.7
_QUESTION: Final = 0.6
_TOOL_STATISTICS: Final = 0.4
_REPLACED: Final = 0.2
# The newest result weighs so much more than the oldest.
_NEWEST: Final = 0.3
_ABOUT_AS_WELL: Final = 0.8
# A turn comes before a reply that matches not much better.
_TURN_FIRST: Final = 0.85
_DAY_S: Final = 86_400
_SENTENCE_ENDS: Final = (". ", "! ", "。", "！", "\n")
_STATISTICS: Final = frozenset({MemoryCategory.TOOLS, MemoryCategory.SKILLS})

FindTerms = Callable[[ContextSummary], frozenset[str]]
"""Returns the words of the question that occur in a text."""


@dataclass(frozen=True, slots=True)
class ScoredHit:
    """A node or a part with its score; `folded` are the URIs of further messages of the same result, best first."""

    head: ContextSummary
    score: float
    is_seed: bool = True
    folded: tuple[str, ...] = ()


def weigh_part(head: ContextSummary, *, is_outdated: bool) -> float:
    """Return how much a message weighs: by who says it, whether it states anything, and whether that was replaced."""
    if messages.is_one_of(messages.TOOL, head.role):
        return _TOOL_ANSWER
    weight = _REPLACED if is_outdated else 1.0
    if messages.is_one_of(messages.AGENT, head.role) and len(head.abstract) < _ACKNOWLEDGEMENT_CHARS:
        weight *= _ACKNOWLEDGEMENT
    return weight * _QUESTION if _is_question(head) else weight


def weigh_memory(head: ContextSummary) -> float:
    """Return how much an extracted memory weighs: statistics of tools answer few questions."""
    return _TOOL_STATISTICS if head.category in _STATISTICS else 1.0


def has_evidence(hits: Iterable[SearchHit[ContextSummary]], find_terms: FindTerms) -> bool:
    """Return whether any hit shares more with the question than a single character: words, a day, or its meaning."""
    return any(
        any(stage.stage == VECTOR for stage in hit.parts) or sum(map(len, find_terms(hit.head))) != 1 for hit in hits
    )


def sort_key(hit: ScoredHit) -> tuple[float, float, str]:
    """Sort by score; of two that answer equally well the later comes first: it is what still holds."""
    return -hit.score, -(hit.head.said_at or 0.0), hit.head.uri


def fold_turns(hits: Iterable[ScoredHit], turn_of: Callable[[ContextSummary], ContextSummary]) -> list[ScoredHit]:
    """Return one hit for each user's turn with the replies to it, best first.

    `turn_of` finds the turn that a message belongs to. The turn comes first if it matches itself, and no reply matches
    far better.
    """
    groups: dict[str, list[ScoredHit]] = {}
    for hit in sorted(hits, key=sort_key):
        groups.setdefault(turn_of(hit.head).uri, []).append(hit)
    folded = []
    for address, group in groups.items():
        best = group[0]
        turn = next((hit for hit in group if hit.head.uri == address), None)
        is_first = turn is not None and turn.is_seed and turn.score >= _TURN_FIRST * best.score
        first = turn if turn is not None and is_first else best
        others = [hit.head.uri for hit in group if hit is not first]
        if turn is None:
            others.append(address)
        folded.append(replace(first, score=best.score, folded=tuple(others)))
    return sorted(folded, key=sort_key)


def fold_under_memories(said: Sequence[ScoredHit], extracted: Sequence[ScoredHit]) -> list[ScoredHit]:
    """Return the messages without those that a better memory names as its evidence."""
    scores: dict[str, float] = {}
    for memory in extracted:
        for source in memory.head.sources:
            scores[source] = max(scores.get(source, 0.0), memory.score)
    return [hit for hit in said if scores.get(hit.head.uri, 0.0) < hit.score]


def prefer_newer(hits: Sequence[ScoredHit], find_terms: FindTerms) -> list[ScoredHit]:
    """Return hits in their final order: newer before older.

    The newest day raises a score most. Then a hit moves before an older hit that shares words of the question with it
    and matches about as well.
    """
    days = sorted({day for hit in hits if (day := _get_day(hit.head)) is not None})
    raised = [_raise_newer(hit, days) for hit in hits]
    ordered: list[tuple[ScoredHit, frozenset[str]]] = []
    for hit in sorted(raised, key=sort_key):
        terms = find_terms(hit.head)
        places = (place for place, (other, known) in enumerate(ordered) if known & terms and _is_newer(hit, other))
        ordered.insert(next(places, len(ordered)), (hit, terms))
    return [hit for hit, _ in ordered]


def _is_question(head: ContextSummary) -> bool:
    """Return whether a message is only a question."""
    text = head.abstract.strip()
    return QUESTION.search(text) is not None and not any(end in text[:-1] for end in _SENTENCE_ENDS)


def _get_day(head: ContextSummary) -> int | None:
    return None if head.said_at is None else int(head.said_at // _DAY_S)


def _raise_newer(hit: ScoredHit, days: Sequence[int]) -> ScoredHit:
    day = _get_day(hit.head)
    if day is None or len(days) == 1 or hit.head.category is not MemoryCategory.SESSIONS:
        # A memory states what holds, however long ago it was said.
        return hit
    share = days.index(day) / (len(days) - 1)
    return replace(hit, score=hit.score * (1 + _NEWEST * share) / (1 + _NEWEST))


def _is_newer(hit: ScoredHit, other: ScoredHit) -> bool:
    """Return whether a hit was said on a later day than a message, and matches about as well."""
    if other.head.category is not MemoryCategory.SESSIONS:
        return False
    day, before = _get_day(hit.head), _get_day(other.head)
    return day is not None and before is not None and day > before and hit.score >= _ABOUT_AS_WELL * other.score
