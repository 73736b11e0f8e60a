"""How search results are ordered: the weights of each kind, what is folded into one result, and newer before older.

1. A statement weighs more than a question, an agent's acknowledgement and a tool's answer.
2. A user's turn and the replies to it are one result. So are a memory and the messages that it was made of.
3. A later statement that something changed comes before the earlier one on the same thing. A replaced plan comes late.
4. What shares only single characters with the question is no result, if nothing shares more.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context.model import ContextSummary, MemoryCategory
from knowhub.conversations import messages
from knowhub.conversations.statement_forms import QUESTION, UPDATE
from knowhub.core.recall import VECTOR, SearchHit

_ACKNOWLEDGEMENT: Final = 0.85
# A longer reply of an agent explains something.
_ACKNOWLEDGEMENT_CHARS: Final = 100
_TOOL_ANSWER: Final = 0.7
_QUESTION: Final = 0.6
_TOOL_STATISTICS: Final = 0.4
_REPLACED: Final = 0.2
# An update is looked for to so many of the best results, among the best so many later statements.
_UPDATED: Final = 5
_UPDATES: Final = 12
# Statements are about the same if they share a word that no other result has.
_BOTH: Final = 2
_LIFT: Final = 1.001
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

    `turn_of` finds the turn that a message belongs to. The turn comes first if it matches itself. Of the replies, those
    that match at least as well are named.
    """
    groups: dict[str, list[ScoredHit]] = {}
    for hit in sorted(hits, key=sort_key):
        groups.setdefault(turn_of(hit.head).uri, []).append(hit)
    folded = []
    for address, group in groups.items():
        turn = next((hit for hit in group if hit.head.uri == address and hit.is_seed), None)
        first = turn or group[0]
        others = [hit.head.uri for hit in group if hit is not first and hit.is_seed and hit.score >= first.score]
        if first.head.uri != address:
            others = [*(other for other in others if other != address), address]
        folded.append(replace(first, score=group[0].score, folded=tuple(others)))
    return sorted(folded, key=sort_key)


def fold_under_memories(said: Sequence[ScoredHit], extracted: Sequence[ScoredHit]) -> list[ScoredHit]:
    """Return the messages without those that a better memory names as its evidence."""
    scores: dict[str, float] = {}
    for memory in extracted:
        for source in memory.head.sources:
            scores[source] = max(scores.get(source, 0.0), memory.score)
    return [hit for hit in said if scores.get(hit.head.uri, 0.0) < hit.score]


def lift_updates(
    turns: Sequence[ScoredHit], memories: Sequence[ScoredHit], match: Callable[[str, str], Sequence[str]]
) -> list[ScoredHit]:
    """Return the turns, best first; a statement that something changed comes before the one that it changes.

    `memories` are extracted ones that may be outdated, too. `match` returns the words that two texts share. A day
    counts as a whole, and a speaker updates only what they said themselves.
    """
    ordered = sorted(turns, key=sort_key)
    updates = [hit for hit in ordered if _is_update(hit.head)][:_UPDATES]
    if not updates:
        return ordered
    texts = [hit.head.abstract.lower() for hit in ordered]
    scores = {hit.head.uri: hit.score for hit in ordered}
    for earlier in [*ordered[:_UPDATED], *memories]:
        for update in updates:
            if not _can_update(update.head, earlier.head):
                continue
            shared = (word for word in match(earlier.head.abstract, update.head.abstract) if _is_telling(word))
            if any(sum(word in text for text in texts) <= _BOTH for word in shared):
                scores[update.head.uri] = max(scores[update.head.uri], _LIFT * earlier.score)
    return sorted((replace(hit, score=scores[hit.head.uri]) for hit in ordered), key=sort_key)


def _is_update(head: ContextSummary) -> bool:
    """Return whether a message is a user's statement that something is not as it was."""
    is_said = head.is_part and messages.is_one_of(messages.USER, head.role)
    return is_said and not _is_question(head) and UPDATE.search(head.abstract.lower()) is not None


def _can_update(later: ContextSummary, earlier: ContextSummary) -> bool:
    if earlier.is_part and not messages.is_one_of(messages.USER, earlier.role):
        return False
    # «Standup: …» is written like a name.
    speakers = {
        head.name for head in (later, earlier) if head.is_part and not messages.is_one_of(messages.ALL, head.name)
    }
    if len(speakers) > 1:
        return False
    day, before = _get_day(later), _get_day(earlier)
    return day is not None and before is not None and day > before


def _is_telling(word: str) -> bool:
    """Return whether a word says what a statement is about: a single character or a number does not."""
    return len(word) > 1 and not word.isdigit()


def _is_question(head: ContextSummary) -> bool:
    """Return whether a message is only a question."""
    text = head.abstract.strip()
    return QUESTION.search(text) is not None and not any(end in text[:-1] for end in _SENTENCE_ENDS)


def _get_day(head: ContextSummary) -> int | None:
    return None if head.said_at is None else int(head.said_at // _DAY_S)
