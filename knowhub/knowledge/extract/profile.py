"""How a profile grows: which records a statement can support or contradict, and what is then written."""

import re
from collections.abc import Mapping
from typing import Any, Final

from knowhub.core.operation import Row
from knowhub.knowledge.extract.model import PROFILE_CATEGORIES, CandidateCategory
from knowhub.knowledge.feedback import evidence
from knowhub.knowledge.model import Feedback

_MAX_CONTENT_CHARS: Final = 2_000
# A user repeats a record with its label.
_SAID_TWICE: Final = re.compile(r"^(用户说：|The user said: )(?:\s*(?:content:\s*)?(?:用户说：|The user said: ))+")
_LABEL: Final = re.compile(r"^(?:用户说：|The user said: )", re.MULTILINE)
_WORD: Final = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]")


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


def add_support(row: Row, said: str, case: Mapping[str, Any], now: float) -> Row:
    """Return a record with one more case of evidence, completed by what was said (渐进式)."""
    after = evidence.with_feedback(row, Feedback(helpful_case=case), now)
    content = merge_content(row["content"], said)
    return after if content == row["content"] else {**after, "content": content}


def merge_content(stored: str, said: str) -> str:
    """Return the longer text if it contains the words of the other, else both."""
    said = _SAID_TWICE.sub(r"\1", said)
    known, new = (_list_words(without_label(text)) for text in (stored, said))
    if new <= known or len(stored) > _MAX_CONTENT_CHARS:
        return stored
    if known <= new:
        return said
    together = f"{stored}\n{said}"
    return together if len(together) <= _MAX_CONTENT_CHARS else stored


def without_label(text: str) -> str:
    """Return a record without the words that say whose statement it is."""
    return _LABEL.sub("", text)


def has_evidence_from(row: Row, message_id: str) -> bool:
    """Return whether a message is evidence of a record already; it must not count twice."""
    if row["source"]["message_id"] == message_id or message_id in _as_tuple(row["tags"].get("message_ids", ())):
        return True
    evaluation = row["eval"]
    cases = (*evaluation["helpful_history"], *evaluation["harmful_history"])
    return any(case.get("message_id") == message_id for case in cases)


def _as_tuple(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _list_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))
