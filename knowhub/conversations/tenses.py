"""Whether a sentence tells of a day that is past or of one to come."""

import re
from datetime import date
from typing import Final

from knowhub.conversations import dates

# Whether a day without a year was the last or is the next one, only the tense can tell.
_NEARER_DAYS: Final = 183
# What is arranged in the past is to come.
_ARRANGED: Final = (
    r"(?:book|schedul|reserv|arrang|plan|mov|postpon|push|reschedul|sign|agree|invit|delay|confirm|told)\w*"
)
_COMING_ZH: Final = "订约定买报改推挪延排取要会快就该不起"
# A day in such a clause is past; in the others it is to come.
_TOLD: Final = re.compile(
    rf"(?<!\bbe )(?<!\bgets )(?<!\bget )\b(?!{_ARRANGED})(?:(?:was|were|had|did|got)\b(?! {_ARRANGED})"
    r"|(?:died|went|saw|took|came|met|began|left|won|lost|broke|gave|flew|drove|ate|fell|\w{2,20}[^e\W]ed)\b)"
    rf"|^[^了{_COMING_ZH}]*了[^{_COMING_ZH}]*$|^[^{_COMING_ZH}]*的[。.！!]*$"
)
_PRESENT: Final = re.compile(r"\b(?:is|are|it's|am|will)\b|'(?:re|m|ll)\b")
_COMING: Final = re.compile(r"\b(?:have to|must|due|next|\w+s)\b|[要会将]|打算|准备|计划|明年")
_CLAUSE: Final = re.compile(r"[^,;，；。]+")


def find_due(text: str, said: date) -> date | None:
    """Return the coming day that a text names; None if it tells of the past, or hardly means next year."""
    day = dates.find_coming_day(text, said)
    if day is None or str(day.year) in text:
        return day
    parts = (part[0] for part in _CLAUSE.finditer(text))
    clause = next((part for part in parts if dates.find_coming_day(part, said) == day), text).lower()
    if _PRESENT.search(clause):
        return day
    is_far = day.year > said.year and (day - said).days > _NEARER_DAYS
    return None if _TOLD.search(clause) or (is_far and not _COMING.search(clause)) else day
