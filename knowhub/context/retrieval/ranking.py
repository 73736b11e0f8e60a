"""How search results are ordered: the weights of each kind, what is folded into one result, and newer before older.

1. What a user says weighs more than the replies of agents and tools, and than a question that no agent replies to.
2. A user's turn and the replies to it are one result. So are a memory and the messages that it was made of.
3. A later statement that something changed comes before the earlier one on the same thing. A replaced plan comes late.
4. Nothing is found where nothing shares more than single characters with the question, or is near to its meaning.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowhub.context.model import COUNTED, ContextSummary
from knowhub.conversations import messages
from knowhub.conversations.statements.forms import QUESTION, compile_any
from knowhub.core.recall import LEXICAL, SearchHit

# Who asks mostly asks for what they said themselves. A reply says much of it again, with more words.
_REPLY: Final = 0.85
_BARE_QUESTION: Final = 0.85
_TOOL_STATISTICS: Final = 0.4
_REPLACED: Final = 0.2
# An update is looked for to so many of the best results, among the best so many later statements.
_UPDATED: Final = 5
_UPDATES: Final = 12
# Statements are about the same if they share a word that no other result has.
_BOTH: Final = 2
_LIFT: Final = 1.001
_DAY_S: Final = 86_400
# Between unrelated texts and the same text: questions that share no word with their answers are seldom farther.
_NEAR: Final = 0.29
_BETWEEN_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？\n])")
# What says that something is not as it was. A later message with it, about the same as an earlier one, holds instead.
_UPDATE: Final = compile_any(
    r"\b(?:chang(?:ed?|es|ing)|mov(?:ed|es|ing)|switch(?:ed|es|ing)?|replac(?:ed|es|ing)|instead|no longer|no more"
    r"|any ?more|from now on|updates?|corrections?|postponed|pushed|rescheduled|slip(?:s|ped)|delayed|brought forward"
    r"|cancell?ed|quit|resigned|stopped|gave up|sold|died|retired|renamed|expired|done with)\b",
    r"改|换|搬|挪|推迟|延[到期后长]|提前到|取消|不再|不用了|停了|停用|戒了|辞|离职|离婚|调[到去回]|转[到去]|升[到级为]|涨|降[到为]"
    r"|不干了|卖了|卖掉|去世|分手|下线|切到|搁置|作废|不[^，,。？?]{1,6}了",
)

FindTerms = Callable[[ContextSummary], frozenset[str]]
"""Returns the words of the question that occur in a text."""


@dataclass(frozen=True, slots=True)
class ScoredHit:
    """A node or a part with its score, and whether it matched itself; `reasons` say what moved it.

    `folded` are the URIs of further messages of the same result, best first.
    """

    summary: ContextSummary
    score: float
    is_seed: bool = True
    folded: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def weigh_part(summary: ContextSummary, *, is_outdated: bool, is_replied_to: Callable[[ContextSummary], bool]) -> float:
    """Return how much a message weighs: by who says it, whether it states anything, and whether that was replaced.

    `is_replied_to` says whether an agent replies: such a question is one result with its answer.
    """
    weight = _REPLACED if is_outdated else 1.0
    if messages.has_role(messages.AGENT_ROLES | messages.TOOL_ROLES, summary.role):
        weight *= _REPLY
    return weight * _BARE_QUESTION if _is_question(summary.abstract) and not is_replied_to(summary) else weight


def weigh_memory(summary: ContextSummary) -> float:
    """Return how much an extracted memory weighs: statistics of tools answer few questions."""
    return _TOOL_STATISTICS if summary.category in COUNTED else 1.0


def has_evidence(hits: Iterable[SearchHit[ContextSummary]], nearest: float, find_terms: FindTerms) -> bool:
    """Return whether the memory says anything about the question.

    That is: a hit shares more with it than a single character, or the `nearest` is near, from 0 (like unrelated texts)
    to 1 (the same).
    """
    by_words = (hit for hit in hits if any(stage.stage == LEXICAL for stage in hit.stages))
    # A long message may match further on than its abstract shows.
    return nearest >= _NEAR or any(sum(map(len, find_terms(hit.summary))) != 1 for hit in by_words)


def sort_key(hit: ScoredHit) -> tuple[float, float, str]:
    """Sort by score; of two that answer equally well the later comes first: it is what still holds."""
    return -hit.score, -(hit.summary.occurred_at or 0.0), hit.summary.uri


def fold_turns(hits: Iterable[ScoredHit], turn_of: Callable[[ContextSummary], ContextSummary]) -> list[ScoredHit]:
    """Return one hit for each user's turn with the replies to it, best first.

    `turn_of` finds the turn that a message belongs to. The turn comes first if it matches itself. Of the replies, those
    that match at least as well are named.
    """
    groups: dict[str, list[ScoredHit]] = {}
    for hit in sorted(hits, key=sort_key):
        groups.setdefault(turn_of(hit.summary).uri, []).append(hit)
    folded = []
    for address, group in groups.items():
        turn = next((hit for hit in group if hit.summary.uri == address and hit.is_seed), None)
        first = turn or group[0]
        others = [hit.summary.uri for hit in group if hit is not first and hit.is_seed and hit.score >= first.score]
        if first.summary.uri != address:
            others = [*(other for other in others if other != address), address]
        folded.append(replace(first, score=group[0].score, folded=tuple(others)))
    return sorted(folded, key=sort_key)


def fold_under_memories(said: Sequence[ScoredHit], extracted: Sequence[ScoredHit]) -> list[ScoredHit]:
    """Return the messages without those that a better memory names as its evidence."""
    scores: dict[str, float] = {}
    for memory in extracted:
        for source in memory.summary.sources:
            scores[source] = max(scores.get(source, 0.0), memory.score)
    return [hit for hit in said if scores.get(hit.summary.uri, 0.0) < hit.score]


def rank_updates_first(
    turns: Sequence[ScoredHit], memories: Sequence[ScoredHit], match: Callable[[str, str], Sequence[str]]
) -> list[ScoredHit]:
    """Return the turns, best first; a statement that something changed comes before the one that it changes.

    `memories` are extracted ones that may be outdated, too. `match` returns the words that two texts share. A day
    counts as a whole, and a speaker updates only what they said themselves.
    """
    ordered = sorted(turns, key=sort_key)
    changes = [(hit.summary, sentences) for hit in ordered if (sentences := _find_changes(hit.summary))][:_UPDATES]
    if not changes:
        return ordered
    texts = [hit.summary.abstract.lower() for hit in ordered]
    scores = {hit.summary.uri: hit.score for hit in ordered}
    for earlier in [*ordered[:_UPDATED], *memories]:
        for later, sentences in changes:
            if not _can_update(later, earlier.summary):
                continue
            shared = {word for sentence in sentences for word in match(earlier.summary.abstract, sentence)}
            if any(sum(word in text for text in texts) <= _BOTH for word in shared if _is_topic_word(word)):
                scores[later.uri] = max(scores[later.uri], _LIFT * earlier.score)
    return sorted((replace(hit, score=scores[hit.summary.uri]) for hit in ordered), key=sort_key)


def _find_changes(summary: ContextSummary) -> list[str]:
    """Return the sentences of a user's message which say that something is not as it was."""
    if (
        not summary.is_part
        or not messages.has_role(messages.USER_ROLES, summary.role)
        or not _UPDATE.search(summary.abstract.lower())
    ):
        return []
    return [text for text in _split(summary.abstract) if _UPDATE.search(text.lower()) and not QUESTION.search(text)]


def _can_update(later: ContextSummary, earlier: ContextSummary) -> bool:
    if earlier.is_part and not messages.has_role(messages.USER_ROLES, earlier.role):
        return False
    # «Standup: …» is written like a name.
    speakers = {
        summary.name
        for summary in (later, earlier)
        if summary.is_part and not messages.has_role(messages.ALL_ROLES, summary.name)
    }
    if len(speakers) > 1:
        return False
    day, before = _get_day(later), _get_day(earlier)
    return day is not None and before is not None and day > before


def _is_topic_word(word: str) -> bool:
    """Return whether a word says what a statement is about: a single character or a number does not."""
    return len(word) > 1 and not word.isdigit()


def _is_question(text: str) -> bool:
    """Return whether a message is only a question."""
    sentences = _split(text)
    return len(sentences) == 1 and QUESTION.search(sentences[0]) is not None


def _split(text: str) -> list[str]:
    return [sentence for part in _BETWEEN_SENTENCES.split(text) if (sentence := part.strip())]


def _get_day(summary: ContextSummary) -> int | None:
    return None if summary.occurred_at is None else int(summary.occurred_at // _DAY_S)
