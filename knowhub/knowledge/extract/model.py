"""The request, the candidates and the result of an extraction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from knowhub.conversations.changes.prompt import RefusedChange
from knowhub.conversations.messages import Message
from knowhub.core.operation import Row
from knowhub.knowledge.model import DroppedPart


class Trigger(StrEnum):
    """The occasion of an extraction, for the caller's own notes: the same is found on each."""

    USER_EXPRESSION = "user_expression"
    TASK_COMPLETED = "task_completed"
    TASK_COMPLETION = "task_completion"
    COMPACTION = "compaction"
    USER_FEEDBACK = "user_feedback"


class CandidateCategory(StrEnum):
    """The kind of a candidate. The first four belong to a user profile."""

    PREFERENCE = "preference"
    HABIT = "habit"
    BACKGROUND = "background"
    CONSTRAINT = "constraint"
    DEFINITION = "definition"
    PITFALL = "pitfall"
    OUTCOME = "outcome"
    PLAN = "plan"


PROFILE_CATEGORIES = (
    CandidateCategory.PREFERENCE,
    CandidateCategory.HABIT,
    CandidateCategory.BACKGROUND,
    CandidateCategory.CONSTRAINT,
)


class CandidateStatus(StrEnum):
    """What happened to a candidate.

    NEW was saved. MERGED is new evidence for a record. CHANGED supersedes the record that it contradicts. ENDED closes
    a record that the user took back. KNOWN adds nothing: it is stored already, its message was counted before, or the
    record to end is closed. RECALLED repeats a text of KnowHub. CONTRADICTED is refused, because the user did not say
    it, or because others read the record, too. FAILED cannot be saved.
    """

    NEW = "new"
    MERGED = "merged"
    CHANGED = "changed"
    KNOWN = "known"
    RECALLED = "recalled"
    CONTRADICTED = "contradicted"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class KnowledgeCandidate:
    """Something that may be worth keeping; `cited` are the numbers of the messages that say it.

    Only what `is_said_by_user` can contradict a stored record. `values` are its single-valued facts, `ended` those that
    it says are not so any more. `same_as`, `against` and `ends` are ids of records that a model corrects, replaces and
    forgets.
    """

    category: CandidateCategory
    task: str
    content: str
    cited: tuple[int, ...]
    types: tuple[str, ...]
    is_said_by_user: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    by: str = "rules"
    values: tuple[tuple[str, str], ...] = ()
    ended: tuple[tuple[str, str], ...] = ()
    same_as: str | None = None
    against: str | None = None
    ends: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceSuggestion:
    """A suggestion to save part of a message as a resource. It does not contain the text."""

    content_type: str
    suggested_id: str
    title: str
    message: int
    message_id: str | None
    shown: str


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    """The messages of one conversation, oldest first."""

    messages: Sequence[Message]
    trace_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ExtractionResult:
    """Every candidate with its status, the written records, and suggestions."""

    results: Sequence[Mapping[str, Any]]
    saved: Sequence[Row]
    operation_id: str | None
    resources: Sequence[ResourceSuggestion] = ()
    rejected: Sequence[RefusedChange] = ()
    degraded: Sequence[str] = ()
    dropped: Sequence[DroppedPart] = ()
    messages_read: int = 0
    dry_run: bool = False
