"""Split a sentence into clauses, each with its facts, and cut off a question at its end."""

import re
from collections.abc import Sequence
from typing import Final

from knowhub.conversations.language.sentence_ends import find_clauses
from knowhub.conversations.sentences import Sentence
from knowhub.conversations.statements import forms

# How a clause begins that says something of the user or theirs alone.
_OWN: Final = re.compile(
    r"(?:i|we)(?:'\w+)? (?!think|guess|hope|mean|know|believe)\w|(?:[我对有养也不别]|每次|以后)\w\w"
    r"|(?:my|our|have|am|keep|please|always|never|from now on) \w+ \w|(?<=\band )[a-z]+ (?:at|as|for|in|on|an?|the)\b"
    r"|(?:老[婆公]|妻子|丈夫|太太|爱人|[男女]朋友|儿子|女儿|孩子|[爸妈哥弟姐妹])\w\w|在\w{1,10}?(?:上班|工作|上学|读书)"
)
# Where a question may follow a statement: «I prefer tabs, can you fix this?»
_QUESTION_BEHIND: Final = re.compile(
    r"[,;，；]\s*(?:and |so |but )?(?:(?:(?:can|could|would|will|should) (?:you|i|we)\b|i(?:'m| am| was) wondering\b"
    r"|i (?:want|need|would like) to know\b).*"
    r"|(?:what|how|where|which|is|are|do|does|any|能|可以|有|怎么|什么|哪|要不要|帮)[^,;，；]*)$"
)


def split_clauses(folded: str, facts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the start and end of each part, given where the facts are.

    It begins with a clause that gives a fact or says something alone; «near the river» stays with the one before it.
    """
    parts: list[tuple[int, int]] = []
    is_said = False
    for start, end in find_clauses(folded):
        begins = any(start <= fact < end for fact in facts) or _OWN.match(folded, start) is not None
        # What is before the first of them belongs to it.
        parts = [*parts, (start, end)] if (begins and is_said) or not parts else [*parts[:-1], (parts[-1][0], end)]
        is_said = is_said or begins
    return parts


def cut_question(sentence: Sentence) -> tuple[str, str]:
    """Return a sentence without the question at its end; of a question two empty texts."""
    text, folded = sentence.text, sentence.folded
    if not forms.QUESTION.search(folded) or forms.POLITE.search(folded):
        return text, folded
    asks = _QUESTION_BEHIND.search(folded) if len(text) == len(folded) else None
    return ("", "") if asks is None else (text[: asks.start()], folded[: asks.start()])
