"""How a profile grows: which records a statement can support or contradict, and what is then written."""

import re
from collections.abc import Mapping
from typing import Any, Final

from knowhub.conversations.statements import Reader, parse_statement
from knowhub.core.operation import Row
from knowhub.knowledge.extract.model import PROFILE_CATEGORIES, CandidateCategory
from knowhub.knowledge.feedback import evidence
from knowhub.knowledge.model import Feedback

_MAX_CONTENT_CHARS: Final = 2_000
# A user repeats a record with its label.
_SAID_TWICE: Final = re.compile(r"^(用户说：|The user said: )(?:\s*(?:content:\s*)?(?:用户说：|The user said: ))+")
# Words for a change, and for answers, which have one language.
_EXCLUSIVE: Final = re.compile(
    r"以后|今后|从现在|从今|改|换成|不再|其实|一律|统一|回答|回复|答复"
    r"|\b(?:from now on|now|going forward|instead|no longer|any ?more|switch(?:ed)?|moved?|changed?|actually|only"
    r"|answers?|answering|repl(?:y|ies)|respon[ds]\w*)\b",
    re.IGNORECASE,
)


def is_exclusive(category: CandidateCategory, said: str) -> bool:
    """Return whether only one language, tool, day or figure can hold.

    A habit is not exclusive: who meets on Mondays may also meet on Fridays. Corrections and limits are, and so are
    wishes that state a change.
    """
    if category in (CandidateCategory.CORRECTION, CandidateCategory.CONSTRAINT):
        return True
    return category is CandidateCategory.PREFERENCE and _EXCLUSIVE.search(said) is not None


def is_related(new: CandidateCategory, stored: str) -> bool:
    """Return whether a candidate may support or contradict a stored record, by their categories."""
    if new is CandidateCategory.CORRECTION or stored == CandidateCategory.CORRECTION:
        return stored in (*PROFILE_CATEGORIES, CandidateCategory.CORRECTION)
    if new in PROFILE_CATEGORIES:
        # Wishes, habits and rules are said in each other's form; a background is not.
        return stored in PROFILE_CATEGORIES and (new is CandidateCategory.BACKGROUND) == (
            stored == CandidateCategory.BACKGROUND
        )
    return stored == new


def add_support(row: Row, said: str, case: Mapping[str, Any], now: float, read: Reader = parse_statement) -> Row:
    """Return a record with one more case of evidence, completed by what was said (渐进式)."""
    after = evidence.with_feedback(row, Feedback(helpful_case=case), now)
    content = merge_content(row["content"], said, read)
    return after if content == row["content"] else {**after, "content": content}


def add_conflict(row: Row, case: Mapping[str, Any], now: float) -> Row:
    """Return a record with evidence against it, which lowers its confidence."""
    return evidence.with_feedback(row, Feedback(harmful_case=case), now)


def merge_content(stored: str, said: str, read: Reader = parse_statement) -> str:
    """Return the longer text if it contains the other, else both."""
    said = _SAID_TWICE.sub(r"\1", said)
    known, new = read(stored).parts, read(said).parts
    if new <= known or len(stored) > _MAX_CONTENT_CHARS:
        return stored
    if known <= new:
        return said
    together = f"{stored}\n{said}"
    return together if len(together) <= _MAX_CONTENT_CHARS else stored


def has_evidence_from(row: Row, message_id: str) -> bool:
    """Return whether a message is evidence of a record already; it must not count twice."""
    if row["source"]["message_id"] == message_id or message_id in _as_tuple(row["tags"].get("message_ids", ())):
        return True
    evaluation = row["eval"]
    cases = (*evaluation["helpful_history"], *evaluation["harmful_history"])
    return any(case.get("message_id") == message_id for case in cases)


def _as_tuple(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
