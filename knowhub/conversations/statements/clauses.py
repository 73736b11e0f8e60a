"""Split a sentence into clauses, each with its facts, cut off a question at its end, and find the day of a plan."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Final

from knowhub.conversations.language import dates
from knowhub.conversations.language.sentence_ends import COMMA, find_clauses
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
# Whether a day without a year was the last or is the next one, only the tense can tell.
_NEARER_DAYS: Final = 183
# What is arranged in the past is to come.
_ARRANGED: Final = r"(?:book|(?:re)?schedul|reserv|arrang|plan|mov|postpon|push|sign|agree|invit|delay|confirm|told)\w*"
_COMING_ZH: Final = "订约定买报改推挪延排取要会快就该不起"
# A day in such a clause is past; in the others it is to come.
_TOLD: Final = re.compile(
    rf"(?<!\bbe )(?<!\bgets )(?<!\bget )\b(?!{_ARRANGED})(?:(?:was|were|had|did|(?<!'ve )got)\b(?! {_ARRANGED})"
    r"|(?:died|went|saw|took|came|met|began|left|won|lost|broke|gave|flew|drove|ate|fell|\w{2,20}[^e\W]ed)\b)"
    rf"|^[^了{_COMING_ZH}]*了[^{_COMING_ZH}]*$|^[^{_COMING_ZH}]*的[。.！!]*$"
)
_COMING: Final = re.compile(
    r"\b(?:is|are|it's|am|will|have to|must|due(?! to)|gets|starts)\b|'(?:re|m|ll)\b|[要会将]|打算|准备|计划|明年"
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


def find_due(text: str, said: date) -> date | None:
    """Return the coming day that a text names; None if it tells of the past, or hardly means next year."""
    day = dates.find_coming_day(text, said)
    if day is None or str(day.year) in text:
        return day
    clause = next((part for part in COMMA.split(text) if dates.find_coming_day(part, said) == day), text).lower()
    is_far = day.year > said.year and (day - said).days > _NEARER_DAYS
    return day if _COMING.search(clause) or not (is_far or _TOLD.search(clause)) else None
