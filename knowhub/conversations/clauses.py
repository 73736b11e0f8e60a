"""Cut a sentence into clauses, so that a fact that ends later takes nothing else with it."""

import re
from collections.abc import Callable, Sequence
from typing import Final

import rjieba

from knowhub.conversations import statement_forms
from knowhub.conversations.sentences import Sentence, is_chinese

_BETWEEN: Final = re.compile(r"\s?(?:[,;]\s?)?\b(?:and|but|so) |[，；,;]\s?")
_LEAST_CHINESE_CHARS: Final = 4
_TO_OTHERS: Final = frozenset("你您请")
# A clause with a subject and a verb.
_CLAUSE: Final = re.compile(
    r"(?:i|we|he|she|they)(?:'\w+)? (?!think|guess|hope|mean|know|believe)\w+\b ?\W?\w|(?:have|am|keep|please) \w"
    r"|(?:my|our|his|her|their) [^,;]{1,40} (?:is|are|was|were|has|have|had|can|will|\w+s)\b"
)
# Where a question may follow a statement: «I prefer tabs, can you fix this?»
_ASKS: Final = re.compile(
    r"[,;，；]\s*(?:and |so |but )?(?:(?:can|could|would|will|should) (?:you|i|we)\b"
    r"|i(?:'m| am| was) wondering\b|i (?:want|need|would like) to know\b).*$"
    r"|[,;，；]\s*(?:and |so |but )?(?:can|could|would|will|what|how|where|which|is|are|do|does|any|should)\b[^,;]*$"
    r"|[，；](?:能|可以|有|怎么|什么|哪|要不要|帮)[^，；]*$"
)

_DOUBTS: Final = re.compile(r"[,;，；]\s*(?:(?:and|but|但|不过) ?)?(?:(?:i'm |i am )?not sure|maybe|也许|可能|不确定)")


def split_clauses(bare: str, facts: Sequence[int], is_complete: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return the start and end of each part, given where the facts are: clauses with a fact, and those between.

    A clause that is not complete stays with the one before it: «I live in Bonn, near the river».
    """
    cuts = list(_BETWEEN.finditer(bare))
    parts: list[tuple[int, int]] = []
    before = (False, False)
    for start, end in zip([0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(bare)], strict=True):
        has_fact = any(start <= place < end for place in facts)
        stands = has_fact or is_complete(bare[start:end])
        is_joined = bool(parts) and (not stands or not before[1] or not (has_fact or before[0]))
        parts = [*parts[:-1], (parts[-1][0], end)] if is_joined else [*parts, (start, end)]
        before = (has_fact or before[0], stands or before[1]) if is_joined else (has_fact, stands)
    return parts


def has_verb(clause: str) -> bool:
    """Return whether a clause tells something of the user or theirs, and is no courtesy."""
    if not is_chinese(clause):
        return _CLAUSE.match(clause) is not None
    is_told = len(clause) >= _LEAST_CHINESE_CHARS and _TO_OTHERS.isdisjoint(clause)
    return is_told and any(tag[0] == "v" for _, tag in rjieba.tag(clause))


def without_question(sentence: Sentence) -> tuple[str, str]:
    """Return a sentence without the question at its end, or the doubt behind a preference; else two empty texts."""
    text, bare = sentence.text, sentence.bare
    doubt = _DOUBTS.search(bare) if len(text) == len(bare) else None
    if doubt is not None and statement_forms.PREFERENCE.search(bare, 0, doubt.start()):
        text, bare = text[: doubt.start()], bare[: doubt.start()]
    if not statement_forms.QUESTION.search(bare) or statement_forms.POLITE.search(bare):
        return text, bare
    asks = _ASKS.search(bare) if len(text) == len(bare) else None
    return ("", "") if asks is None else (text[: asks.start()], bare[: asks.start()])
