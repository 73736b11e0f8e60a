"""The day of a plan: to come by its tense, neither denied nor given up; and where a sentence has several plans."""

import re
from datetime import date
from typing import Final

from knowhub.conversations.language import dates
from knowhub.conversations.language.sentence_ends import COMMA, find_clauses

# Whether a day without a year was the last or is the next one, only the tense can tell.
_NEARER_DAYS: Final = 183
# What is arranged in the past is to come.
_ARRANGED: Final = r"(?:book|(?:re)?schedul|reserv|arrang|plan|mov|postpon|push|sign|agree|invit|delay|confirm|told)\w*"
_COMING_ZH: Final = "订约定买报改推挪延提排取要会快就该不起"
# A day in such a clause is past; in the others it is to come.
_TOLD: Final = re.compile(
    rf"(?<!\bbe )(?<!\bgets )(?<!\bget )\b(?!{_ARRANGED})(?:(?:was|were|had|did|(?<!'ve )got)\b(?! {_ARRANGED})"
    r"|(?:died|went|saw|took|came|met|began|left|won|lost|broke|gave|flew|drove|ate|fell|\w{2,20}[^e\W]ed)\b)"
    rf"|^[^了{_COMING_ZH}]*了[^{_COMING_ZH}]*$|^[^{_COMING_ZH}]*的[。.！!]*$"
)
_COMING: Final = re.compile(
    r"\b(?:is|are|it's|am|will|have to|must|due(?! to)|gets|starts)\b|'(?:re|m|ll)\b|[要会将]|打算|准备|计划|明年"
)
# Right before a day that is no plan's: «not on», «today is», «originally planned for».
_NO_PLAN: Final = re.compile(
    r"(?:\b(?:not|\w{2,6}n't|originally|initially)(?: (?:on|at|in|for|the|planned|scheduled|set|due)){0,4}"
    r"|(?:^|[.;,] ?)(?:(?:right )?now|today)(?:'s| is)(?: the)?"
    r"|不是在?|(?:现在|今天)是|原定[在于]?|原[来本]?计划[在于]?)[ ，,]?$"
)
_MAX_LEAD: Final = 50
_CLOCK: Final = re.compile(
    r"\b\d{1,2}(?::\d\d)? ?(?:[ap]m\b|o'clock)|[上下]午|早上|晚上|中午|[\d一二三四五六七八九十两]{1,3}点半?"
)
# How the clause of a plan begins, its day left out: with what is planned, not with what goes on about another plan.
_PLANNED: Final = re.compile(
    r"\W{0,9}(?:(?:on|at|by|in|also) {1,3}){0,2}"
    r"(?:(?:an?|the|my|our|his|her|their|another|some|i|we|i'\w{1,2}|we'\w{1,2}) {1,3}\w"
    r"|(?!(?:back|until|till|again|then|not|now|to|from|through|instead|maybe|is|are|was|will|which|that|it|they|this"
    r"|and|but|so|returns?|ends?)\b)[a-z][\w'-]{2,30} {1,3}(?:\w{1,30} {1,3})?[a-z][\w'-]{2})"
    r"|\W{0,9}(?![推改延挪提到至回结再又不])[\u4e00-\u9fff]{2}"
)


def find_due(text: str, said: date) -> date | None:
    """Return the coming day that a text plans for; None if it tells of the past, or hardly means next year."""
    text = _drop_other_days(text, said)
    day = dates.find_coming_day(text, said)
    if day is None or str(day.year) in text:
        return day
    clause = next((part for part in COMMA.split(text) if dates.find_coming_day(part, said) == day), text).lower()
    is_far = day.year > said.year and (day - said).days > _NEARER_DAYS
    return day if _COMING.search(clause) or not (is_far or _TOLD.search(clause)) else None


def split_plans(folded: str, said: date) -> list[tuple[int, int]]:
    """Return the start and end of each part of a sentence that plans something for a day of its own."""
    parts: list[tuple[int, int]] = []
    has_plan = False
    for start, end in find_clauses(folded):
        is_plan = _is_plan(folded[start:end], said)
        # What says no plan belongs to the one before it.
        is_new = not parts or (is_plan and has_plan)
        parts = [*parts, (start, end)] if is_new else [*parts[:-1], (parts[-1][0], end)]
        has_plan = has_plan or is_plan
    return parts


def count_planned_days(text: str, said: date) -> int:
    """Return on how many days the clauses of a text plan something."""
    return len({find_due(text[start:end], said) for start, end in find_clauses(text)} - {None})


def _is_plan(clause: str, said: date) -> bool:
    if find_due(clause, said) is None:
        return False
    for mention in dates.iter_times(clause, said):
        clause = clause.replace(mention.words, " ")
    return _PLANNED.match(_CLOCK.sub(" ", clause)) is not None


def _drop_other_days(text: str, said: date) -> str:
    """Return a text without the days that it denies, says to be today, or calls given up."""
    for mention in dates.iter_times(text, said):
        lead = text[max(mention.start - _MAX_LEAD, 0) : mention.start].lower()
        if _NO_PLAN.search(lead):
            end = mention.start + len(mention.words)
            text = f"{text[: mention.start]}{' ' * len(mention.words)}{text[end:]}"
    return text
